// Who the client is (D66): the socket's peer, unless that is a trusted proxy; then who its X-Forwarded-For names.

import { isIP, isIPv4 } from 'node:net';
import type { AddressTest } from '../base/address-test.ts';
import { normalAddress } from '../base/socket-address.ts';

/** The client, and the proxies in between. */
export interface Client {
  readonly address: string;
  /** What X-Forwarded-For is believed of: the client and the trusted proxies behind it, without the peer. */
  readonly forwardedFor: readonly string[];
}

/** Reads one entry of X-Forwarded-For: an address, or one with a port as some proxies write it. */
function readEntry(entry: string): string | undefined {
  const text = entry.trim();
  const bracketed = /^\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{1,5})?$/.exec(text)?.[1];
  const withPort = /^([0-9.]{7,15}):[0-9]{1,5}$/.exec(text)?.[1];
  const address = bracketed ?? (withPort !== undefined && isIPv4(withPort) ? withPort : text);
  if (isIP(address) === 0 || address.includes('%')) return undefined;
  // One spelling for one client, as the system gives it for a peer: limits are counted by it.
  return normalAddress(address);
}

/**
 * Finds the client. From the right every entry is what the hop behind it saw; the first that is no trusted proxy is the
 * client, and what stands before it anybody may have written. An entry that is no address ends the chain: the hop that
 * wrote it is then all that is known.
 * @param lines every X-Forwarded-For line, in order
 */
export function clientOf(peer: string, lines: readonly string[], isTrusted: AddressTest): Client {
  const believed: string[] = [];
  let address = normalAddress(peer) ?? peer;
  const entries = isTrusted(address) && lines.length > 0 ? lines.join(',').split(',') : [];
  for (let index = entries.length - 1; index >= 0 && isTrusted(address); index -= 1) {
    const entry = readEntry(entries[index] ?? '');
    if (entry === undefined) break;
    believed.push(entry);
    address = entry;
  }
  return { address, forwardedFor: believed.toReversed() };
}
