// Verifies DKIM by another implementation (mailauth), with the public keys taken from the private ones on disk.

import { createPrivateKey, createPublicKey } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';

/** One signature's verdict. */
export interface SignatureVerdict {
  readonly domain: string;
  readonly selector: string;
  readonly algorithm: string;
  readonly result: string;
}

function publicRecord(pem: Buffer): string {
  const key = createPublicKey(createPrivateKey(pem));
  if (key.asymmetricKeyType === 'ed25519') {
    const der = key.export({ type: 'spki', format: 'der' });
    return `v=DKIM1; k=ed25519; p=${der.subarray(-32).toString('base64')}`;
  }
  return `v=DKIM1; k=rsa; p=${key.export({ type: 'spki', format: 'der' }).toString('base64')}`;
}

/** The DNS records (name -> text) of every key below `<certsDir>/dkim`. */
export function dkimRecords(certsDir: string): ReadonlyMap<string, string> {
  const records = new Map<string, string>();
  const folder = join(certsDir, 'dkim');
  for (const domain of readdirSync(folder)) {
    for (const file of readdirSync(join(folder, domain))) {
      const selector = file.replace(/\.pem$/, '');
      records.set(`${selector}._domainkey.${domain}`, publicRecord(readFileSync(join(folder, domain, file))));
    }
  }
  return records;
}

/** What mailauth says of each signature of a message. */
export async function verifySignatures(
  message: Buffer,
  records: ReadonlyMap<string, string>,
): Promise<readonly SignatureVerdict[]> {
  const resolver = (name: string): Promise<string[][]> => {
    const text = records.get(name);
    if (text !== undefined) return Promise.resolve([[text]]);
    return Promise.reject(Object.assign(new Error(`no record ${name}`), { code: 'ENOTFOUND' }));
  };
  const verdict = await dkimVerify(message, { resolver });
  return verdict.results.map((result) => ({
    domain: result.signingDomain ?? '',
    selector: result.selector ?? '',
    algorithm: result.algo ?? '',
    result: result.status.result,
  }));
}
