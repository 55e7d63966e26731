// The first start in development (D95) makes the keys, the certificate and the token that are missing, and says what it made.

import { existsSync } from 'node:fs';
import { isLive, type TokenStore } from '../../accounts/token-store.ts';
import type { Clock } from '../../base/clock.ts';
import { ConfigurationError } from '../../base/errors.ts';
import { randomSecret } from '../../base/ids.ts';
import { generateDkimKey } from '../../pipeline/sign/dkim-key.ts';
import type { Config } from '../config/config.ts';
import { developmentToken, type Environment, missingSecrets } from '../config/secrets.ts';
import { createFile, createFolder } from './key-files.ts';
import {
  allTlsFiles,
  type DkimKeyFile,
  platformKeyFiles,
  sendsMail,
  signingKeyFiles,
  type TlsFiles,
} from './key-paths.ts';

const tenYearsMs = 3650 * 86_400_000;
const anHourMs = 3_600_000;

/** Makes a self-signed certificate and its key as PEM (D95): EC P-256, ten years, for a host name, localhost, 127.0.0.1 and ::1. */
export async function makeCertificate(host: string, nowMs: number) {
  const names = [...new Set([host, 'localhost'])].map((value) => ({ type: 2, value }) as const);
  const addresses = ['127.0.0.1', '::1'].map((ip) => ({ type: 7, ip }) as const);
  // Loaded only where a certificate is made, because the library takes longer to load than all the rest of a start.
  const { generate } = await import('selfsigned');
  const made = await generate([{ name: 'commonName', value: host }], {
    keyType: 'ec',
    curve: 'P-256',
    algorithm: 'sha256',
    // Valid since an hour ago, so that a client whose clock is slow accepts it too.
    notBeforeDate: new Date(nowMs - anHourMs),
    notAfterDate: new Date(nowMs + tenYearsMs),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      { name: 'subjectAltName', altNames: [...names, ...addresses] },
    ],
  });
  return { certificate: made.cert, privateKey: made.private };
}

export { defaultTlsHost, type TlsFiles, tlsFilesFor } from './key-paths.ts';
export { dateFault, type Keys, loadKeys, readKeys, readTlsKeys, type TlsKeys, wholeKeys } from './load-keys.ts';

/** The development credential's token: made now, the only time it is shown; given by POSTERN_TOKEN, which revokes made ones; or kept. */
export type DevelopmentToken = { readonly account: string; readonly credential: string } & (
  | { readonly kind: 'made'; readonly token: string }
  | { readonly kind: 'given'; readonly revoked: readonly string[] }
  | { readonly kind: 'kept'; readonly lastFour: readonly string[] }
);

/** What the start works with. */
export interface BootstrapParts {
  readonly env: Environment;
  readonly tokens: TokenStore;
  readonly clock: Clock;
}

const madeLabel = 'development';

async function makeDkimKey({ file, algorithm }: DkimKeyFile): Promise<string[]> {
  if (existsSync(file)) return [];
  return createFile(file, await generateDkimKey(algorithm)) ? [file] : [];
}

async function makeTls(place: TlsFiles, nowMs: number): Promise<string[]> {
  const { certificateFile, privateKeyFile, folder, host } = place;
  if (existsSync(certificateFile) || existsSync(privateKeyFile)) return [];
  const { certificate, privateKey } = await makeCertificate(host, nowMs);
  const isNew = createFolder(folder, { 'fullchain.pem': certificate, 'privkey.pem': privateKey });
  return isNew ? [certificateFile, privateKeyFile] : [];
}

function makeHmacKey(file: string): string[] {
  return !existsSync(file) && createFile(file, `${randomSecret()}\n`) ? [file] : [];
}

/** Makes a token for the development credential unless it has one; undefined without `development`. Call it behind all that can fail: it is shown only once. */
export async function ensureDevelopmentToken(
  config: Config,
  { tokens, clock, env }: BootstrapParts,
): Promise<DevelopmentToken | undefined> {
  if (!config.development) return undefined;
  const { account, credential } = config.development;
  const name = config.accounts.find(({ id }) => id === account)?.name ?? account;
  // One transaction, so that only one of two processes that start at the same time makes the token.
  return await tokens.transaction<DevelopmentToken>(async (inside) => {
    const now = clock.now();
    const own = (await inside.list(account)).filter((token) => token.credential === credential && isLive(token, now));
    if (developmentToken(env) !== undefined) {
      // POSTERN_TOKEN replaces the token that an earlier start made; tokens that a person made stay (D95).
      const made = own.filter(({ label }) => label === madeLabel);
      for (const { id } of made) await inside.revoke({ id, now });
      return { kind: 'given', account: name, credential, revoked: made.map(({ lastFour }) => lastFour) };
    }
    if (own.length > 0) {
      return { kind: 'kept', account: name, credential, lastFour: own.map(({ lastFour }) => lastFour) };
    }
    const { token } = await inside.create({ account, credential, label: madeLabel, createdAt: now });
    return { kind: 'made', account: name, credential, token };
  });
}

/** Makes the files that are missing, in development only, and tells them and missing secrets. @throws ConfigurationError elsewhere */
export async function bootstrap(config: Config, parts: Pick<BootstrapParts, 'env' | 'clock'>) {
  const missing = missingSecrets(config, parts.env);
  const { development } = config;
  if (!development) {
    if (missing.length > 0) throw new ConfigurationError(missing.join('\n'));
    return { made: [], missing };
  }
  const keys = [...platformKeyFiles(config), ...signingKeyFiles(config)];
  const hmacKey = sendsMail(config) ? makeHmacKey(config.platform.hmacKeyFile) : [];
  const made = await Promise.all([
    ...allTlsFiles(config).map((place) => makeTls(place, parts.clock.now())),
    ...keys.map(makeDkimKey),
  ]);
  return { made: [...hmacKey, ...made.flat()], missing };
}
