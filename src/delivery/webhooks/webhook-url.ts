// Reads the URL of a webhook.

import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { addressTest, reachedAddresses } from '../../base/net/socket-address.ts';

/** @returns why an address may not be called; undefined where it may */
export type RefuseAddress = (address: string, port: number) => string | undefined;

/** Ranges that ipaddr.js takes for public and that are not: documentation (RFC 9637, RFC 5737), benchmarks, 192.0.0.0/24. */
const besides = addressTest([
  ...['192.0.0.0/24', '192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '198.18.0.0/15', '192.88.99.0/24'],
  ...['3fff::/20', '2001:db8::/32', '2001::/23', '100::/64', 'fec0::/10', '5f00::/16'],
]);

function isPublic(address: string): boolean {
  return ipaddr.process(address).range() === 'unicast' && !besides(address);
}

/** Addresses whose judgement is remembered, at most: then all are forgotten. */
const mostJudged = 1000;

/** Makes the judge of the addresses that a connection may end at, whatever their spelling. @throws ConfigurationError for no network */
export function createAddressGuard(parts: {
  /** Networks that may be called although they are not public. */
  readonly allowNetworks: readonly string[];
  /** Whether Postern itself listens at an address; asked with each connection. Absent: nowhere. */
  readonly isOwn?: (address: string, port: number) => boolean;
}): RefuseAddress {
  const { allowNetworks, isOwn } = parts;
  const isAllowed = addressTest(allowNetworks);
  const known = new Map<string, { readonly reached: readonly string[]; readonly isOpen: boolean }>();
  const judge = (address: string) => {
    const reached = reachedAddresses(address);
    // Behind 6to4 and NAT64 stands an IPv4 address, which decides; the range of the wrapping tells nothing.
    const judged = reached.length > 1 ? reached.slice(1) : reached;
    const isOpen = isAllowed(reached[0] ?? '') || judged.every((one) => isAllowed(one) || isPublic(one));
    if (known.size >= mostJudged) known.clear();
    known.set(address, { reached, isOpen });
    return { reached, isOpen };
  };
  return (address, port) => {
    const { reached, isOpen } = known.get(address) ?? judge(address);
    const [own] = reached;
    if (own === undefined) return 'it has no IP address';
    if (reached.some((one) => isOwn?.(one, port))) return `Postern itself listens at ${own}`;
    return isOpen ? undefined : `${own} is no public address, and webhooks.allowNetworks does not name it`;
  };
}

const urlCharacters = 2000;

/** A host as it is connected to: without the brackets of an IPv6 address. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/** The port that a URL leads to. */
export function portOf({ protocol, port }: URL): number {
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
}

/** Tells what is wrong with a URL as far as that needs no DNS; names are judged at each connection. Undefined: nothing. */
export function urlFault(
  text: string,
  { allowHttp, refuse }: { readonly allowHttp: boolean; readonly refuse: RefuseAddress },
): string | undefined {
  if (text.length > urlCharacters) return `has ${text.length} characters; want at most ${urlCharacters}`;
  if (!/^[\x21-\x7e]+$/.test(text) || !URL.canParse(text)) return 'is no URL';
  const url = new URL(text);
  if (url.protocol !== 'https:' && !(allowHttp && url.protocol === 'http:')) {
    return allowHttp ? 'must begin with https:// or http://' : 'must begin with https://';
  }
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password';
  if (url.hash !== '') return 'must not contain a fragment';
  if (url.port === '0') return 'must not have port 0';
  const host = hostOf(url);
  if (isIP(host) === 0) return undefined;
  // The parser has read every spelling of an address: 127.1, 0x7f000001, [::ffff:7f00:1].
  const refused = refuse(host, portOf(url));
  return refused === undefined ? undefined : `may not be called: ${refused}`;
}
