// `postern dkim`, `keys` and `cert` make keys and certificates, and print the DNS records of signing keys (D26, D27, D92, D95).

import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { DkimKeyName } from '../accounts/account.ts';
import { createFile, createFolder, replaceFile } from '../app/bootstrap/key-files.ts';
import { dkimKeyFile, ownTlsFiles } from '../app/bootstrap/key-paths.ts';
import type { Config } from '../app/config/config.ts';
import { systemClock } from '../base/clock.ts';
import { didYouMean } from '../base/closest.ts';
import { errorCode, errorMessage, UsageError } from '../base/errors.ts';
import { randomSecret } from '../base/ids.ts';
import { asciiDomain } from '../mail/address/domain.ts';
import { dkimRecord, generateDkimKey, parseSigningKey } from '../pipeline/sign/dkim-key.ts';
import { type CommandIo, defineCommand, defineGroup, fail } from './command/command.ts';
import { parseWord } from './command/span.ts';

/** Reads a domain of the command line, as an A-label. @throws UsageError */
export function domainOf(text: string): string {
  const domain = asciiDomain(text);
  if (domain === undefined) throw new UsageError(`got "${text}", want a domain name`);
  return domain;
}

function selectorOf(text: string): string {
  if (/^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/.test(text)) return text;
  throw new UsageError(`--selector: got "${text}", want letters, digits and -, such as s1`);
}

function algorithmOf(text: string): DkimKeyName['algorithm'] {
  return parseWord(text, '--algorithm', ['rsa', 'ed25519']);
}

/** The names of the sending domains and of the platform's domain. */
export function domainNames({ accounts, platform }: Config): string[] {
  return [...accounts.flatMap(({ sendingDomains }) => sendingDomains).map(({ name }) => name), platform.domain];
}

/** Says that the configuration has no such domain, and which it has. */
export function noSuchDomain(config: Config, wanted: string): UsageError {
  const names = domainNames(config);
  const which = didYouMean(wanted, names, `there are ${names.join(', ')}`);
  return new UsageError(`${wanted} is no sending domain and not the platform's domain; ${which}`);
}

function configuredKeys(config: Config, domain: string): readonly DkimKeyName[] | undefined {
  if (domain === config.platform.domain) return config.platform.dkim;
  return config.accounts.flatMap((account) => account.sendingDomains).find(({ name }) => name === domain)?.dkim;
}

/** Prints the record of a key that is of the right kind. @throws Error saying what is wrong with it */
function printRecord(io: CommandIo, key: Parameters<typeof parseSigningKey>[0]): void {
  parseSigningKey(key);
  io.stdout.write(`${dkimRecord(key).zone}\n`);
}

/** The algorithm of a key: Ed25519, or else RSA. `parseSigningKey` says what is wrong with a key of any other kind. */
function algorithmOfKey(pem: string): DkimKeyName['algorithm'] {
  try {
    return createPrivateKey(pem).asymmetricKeyType === 'ed25519' ? 'ed25519' : 'rsa';
  } catch {
    return 'rsa';
  }
}

/** Says what to write into the configuration so that mail is signed with a key. */
function notNamed(domain: string, selector: string, algorithm: string): string {
  return `The configuration does not name it yet: dkim: [{ selector: ${selector}, algorithm: ${algorithm} }] of ${domain}\n`;
}

const keygen = defineCommand({
  summary: 'Make a signing key for a domain and print its DNS record',
  synopsis: 'DOMAIN',
  details:
    'Writes certs/dkim/DOMAIN/SELECTOR.pem (mode 0600) under certsDir. Publish the record before mail is signed with the\n' +
    'key. A key that is there is only replaced with --force; a running server reads keys at its start and by postern reload.',
  options: {
    selector: { value: 'NAME', short: 's', summary: 'the selector (default: the first of the configuration, else s1)' },
    algorithm: {
      value: 'NAME',
      summary: 'rsa (2,048 bits) or ed25519 (default: what the configuration says, else rsa)',
    },
    force: { summary: 'replace the key that is there' },
  },
  examples: ['postern dkim keygen example.com', 'postern dkim keygen example.com --selector e1 --algorithm ed25519'],
  exitCodes: { 1: 'there is a key already' },
  async run({ options, args: [given = ''], readConfig }, io) {
    const domain = domainOf(given);
    const wanted = options.algorithm === undefined ? undefined : algorithmOf(options.algorithm);
    const config = readConfig();
    const configured = configuredKeys(config, domain);
    const selector = selectorOf(options.selector ?? configured?.[0]?.selector ?? 's1');
    const named = configured?.find((key) => key.selector === selector);
    const algorithm = wanted ?? named?.algorithm ?? 'rsa';
    const file = dkimKeyFile(config.certsDir, domain, selector);
    const pem = await generateDkimKey(algorithm);
    if (options.force) replaceFile(file, pem);
    else if (!createFile(file, pem))
      return fail(io, `There is a key already: ${file}; --force replaces it, another --selector leaves it.`);
    io.stderr.write(`Wrote ${file}\n`);
    printRecord(io, { pem, domain, selector, algorithm });
    if (named?.algorithm !== algorithm) io.stderr.write(notNamed(domain, selector, algorithm));
    return 0;
  },
});

/** The keys whose records are asked for: those that the configuration names, or one that it does not name yet. */
function wantedKeys(
  config: Config,
  domain: string,
  options: { readonly selector?: string; readonly algorithm?: string },
) {
  const named = configuredKeys(config, domain);
  if (!named) throw noSuchDomain(config, domain);
  if (options.selector === undefined) {
    if (options.algorithm !== undefined) throw new UsageError('--algorithm: want --selector too');
    return named.map((key) => ({ ...key, isNamed: true }));
  }
  const selector = selectorOf(options.selector);
  const algorithm = options.algorithm === undefined ? undefined : algorithmOf(options.algorithm);
  const found = named.find((key) => key.selector === selector);
  // Without an algorithm any will do.
  return [{ selector, algorithm: algorithm ?? found?.algorithm, isNamed: found !== undefined }];
}

const record = defineCommand({
  summary: "Print the DNS records of a domain's signing keys",
  synopsis: 'DOMAIN',
  details: `One record in the form of a zone file for each key that the configuration names for DOMAIN. With --selector one
key, which the configuration need not name yet: publish the record of a new key first, then name the key.`,
  options: {
    selector: { value: 'NAME', short: 's', summary: 'only this selector' },
    algorithm: {
      value: 'NAME',
      summary: 'rsa or ed25519: what the key must be (default: what the configuration says)',
    },
  },
  examples: ['postern dkim record example.com', 'postern dkim record example.com --selector s2'],
  exitCodes: { 1: 'a key is missing or wrong' },
  run({ options, args: [given = ''], readConfig }, io) {
    const domain = domainOf(given);
    const config = readConfig();
    let exitCode = 0;
    for (const { selector, algorithm, isNamed } of wantedKeys(config, domain, options)) {
      const file = dkimKeyFile(config.certsDir, domain, selector);
      try {
        const pem = readFileSync(file, 'utf8');
        const actual = algorithm ?? algorithmOfKey(pem);
        printRecord(io, { pem, domain, selector, algorithm: actual });
        if (!isNamed) io.stderr.write(notNamed(domain, selector, actual));
      } catch (error) {
        const keygen = `postern dkim keygen ${domain} --selector ${selector} --algorithm ${algorithm ?? 'rsa'}`;
        const fault = errorCode(error) === 'ENOENT' ? ` is missing; make it: ${keygen}` : `: ${errorMessage(error)}`;
        exitCode = fail(io, `${file}${fault}`);
      }
    }
    return exitCode;
  },
});

/** The commands about signing keys. */
export const dkimCommands = defineGroup({ keygen, record });

const selfSigned = defineCommand({
  summary: 'Make a self-signed certificate for a host name',
  synopsis: 'HOST',
  details: `Writes certs/tls/HOST/fullchain.pem and privkey.pem (mode 0600) under certsDir: EC P-256, ten years, for HOST,
localhost, 127.0.0.1 and ::1. Programs that verify certificates must be given fullchain.pem to trust. What is in the folder
is never replaced.`,
  options: {},
  examples: ['postern cert self-signed mx.example.com'],
  exitCodes: { 1: 'there is something already' },
  async run({ args: [given = ''], readConfig }, io) {
    const host = domainOf(given);
    const { folder, certificateFile, privateKeyFile } = ownTlsFiles(readConfig().certsDir, host);
    // Loaded only here: no other command of these needs it.
    const { makeCertificate } = await import('../app/bootstrap/bootstrap.ts');
    const { certificate, privateKey } = await makeCertificate(host, systemClock.now());
    if (!createFolder(folder, { 'fullchain.pem': certificate, 'privkey.pem': privateKey }))
      return fail(io, `There is something already: ${folder}; move it away first.`);
    io.stderr.write(`Wrote ${certificateFile}\nWrote ${privateKeyFile}\n`);
    return 0;
  },
});

/** The commands about certificates. */
export const certCommands = defineGroup({ 'self-signed': selfSigned });

const hmac = defineCommand({
  summary: 'Make the key that authenticates the addresses of bounces',
  details: `Writes hmac.key in certsDir of the configuration (mode 0600): 256 random bits as text. Keep the file: with another
key, bounces of mail that was sent before cannot be told from forged ones. A key that is there is only replaced with --force.`,
  options: { force: { summary: 'replace the key that is there' } },
  examples: ['postern keys hmac'],
  exitCodes: { 1: 'there is a key already' },
  run({ options, readConfig }, io) {
    const file = readConfig().platform.hmacKeyFile;
    const key = `${randomSecret()}\n`;
    if (options.force) replaceFile(file, key);
    else if (!createFile(file, key))
      return fail(io, `There is a key already: ${file}; --force replaces it, and bounces of older mail are lost.`);
    io.stderr.write(`Wrote ${file}\n`);
    return 0;
  },
});

/** The commands about keys other than those of DKIM. */
export const keysCommands = defineGroup({ hmac });
