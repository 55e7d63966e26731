// What the sources of the gateway import of Node besides its Buffer, without Node: `node:buffer`, `node:url`, `node:module`.

import { Octets } from './octets.ts';

export { isAscii, isUtf8, Octets as Buffer } from './octets.ts';

/** A host of one name, in two spellings: a name that is refused leaves both as they are. */
const hosts = ['a', 'b'] as const;

/** Turns a name into A-labels as the host of a URL; '' where it cannot be one. */
export function domainToASCII(domain: string): string {
  const [one = '', other = ''] = hosts.map((host) => {
    const url = new URL(`ws://${host}`);
    url.hostname = domain;
    return url.hostname;
  });
  return one === other ? one : '';
}

/** Stands for the loader of the one package that is loaded at its first use: encoding-japanese, which reads relatives of iso-2022-jp. */
export function createRequire(): () => unknown {
  const decoder = new TextDecoder('iso-2022-jp');
  return () => ({ convert: (octets: Uint8Array) => decoder.decode(Octets.view(octets)) });
}
