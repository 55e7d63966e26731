// Who the client is (D66): the socket's peer, unless that is a trusted proxy; then who its X-Forwarded-For names.

import { isIP, isIPv4, isIPv6 } from 'node:net';
import { type AddressSet, plainAddress } from './address-set.ts';

/** The client, and the proxies in between. */
export interface Client {
  readonly address: string;
  /** What X-Forwarded-For is believed of: the client and the trusted proxies behind it, without the peer. */
  readonly forwardedFor: readonly string[];
}

/** One spelling for one client, as the system gives it for a peer (RFC 5952): limits are counted by it. */
function shortAddress(address: string): string {
  const short = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(short);
  if (!mapped) return short;
  const [high, low] = mapped.slice(1).map((group) => Number.parseInt(group, 16));
  return [high ?? 0, low ?? 0].flatMap((group) => [group >> 8, group & 0xff]).join('.');
}

/** Reads one entry of X-Forwarded-For: an address, or one with a port as some proxies write it. */
function readEntry(entry: string): string | undefined {
  const text = entry.trim();
  const bracketed = /^\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{1,5})?$/.exec(text)?.[1];
  const withPort = /^([0-9.]{7,15}):[0-9]{1,5}$/.exec(text)?.[1];
  const address = bracketed ?? (withPort !== undefined && isIPv4(withPort) ? withPort : text);
  if (isIP(address) === 0 || address.includes('%')) return undefined;
  return isIPv6(address) ? shortAddress(address) : address;
}

/**
 * Finds the client. From the right every entry is what the hop behind it saw; the first that is no trusted proxy is the
 * client, and what stands before it anybody may have written. An entry that is no address ends the chain: the hop that
 * wrote it is then all that is known.
 * @param lines every X-Forwarded-For line, in order
 */
export function clientOf(peer: string, lines: readonly string[], isTrusted: AddressSet): Client {
  const believed: string[] = [];
  let address = plainAddress(peer);
  const entries = isTrusted(address) && lines.length > 0 ? lines.join(',').split(',') : [];
  for (let index = entries.length - 1; index >= 0 && isTrusted(address); index -= 1) {
    const entry = readEntry(entries[index] ?? '');
    if (entry === undefined) break;
    believed.push(entry);
    address = entry;
  }
  return { address, forwardedFor: believed.toReversed() };
}
