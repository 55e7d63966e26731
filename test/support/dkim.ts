// DKIM keys of the tests and another implementation's verdict on our signatures.

import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { dkimRecord, generateDkimKey, parseSigningKey } from '../../src/pipeline/sign/dkim-key.ts';
import type { SigningKey } from '../../src/pipeline/sign/sign.ts';

/** A key with its record. */
export interface TestKey {
  readonly signing: SigningKey;
  readonly recordName: string;
  readonly recordValue: string;
}

/** Makes a key and its record. */
export async function makeKey(domain: string, selector: string, algorithm: 'rsa' | 'ed25519'): Promise<TestKey> {
  const pem = await generateDkimKey(algorithm);
  const { name, value } = dkimRecord({ domain, selector, pem });
  return { signing: parseSigningKey({ domain, selector, pem, algorithm }), recordName: name, recordValue: value };
}

/** What the verifier says of each signature, in their order: `pass example.com s1` or its reason. */
export async function verdicts(message: Buffer, keys: readonly TestKey[]): Promise<readonly string[]> {
  const records = new Map(keys.map(({ recordName, recordValue }) => [recordName, recordValue]));
  const result = await dkimVerify(message, {
    resolver: (name: string, type: string) => {
      const value = type === 'TXT' ? records.get(name) : undefined;
      if (value !== undefined) return Promise.resolve([[value]]);
      return Promise.reject(Object.assign(new Error('no such record'), { code: 'ENOTFOUND' }));
    },
  });
  return result.results.map(({ status, signingDomain, selector }) => `${status.result} ${signingDomain} ${selector}`);
}
