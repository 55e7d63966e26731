// Further checks of the files of keys and certificates, for `postern config check` and the start: who may read them, and how
// long the certificates are valid.

import { statSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { platformKeyFiles, sendsMail, signingKeyFiles, tlsFilesOf } from './key-paths.ts';
import { type KeysRead, readKeys, type TlsKeys } from './load-keys.ts';

/** A certificate that expires within this time is warned of. */
const soonMs = 14 * 86_400_000;
const dayMs = 86_400_000;

/** What was found; one line each. */
export interface FileFindings {
  /** Faults with which `serve` would not start, or no client would trust its certificate. */
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
}

/** Whether others than the owner and the group may read a file; false where that cannot be told. */
function isReadableByAll(file: string): boolean {
  try {
    return (statSync(file).mode & 0o004) !== 0;
  } catch {
    return false;
  }
}

function secretFiles(config: Config, tlsHosts: Iterable<string>): string[] {
  return [
    ...(sendsMail(config) ? [config.platform.hmacKeyFile] : []),
    ...[...platformKeyFiles(config), ...signingKeyFiles(config)].map(({ file }) => file),
    // Several hosts may share one certificate: the set names its file once.
    ...new Set([...tlsHosts].map((host) => tlsFilesOf(config.certsDir, host).privateKeyFile)),
  ];
}

function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function expiredOf(certificates: readonly TlsKeys[], nowMs: number): string[] {
  return certificates
    .filter(({ notAfter }) => notAfter <= nowMs)
    .map(({ host, notAfter }) => `the certificate of ${host} has expired on ${day(notAfter)}`);
}

function expiringOf(certificates: readonly TlsKeys[], nowMs: number): string[] {
  return certificates
    .filter(({ notAfter }) => notAfter > nowMs && notAfter - nowMs < soonMs)
    .map(({ host, notAfter }) => {
      const days = Math.floor((notAfter - nowMs) / dayMs);
      return `the certificate of ${host} expires on ${day(notAfter)}, in ${days} ${days === 1 ? 'day' : 'days'}`;
    });
}

function misnamedOf(certificates: readonly TlsKeys[]): string[] {
  return certificates.flatMap(({ host, otherNames }) =>
    otherNames === undefined
      ? []
      : [`the certificate of ${host} is not for that name but for ${otherNames}; clients that verify it refuse it`],
  );
}

/** The warnings of a start about the files that it has read. @param nowMs milliseconds since 1970 */
export function fileWarnings(config: Config, { tls }: Pick<KeysRead['keys'], 'tls'>, nowMs: number): string[] {
  const certificates = [...tls.values()];
  const open = secretFiles(config, tls.keys()).filter(isReadableByAll);
  return [
    ...expiredOf(certificates, nowMs),
    ...expiringOf(certificates, nowMs),
    ...misnamedOf(certificates),
    ...open.map((file) => `${file} can be read by every user of this machine; chmod 600 it`),
  ];
}

/**
 * Checks every key and certificate that a configuration uses. In development a missing file is no fault, since the start
 * makes it.
 * @param nowMs milliseconds since 1970
 */
export function checkFiles(config: Config, nowMs: number): FileFindings {
  const { keys, problems } = readKeys(config);
  const faults = problems.filter(({ isMissing }) => !isMissing || !config.development).map(({ text }) => text);
  const expired = expiredOf([...keys.tls.values()], nowMs);
  const warnings = fileWarnings(config, keys, nowMs).filter((line) => !expired.includes(line));
  return { faults: [...faults, ...expired], warnings };
}
