// Further checks of keys and certificates, for `postern config check` and the start: who may read them, and how long they are valid.

import { statSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { platformKeyFiles, sendsMail, signingKeyFiles, tlsFilesOf } from './key-paths.ts';
import { dateFault, type KeysRead, readKeys } from './load-keys.ts';

/** A certificate that expires within this time is warned of. */
const soonMs = 14 * 86_400_000;
const dayMs = 86_400_000;

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

function foundIn(config: Config, { tls }: Pick<KeysRead['keys'], 'tls'>, nowMs: number) {
  const [invalid, others]: [string[], string[]] = [[], []];
  for (const certificate of tls.values()) {
    const { host, notAfter, otherNames } = certificate;
    const whose = `the certificate of ${host}`;
    const days = Math.floor((notAfter - nowMs) / dayMs);
    const fault = dateFault(certificate, nowMs);
    if (fault !== undefined) invalid.push(fault);
    else if (notAfter - nowMs < soonMs)
      others.push(`${whose} expires on ${day(notAfter)}, in ${days} ${days === 1 ? 'day' : 'days'}`);
    if (otherNames !== undefined)
      others.push(`${whose} is not for that name but for ${otherNames}; clients that verify it refuse it`);
  }
  for (const file of secretFiles(config, tls.keys()).filter(isReadableByAll))
    others.push(`${file} can be read by every user of this machine; chmod 600 it`);
  return { invalid, others };
}

/** The warnings of a start about the files that it has read. @param nowMs milliseconds since 1970 */
export function fileWarnings(config: Config, keys: Pick<KeysRead['keys'], 'tls'>, nowMs: number): string[] {
  const { invalid, others } = foundIn(config, keys, nowMs);
  return [...invalid, ...others];
}

/** Checks all keys and certificates. `faults` keep `serve` or clients away; in development no missing file does, as the start makes it. */
export function checkFiles(config: Config, nowMs: number) {
  const { keys, problems } = readKeys(config);
  const faults = problems.filter(({ isMissing }) => !isMissing || !config.development).map(({ text }) => text);
  const { invalid, others } = foundIn(config, keys, nowMs);
  return { faults: [...faults, ...invalid], warnings: others };
}
