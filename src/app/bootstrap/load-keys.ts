// Reads every key that the configuration uses, once. For a missing or wrong one, the error names the command that makes it.

import { createPrivateKey, createSecretKey, type KeyObject, randomBytes, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { ConfigurationError, errorCode, errorMessage } from '../../base/errors.ts';
import { readRegularFile } from '../../base/named-file.ts';
import { parseSigningKey } from '../../pipeline/sign/dkim-key.ts';
import type { SigningKey } from '../../pipeline/sign/sign.ts';
import type { Config } from '../config/config.ts';
import {
  allTlsFiles,
  type DkimKeyFile,
  optionalTlsFiles,
  platformKeyFiles,
  sendsMail,
  signingKeyFiles,
  type TlsFiles,
} from './key-paths.ts';

/** A host's certificate chain and key as PEM, known to belong together. */
export interface TlsKeys {
  readonly host: string;
  readonly certificate: string;
  readonly privateKey: string;
  readonly certificateFile: string;
  /** From when on until when the certificate is valid, milliseconds since 1970. */
  readonly notBefore: number;
  readonly notAfter: number;
  /** The names that the certificate is for, where the host's is none of them: clients that verify it refuse it. */
  readonly otherNames?: string;
}

/** The keys of a configuration, parsed. */
export interface Keys {
  /** Signing keys by sending domain. Every sending domain has at least one (D27). */
  readonly signing: ReadonlyMap<string, readonly SigningKey[]>;
  /** The platform's own signing keys; empty where no route sends the platform's signature. */
  readonly platform: readonly SigningKey[];
  /** Authenticates the tokens in reverse-paths (D26). */
  readonly hmacKey: KeyObject;
  readonly tls: ReadonlyMap<string, TlsKeys>;
}

/** Octets of the shortest HMAC key that is accepted. */
const shortestHmacKey = 32;

/** What is wrong with a file. */
export interface KeyProblem {
  readonly text: string;
  /** Whether the file does not exist. In development the start would make it. */
  readonly isMissing: boolean;
}

type Problems = KeyProblem[];

/** The keys that could be read, and what is wrong with the others. */
export interface KeysRead {
  readonly keys: Omit<Keys, 'hmacKey'>;
  readonly hmacKey?: KeyObject;
  readonly problems: readonly KeyProblem[];
}

function read(file: string, problems: Problems, remedy: string): string | undefined {
  try {
    return readRegularFile(file).toString();
  } catch (error) {
    const isMissing = errorCode(error) === 'ENOENT';
    const reason = isMissing ? `is missing; make it: ${remedy}` : `cannot be read: ${errorMessage(error)}`;
    problems.push({ text: `${file} ${reason}`, isMissing });
    return undefined;
  }
}

/** Reads a signing key. @param problems gets what is wrong with it, where it is none @returns the key, or nothing */
export function loadDkimKey(place: DkimKeyFile, problems: Problems): SigningKey[] {
  const { domain, selector, algorithm, file } = place;
  const pem = read(file, problems, `postern dkim keygen ${domain} --selector ${selector} --algorithm ${algorithm}`);
  if (pem === undefined) return [];
  try {
    return [parseSigningKey({ domain, selector, algorithm, pem })];
  } catch (error) {
    problems.push({ text: `${file}: ${errorMessage(error)}`, isMissing: false });
    return [];
  }
}

// RFC 9525 §2: the common name of the subject does not count.
function otherNames(leaf: X509Certificate, host: string): Pick<TlsKeys, 'otherNames'> {
  if (leaf.checkHost(host, { subject: 'never' }) !== undefined) return {};
  return { otherNames: (leaf.subjectAltName ?? 'no name').slice(0, 300) };
}

function loadTls(place: TlsFiles, problems: Problems): TlsKeys[] {
  const { host, folder, certificateFile, privateKeyFile } = place;
  const remedy = `put the certificate chain and its key into ${folder}, or for a self-signed one: postern cert self-signed ${host}`;
  const certificate = read(certificateFile, problems, remedy);
  const privateKey = read(privateKeyFile, problems, 'put the key of fullchain.pem there');
  if (certificate === undefined || privateKey === undefined) return [];
  try {
    createSecureContext({ cert: certificate, key: privateKey });
    const leaf = new X509Certificate(certificate);
    // A TLS context accepts an EC key of another certificate without an error; only the handshake would fail.
    if (!leaf.checkPrivateKey(createPrivateKey(privateKey))) throw new Error('the key is of another certificate');
    const [notBefore, notAfter] = [leaf.validFromDate.getTime(), leaf.validToDate.getTime()];
    return [{ host, certificateFile, certificate, privateKey, notBefore, notAfter, ...otherNames(leaf, host) }];
  } catch (error) {
    const text = `${certificateFile} and privkey.pem beside it are no certificate and its key: ${errorMessage(error)}`;
    problems.push({ text, isMissing: false });
    return [];
  }
}

/** Why no client trusts a certificate by its dates. @param before the one that it replaces: where that is as bad, nothing is said */
export function dateFault(
  { host, certificateFile, notBefore, notAfter }: TlsKeys,
  nowMs: number,
  before?: TlsKeys,
): string | undefined {
  if (before && dateFault(before, nowMs) !== undefined) return undefined;
  const whose = `the certificate of ${host} in ${certificateFile}`;
  if (notAfter <= nowMs) return `${whose} has expired on ${new Date(notAfter).toISOString().slice(0, 10)}`;
  return notBefore > nowMs ? `${whose} is not valid before ${new Date(notBefore).toISOString()}` : undefined;
}

/** Reads the certificate and the key of one host as they are now. @returns both, or what is wrong with the files */
export function readTlsKeys(place: TlsFiles): { readonly keys: TlsKeys } | { readonly problem: string } {
  const problems: Problems = [];
  const [keys] = loadTls(place, problems);
  return keys ? { keys } : { problem: problems.map(({ text }) => text).join('; ') };
}

function loadHmacKey(file: string, problems: Problems): KeyObject | undefined {
  const remedy = 'postern keys hmac';
  const secret = read(file, problems, remedy);
  if (secret === undefined) return undefined;
  const octets = Buffer.from(secret.trim());
  if (octets.length >= shortestHmacKey) return createSecretKey(octets);
  const text = `${file} has ${octets.length} octets, want at least ${shortestHmacKey}; make it anew: ${remedy} --force`;
  problems.push({ text, isMissing: false });
  return undefined;
}

/** Reads all keys that the configuration uses, and tells which are missing or wrong. */
export function readKeys(config: Config): KeysRead {
  const problems: Problems = [];
  const signing = Map.groupBy(
    signingKeyFiles(config).flatMap((place) => loadDkimKey(place, problems)),
    ({ domain }) => domain,
  );
  const platform = platformKeyFiles(config).flatMap((place) => loadDkimKey(place, problems));
  // Only mail uses the HMAC key.
  const hmacKey = sendsMail(config)
    ? loadHmacKey(config.platform.hmacKeyFile, problems)
    : createSecretKey(randomBytes(shortestHmacKey));
  const tls = new Map(
    [...allTlsFiles(config), ...optionalTlsFiles(config)]
      .flatMap((place) => loadTls(place, problems))
      .map((keys) => [keys.host, keys]),
  );
  return { keys: { signing, platform, tls }, ...(hmacKey ? { hmacKey } : {}), problems };
}

/** The keys that were read, all of them. @throws ConfigurationError with a line for each file that is missing or wrong */
export function wholeKeys({ keys, hmacKey, problems }: KeysRead): Keys {
  if (problems.length > 0 || !hmacKey) throw new ConfigurationError(problems.map(({ text }) => text).join('\n'));
  return { ...keys, hmacKey };
}

/** Reads all keys that the configuration uses. @throws as `wholeKeys` */
export function loadKeys(config: Config): Keys {
  return wholeKeys(readKeys(config));
}
