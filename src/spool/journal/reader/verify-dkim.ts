// Verifies the signatures of a message by mailauth, another implementation than the one that made them, against the keys on
// file. Nothing is asked of the DNS. Runs in the process of the content reader alone.

import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import type { SignatureVerdict } from './content-question.ts';

const textCharacters = 500;

function cut(text: unknown): string {
  return typeof text === 'string' ? text.slice(0, textCharacters).toWellFormed() : '';
}

/** Verifies each signature. @param records the DNS records of the keys on file, each name with its text */
export async function verifyDkim(
  octets: Buffer,
  records: readonly (readonly [string, string])[],
): Promise<readonly SignatureVerdict[]> {
  const known = new Map(records);
  const resolver = (name: string): Promise<string[][]> => {
    const text = known.get(name.toLowerCase());
    if (text !== undefined) return Promise.resolve([[text]]);
    return Promise.reject(Object.assign(new Error(`There is no key on file for ${name}`), { code: 'ENOTFOUND' }));
  };
  const { results } = await dkimVerify(octets, { resolver });
  return results.map(({ signingDomain, selector, algo, status, signingHeaders }) => ({
    domain: cut(signingDomain),
    selector: cut(selector),
    algorithm: cut(algo),
    result: cut(status.result),
    reason: status.result === 'pass' ? null : cut(status.comment),
    signed_headers: cut(signingHeaders?.keys),
  }));
}
