// Who the client is (D66): the socket's peer, unless that is a trusted proxy; then who its X-Forwarded-For names.

import { isIP, isIPv4 } from 'node:net';
import type { AddressTest } from '../../base/net/address-test.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import { readAuthority } from '../../http/route.ts';

/** The client, and the proxies in between. */
export interface EdgeClient {
  readonly address: string;
  /** What X-Forwarded-For is believed of: the client and the trusted proxies behind it, without the peer. */
  readonly forwardedFor: readonly string[];
  /** What a trusted peer says of how the client came. */
  readonly forwardedProto?: 'http' | 'https';
  /** What a trusted peer says that the client asked for: a host, perhaps with a port. */
  readonly forwardedHost?: string;
}

/** Every line of a field, by its name in lower case. */
export type FieldLines = (name: string) => readonly string[];

/**
 * The value of a list to which each hop adds one, or of a field that the first hop sets and the others pass on: what was
 * written by the hop that took the client's request.
 * @param hops how many trusted hops there are, the peer among them
 */
function firstTrusted(lines: readonly string[], hops: number): string | undefined {
  const values = lines.join(',').split(',');
  return lines.length === 0 ? undefined : values[Math.max(0, values.length - hops)]?.trim();
}

/** What the trusted peer says of the client's request beside its address; a value that cannot be is none. */
function saidOf(lines: FieldLines, hops: number): Pick<EdgeClient, 'forwardedProto' | 'forwardedHost'> {
  const proto = firstTrusted(lines('x-forwarded-proto'), hops)?.toLowerCase();
  const host = firstTrusted(lines('x-forwarded-host'), hops);
  return {
    ...(proto === 'http' || proto === 'https' ? { forwardedProto: proto } : {}),
    ...(host !== undefined && readAuthority(host) !== undefined ? { forwardedHost: host } : {}),
  };
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
 * @param fields the request's fields; only X-Forwarded-For, -Proto and -Host are looked at
 */
export function clientOf(peer: string, fields: FieldLines, isTrusted: AddressTest): EdgeClient {
  const believed: string[] = [];
  let address = normalAddress(peer) ?? peer;
  if (!isTrusted(address)) return { address, forwardedFor: [] };
  const lines = fields('x-forwarded-for');
  const entries = lines.length > 0 ? lines.join(',').split(',') : [];
  for (let index = entries.length - 1; index >= 0 && isTrusted(address); index -= 1) {
    const entry = readEntry(entries[index] ?? '');
    if (entry === undefined) break;
    believed.push(entry);
    address = entry;
  }
  return { address, forwardedFor: believed.toReversed(), ...saidOf(fields, Math.max(1, believed.length)) };
}
