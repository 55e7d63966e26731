// Reads the URL of a webhook.

import { isIP } from 'node:net';
import type { RefuseAddress } from './address-guard.ts';

/** The most characters of a URL. */
const urlCharacters = 2000;

/** A host as it is connected to: without the brackets of an IPv6 address. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/** The port that a URL leads to. */
export function portOf({ protocol, port }: URL): number {
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
}

/**
 * Judges a URL as far as that needs no DNS; names are judged by their addresses at each connection.
 * @returns what is wrong with it; undefined where nothing is
 */
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
