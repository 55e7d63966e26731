// DKIM keys and their DNS records (RFC 6376 §3.6.1, RFC 8463 §4; D27).

import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import { errorMessage } from '../../base/errors.ts';
import type { SigningKey } from './sign.ts';

/** RFC 8301 §3.2: verifiers refuse RSA keys under this many bits. */
const smallestRsaBits = 1024;
/** RFC 8301 §3.2: signers SHOULD use at least this many. */
const rsaBits = 2048;
/** RFC 1035 §3.3: octets of one character-string of a TXT record. */
const longestString = 255;

/** Makes a private key: RSA-2048 or Ed25519. @returns PKCS #8 in PEM */
export async function generateDkimKey(algorithm: SigningKey['algorithm']): Promise<string> {
  const generate = promisify(generateKeyPair);
  const { privateKey } =
    algorithm === 'rsa' ? await generate('rsa', { modulusLength: rsaBits }) : await generate('ed25519', {});
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** A key and its place in the DNS, for `parseSigningKey` and `dkimRecord`. */
export interface KeyOrigin {
  /** A-label, lower case. */
  readonly domain: string;
  readonly selector: string;
  readonly pem: string;
}

/** Parses a private key once. @throws Error saying what is wrong: no key, another type than `algorithm`, RSA under 1024 bits */
export function parseSigningKey(place: KeyOrigin & { readonly algorithm: SigningKey['algorithm'] }): SigningKey {
  const { domain, selector, algorithm } = place;
  const key = readPrivateKey(place);
  if (key.asymmetricKeyType !== algorithm) {
    throw new Error(`DKIM key ${named(place)} is ${key.asymmetricKeyType}, not ${algorithm}`);
  }
  return { domain, selector, algorithm, key };
}

function named({ domain, selector }: KeyOrigin): string {
  return `${selector}._domainkey.${domain}`;
}

function readPrivateKey(place: KeyOrigin): KeyObject {
  let key: KeyObject;
  try {
    key = createPrivateKey(place.pem);
  } catch (error) {
    throw new Error(`DKIM key ${named(place)} cannot be read as a private key in PEM: ${errorMessage(error)}`, {
      cause: error,
    });
  }
  const bits = key.asymmetricKeyDetails?.modulusLength;
  if (bits !== undefined && bits < smallestRsaBits) {
    throw new Error(`DKIM key ${named(place)} has ${bits} bits, at least ${smallestRsaBits} are needed`);
  }
  if (key.asymmetricKeyType !== 'rsa' && key.asymmetricKeyType !== 'ed25519') {
    throw new Error(`DKIM key ${named(place)} is ${key.asymmetricKeyType}, only rsa and ed25519 are known`);
  }
  return key;
}

/** A DNS TXT record. */
export interface DkimRecord {
  /** Without a trailing dot. */
  readonly name: string;
  /** The character-strings joined. */
  readonly value: string;
  /** One line of a zone file, the value in strings of at most 255 octets. */
  readonly zone: string;
}

/** Writes a TXT record; name and value are ASCII without quotes. */
export function txtRecord(name: string, value: string): DkimRecord {
  const strings: string[] = [];
  for (let start = 0; start < value.length; start += longestString) {
    strings.push(`"${value.slice(start, start + longestString)}"`);
  }
  const data = strings.length === 1 ? strings.join('') : `( ${strings.join('\n\t')} )`;
  return { name, value, zone: `${name}. IN TXT ${data}` };
}

/** Gives the record that publishes the public half of a parsed key. */
export function publicRecord({ domain, selector, key }: Pick<SigningKey, 'domain' | 'selector' | 'key'>): DkimRecord {
  const ed25519 = key.asymmetricKeyType === 'ed25519';
  // RFC 8463 §4: the 32 octets of the key itself; RFC 6376 §3.6.1: RSA as SubjectPublicKeyInfo.
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' });
  const octets = ed25519 ? spki.subarray(-32) : spki;
  const value = `v=DKIM1; k=${ed25519 ? 'ed25519' : 'rsa'}; p=${octets.toString('base64')}`;
  return txtRecord(`${selector}._domainkey.${domain}`, value);
}

/** Gives the record that publishes a private key's public half. @throws Error as `parseSigningKey` does */
export function dkimRecord(place: KeyOrigin): DkimRecord {
  return publicRecord({ ...place, key: readPrivateKey(place) });
}
