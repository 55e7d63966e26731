// Finds the client of a request (D66): the socket's peer, or, if that is a trusted proxy, the address in X-Forwarded-For.

import { isIP, isIPv4 } from 'node:net';
import type { AddressTest } from '../../base/net/address-test.ts';
import { ownText } from '../../base/net/own-text.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import { readAuthority } from '../../web/http/route.ts';

/** The codes that a proxy may report: those that failing origins have. */
const reportedCodes = [520, 521, 522, 523, 524, 525, 526, 1016] as const;

/** What was reported: a code, or what is to be found out by connecting. */
export type ReportedFailure = {
  /** The method by which the client asked; absent: that of the request. */
  readonly method?: string | undefined;
} & (
  | { readonly kind: 'known'; readonly code: (typeof reportedCodes)[number] }
  | { readonly kind: 'connect' }
  | { readonly kind: 'since'; readonly at: number }
);

/**
 * Reads a failure that a trusted proxy in front reports: it has asked the origin itself, and wants the client told by us what failed.
 *
 *     X-Forwarded-Failure: 524          the code, where the proxy knows it
 *     X-Forwarded-Failure: connect      it could not connect, and does not know why
 *     X-Forwarded-Failure: since=MS     it got no answer; it began at that time (milliseconds since 1970)
 *
 * Behind a blank may stand the method of the request, where the proxy has to send it on by another one (Caddy).
 * @param lines every line of X-Forwarded-Failure
 * @returns undefined where nothing was reported, or nothing that can be read
 */
export function readReportedFailure(lines: readonly string[]): ReportedFailure | undefined {
  const [line = ''] = lines;
  const [, what, since, method] = /^([0-9]{3,4}|connect|since=([0-9]{1,15}))(?: ([A-Z]{1,20}))?$/.exec(line) ?? [];
  if (lines.length !== 1 || what === undefined) return undefined;
  if (what === 'connect') return { kind: 'connect', method };
  if (since !== undefined) return { kind: 'since', at: Number(since), method };
  const code = reportedCodes.find((known) => String(known) === what);
  return code === undefined ? undefined : { kind: 'known', code, method };
}

/** The client, and the proxies in between. */
export interface EdgeClient {
  readonly address: string;
  /** The believed part of X-Forwarded-For: the client and the trusted proxies after it, without the peer. */
  readonly forwardedFor: readonly string[];
  /** The scheme by which the client came, as a trusted peer tells it. */
  readonly forwardedProto?: 'http' | 'https' | undefined;
  /** The host that the client asked for, perhaps with a port, as a trusted peer tells it. */
  readonly forwardedHost?: string | undefined;
  /** The failure of the origin that a trusted peer has met and wants told. */
  readonly failure?: ReportedFailure | undefined;
}

/** Gives every line of a field, by its name in lower case. */
export type FieldLines = (name: string) => readonly string[];

/** What the hop which took the client's request wrote, in a list that grows or a field that is passed on. @param hops trusted ones */
function firstTrusted(lines: readonly string[], hops: number): string | undefined {
  const values = lines.join(',').split(',');
  return lines.length === 0 ? undefined : values[Math.max(0, values.length - hops)]?.trim();
}

/** What a trusted peer tells of the client's request besides its address. An impossible value counts as absent. */
function saidOf(lines: FieldLines, hops: number): Pick<EdgeClient, 'forwardedProto' | 'forwardedHost' | 'failure'> {
  const proto = firstTrusted(lines('x-forwarded-proto'), hops)?.toLowerCase();
  const host = firstTrusted(lines('x-forwarded-host'), hops);
  return {
    forwardedProto: proto === 'http' || proto === 'https' ? proto : undefined,
    forwardedHost: host !== undefined && readAuthority(host) !== undefined ? host : undefined,
    failure: readReportedFailure(lines('x-forwarded-failure')),
  };
}

/** Reads one entry of X-Forwarded-For: an address, or one with a port as some proxies write it. */
function readEntry(entry: string): string | undefined {
  const text = entry.trim();
  const bracketed = /^\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{1,5})?$/.exec(text)?.[1];
  const withPort = /^([0-9.]{7,15}):[0-9]{1,5}$/.exec(text)?.[1];
  const address = bracketed ?? (withPort !== undefined && isIPv4(withPort) ? withPort : text);
  if (isIP(address) === 0 || address.includes('%')) return undefined;
  // The system's spelling of a peer, which limits count by and remember; it must not keep the whole field.
  const normal = normalAddress(address);
  return normal === undefined ? undefined : ownText(normal);
}

/** Finds the client: from the right of X-Forwarded-For the first that is no trusted proxy. What is no address ends the reading there. */
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
