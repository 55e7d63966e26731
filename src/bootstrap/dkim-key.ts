// Makes DKIM keys and tells the DNS record of one (RFC 6376 §3.6.1, RFC 8463).

import { createPublicKey, generateKeyPair, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import type { DkimKeyName } from '../accounts/account.ts';

const generate = promisify(generateKeyPair);

/** Makes a private key in the thread pool: RSA of 2,048 bits, or Ed25519. @returns PKCS #8 as PEM */
export async function generateDkimKey(algorithm: DkimKeyName['algorithm']): Promise<string> {
  const pair = algorithm === 'rsa' ? await generate('rsa', { modulusLength: 2048 }) : await generate('ed25519');
  return pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** A TXT record for DKIM. */
export interface DkimRecord {
  /** `s1._domainkey.example.com` */
  readonly name: string;
  /** The text: `v=DKIM1; k=rsa; p=...` */
  readonly value: string;
}

/** The DNS record that publishes a key. Ed25519 keys stand there as the bare 32 octets (RFC 8463 §4.2). */
export function dkimRecord(key: KeyObject, at: { readonly domain: string; readonly selector: string }): DkimRecord {
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' });
  const isRsa = key.asymmetricKeyType === 'rsa';
  const octets = isRsa ? spki : spki.subarray(-32);
  return {
    name: `${at.selector}._domainkey.${at.domain}`,
    value: `v=DKIM1; k=${isRsa ? 'rsa' : 'ed25519'}; p=${octets.toString('base64')}`,
  };
}

/** A record as a line of a zone file: character-strings of at most 255 octets (RFC 1035 §3.3). */
export function zoneFileLine({ name, value }: DkimRecord): string {
  const strings = value.match(/.{1,250}/g) ?? [];
  return `${name}. IN TXT ( ${strings.map((part) => `"${part}"`).join(' ')} )`;
}
