// Builds messages with the gateway's own code, every arbitrary thing fixed (clock, ids, HMAC key); DKIM keys are made
// anew each run, so signatures differ and everything else is the same to the octet.

import { createSecretKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SigningKey } from '../../src/pipeline/sign/sign.ts';
import { type BuildParts, build } from '../../src/pipeline/submit.ts';
import { clockOf } from './manual-clock.ts';
import { context, devAccount, type SubmissionOptions, smtpSubmission } from './policy-fixtures.ts';

/** Reads the credential and the reverse-path that the .case.json beside a golden message names; none: the defaults. */
export function readGoldenCase(folder: string, name: string): SubmissionOptions {
  const file = join(folder, `${name}.case.json`);
  if (!existsSync(file)) return {};
  const { credential, reversePath }: SubmissionOptions = JSON.parse(readFileSync(file, 'utf8'));
  return {
    ...(credential === undefined ? {} : { credential }),
    ...(reversePath === undefined ? {} : { reversePath }),
  };
}

/** Mon, 02 Mar 2026 10:20:30 UTC. */
const goldenNow = Date.UTC(2026, 2, 2, 10, 20, 30);
const goldenId = '019cae1a-0030-7000-8000-000000000001';

function publicRecord(key: KeyObject, algorithm: 'rsa' | 'ed25519'): string {
  const der = key.export({ type: 'spki', format: 'der' });
  return `v=DKIM1; k=${algorithm}; p=${(algorithm === 'rsa' ? der : der.subarray(-32)).toString('base64')}`;
}

/** Keys of one run with their DNS records. */
export interface GoldenKeys {
  readonly domains: ReadonlyMap<string, readonly SigningKey[]>;
  readonly platform: readonly SigningKey[];
  /** `s1._domainkey.example.com` -> text. */
  readonly records: ReadonlyMap<string, string>;
}

/** Makes RSA and Ed25519 keys for the test account's domains and one for the platform. */
export function makeGoldenKeys(): GoldenKeys {
  const records = new Map<string, string>();
  const make = (domain: string, selector: string, algorithm: 'rsa' | 'ed25519'): SigningKey => {
    const pair =
      algorithm === 'rsa' ? generateKeyPairSync('rsa', { modulusLength: 2048 }) : generateKeyPairSync('ed25519');
    records.set(`${selector}._domainkey.${domain}`, publicRecord(pair.publicKey, algorithm));
    return { domain, selector, algorithm, key: pair.privateKey };
  };
  const domains = new Map(
    devAccount.sendingDomains.map(({ name }): [string, readonly SigningKey[]] => [
      name,
      name === 'example.com' ? [make(name, 's1', 'rsa'), make(name, 'e1', 'ed25519')] : [make(name, 's1', 'rsa')],
    ]),
  );
  return { domains, platform: [make('platform.example', 'p1', 'rsa')], records };
}

/** The parts that `build` takes, all fixed but the keys. */
export function goldenParts(keys: GoldenKeys): BuildParts {
  return {
    clock: clockOf(() => goldenNow),
    newId: () => goldenId,
    hostname: 'mx.platform.example',
    platform: {
      domain: 'platform.example',
      bounceDomain: 'bounces.platform.example',
      hmacKey: createSecretKey(Buffer.from('golden-hmac-key-golden-hmac-key-')),
    },
    sendingDomain: context.sendingDomain,
    domainKeys: (domain) => keys.domains.get(domain) ?? [],
    platformKeys: keys.platform,
    wantsPlatformSignature: () => true,
  };
}

/** The message as it leaves, or the reasons against it. */
export async function buildGolden(
  raw: Buffer,
  keys: GoldenKeys,
  options: SubmissionOptions = {},
): Promise<Buffer | readonly unknown[]> {
  const built = await build(smtpSubmission(raw, options), goldenParts(keys));
  return built.ok ? Buffer.concat([built.signed.head, built.signed.body]) : built.violations;
}

/** Takes the signatures' b= values out, which differ from run to run. */
export function withoutSignatureValues(message: Buffer): string {
  return message
    .toString('latin1')
    .replace(/(; ?(?:\r\n[ \t])?b=)[A-Za-z0-9+/=\s]+?(\r\n)(?=[A-Za-z])/g, '$1SIGNATURE$2');
}
