// A gateway for the tests with real mail programs: the shipped configuration with the device listener switched on,
// tokens for its credentials, and the checks that every message must stand which came out at the other end.

import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type AddressObject, type ParsedMail, simpleParser } from 'mailparser';
import { expect } from 'vitest';
import { parse } from 'yaml';
import { runProgram } from '../system/programs.ts';
import { dkimRecords, verifySignatures } from './dkim-verifier.ts';
import { type PosternProcess, projectRoot, type RunningPostern, startPostern, testToken } from './postern-process.ts';

/** A message out of the capture folder, with its parts read back by mailparser. */
export interface ArrivedMessage {
  readonly raw: Buffer;
  /** The header section, as text of one byte a character. */
  readonly head: string;
  readonly parsed: ParsedMail;
}

/** A running gateway and what a mail program needs to use it. */
export interface ClientGateway {
  readonly postern: PosternProcess;
  /** Port of the STARTTLS listener. */
  readonly port: number;
  /** File of the certificate to trust; it is valid for 127.0.0.1 and localhost. */
  readonly trust: string;
  /** The same certificate, PEM. */
  readonly certificate: string;
  /** Tokens of the account `dev` by credential. */
  readonly tokens: Readonly<Record<'default' | 'cron' | 'oldbox', string>>;
  /** Waits for the message with this subject, checks its signatures and what Postern wrote, and reads it. */
  arrived(subject: string, protocol?: 'ESMTPSA' | 'SMTP'): Promise<ArrivedMessage>;
  /** Waits for the log line of one kind (`accepted`, `refused` ...) that has all of these members. */
  logged(msg: string, members: Readonly<Record<string, unknown>>): Promise<Record<string, unknown>>;
  /** Writes a configuration file for msmtp and gives its path. */
  msmtprc(name: string, options: { readonly token: string; readonly lines: readonly string[] }): string;
}

async function createToken(postern: PosternProcess, credential: string): Promise<string> {
  const command = ['token', 'create', '--account', 'dev', '--credential', credential];
  const { code, output } = await runPostern(postern, command);
  const token = /^pt_\S+$/m.exec(output)?.[0];
  if (code !== 0 || token === undefined) throw new Error(`No token for ${credential}: ${code} ${output}`);
  return token;
}

/** Runs a command of `postern` beside a running server, on its configuration and store. */
export function runPostern(
  postern: RunningPostern,
  command: readonly string[],
): Promise<{ readonly code: number | null; readonly output: string }> {
  const args = [join(projectRoot, 'src/main.ts'), ...command];
  return runProgram(process.execPath, args, { env: postern.env, cwd: postern.folder });
}

/** The shipped configuration with ports of its own and the device listener on. */
function shippedConfiguration(): object {
  const config = parse(readFileSync(join(projectRoot, 'config/postern.yaml'), 'utf8')) as {
    smtp: { listeners: { name: string; listen: string; enabled?: boolean }[] };
  };
  for (const listener of config.smtp.listeners) {
    listener.listen = '127.0.0.1:0';
    if (listener.name === 'devices') listener.enabled = true;
  }
  return config;
}

async function readArrived(postern: PosternProcess, subject: string, protocol: string): Promise<ArrivedMessage> {
  const raw = await postern.until(() =>
    postern.captured().find((message) => message.includes(`\r\nSubject: ${subject}\r\n`)),
  );
  const verdicts = await verifySignatures(raw, dkimRecords(postern.certsDir));
  expect(verdicts.map(({ domain, algorithm, result }) => `${domain} ${algorithm} ${result}`).sort()).toEqual([
    'example.com ed25519-sha256 pass',
    'example.com rsa-sha256 pass',
    'platform.example rsa-sha256 pass',
  ]);
  const head = raw.subarray(0, raw.indexOf('\r\n\r\n') + 2).toString('latin1');
  expect(head).toMatch(/^Return-Path: <b\+[a-z2-7]+@bounces\.platform\.example>\r\nReceived: from /);
  expect(head.replaceAll('\r\n ', ' ')).toContain(`(Postern) with ${protocol} id `);
  expect(head).toMatch(/\r\nMessage-ID: <[0-9a-f-]{36}@platform\.example>\r\n/);
  expect(head).toMatch(/\r\nDate: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000\r\n/);
  expect(head.match(/^(?:Date|From|Subject|Message-ID|MIME-Version|Content-Type):/gim)?.length).toBe(6);
  expect(raw.every((octet) => octet < 0x80)).toBe(true);
  return { raw, head, parsed: await simpleParser(raw) };
}

/** The addresses of a field as mailparser gives it. */
export function addressesOf(field: AddressObject | AddressObject[] | undefined): readonly string[] {
  const objects = field === undefined ? [] : Array.isArray(field) ? field : [field];
  return objects.flatMap(({ value }) => value.map(({ address }) => address ?? ''));
}

/** Starts it. The caller ends it by `postern.cleanUp()`. */
export async function startClientGateway(): Promise<ClientGateway> {
  const postern = await startPostern({
    config: shippedConfiguration(),
    env: { POSTERN_HTTP_PORT: '0', POSTERN_HTTPS_PORT: '' },
  });
  const trust = join(postern.certsDir, 'tls/mx.platform.example/fullchain.pem');
  const port = postern.ports['submission'] ?? 0;
  const [cron, oldbox] = await Promise.all([createToken(postern, 'cron'), createToken(postern, 'oldbox')]);
  return {
    postern,
    port,
    trust,
    certificate: readFileSync(trust, 'utf8'),
    tokens: { default: testToken, cron, oldbox },
    arrived: (subject, protocol = 'ESMTPSA') => readArrived(postern, subject, protocol),
    logged: (msg, members) => {
      const wanted = Object.entries({ msg, ...members });
      return postern.until(() => postern.log().find((line) => wanted.every(([name, value]) => line[name] === value)));
    },
    msmtprc: (name, { token, lines }) => {
      const file = join(postern.folder, `msmtprc-${name}`);
      const tls = ['tls on', 'tls_starttls on', `tls_trust_file ${trust}`];
      const login = ['auth plain', 'user api_token', `password ${token}`];
      const text = ['account default', 'host 127.0.0.1', `port ${port}`, ...tls, ...login, ...lines, ''].join('\n');
      writeFileSync(file, text);
      chmodSync(file, 0o600); // msmtp refuses to read a password that others may read
      return file;
    },
  };
}
