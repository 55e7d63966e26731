// Every door to one pipeline, in one process and over real sockets, each judging sets of custom headers: for D1. Keys,
// accounts and the pipeline are the gateway's own; the spool is in memory and tells what would have left.
//
// SMTP carries a set as the header section of a message. What it cannot carry as given is written as something else
// that breaks the same rule and has as many bytes (a set's size counts), so that the verdict must be the same:
// - a name that SMTP's grammar would end or move (a colon, a blank at either end, a CRLF) or that is no text (a lone
//   surrogate): those characters become others that no name may hold, each its own;
// - a CRLF in a value, which would be a fold or the next header: two bare CRs;
// - a lone surrogate in a value: three NULs, as many bytes as the character it is replaced by;
// - a value that is no string: an empty one;
// - headers that D3 lifts, reads or replaces: left out, they are no custom headers there.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEmailBinding, EmailError, type EmailHeaders } from '../../packages/binding/src/index.ts';
import { createAccounts } from '../../src/accounts/accounts.ts';
import { Guessing } from '../../src/accounts/guessing.ts';
import { bootstrap, loadKeys } from '../../src/app/bootstrap/bootstrap.ts';
import { loadConfig } from '../../src/app/config/config.ts';
import { configuredTokens } from '../../src/app/config/secrets.ts';
import { buildParts } from '../../src/app/wiring/build-parts.ts';
import { BodyBudget, defaultBodyLimit } from '../../src/base/body-budget.ts';
import { systemClock } from '../../src/base/clock.ts';
import { openSqliteFile } from '../../src/base/database/sqlite-file.ts';
import { silentLog } from '../../src/base/log.ts';
import { runCommandLine } from '../../src/cli/run.ts';
import { createOutcomeWatch } from '../../src/doors/rest/outcome-watch.ts';
import { restDoor } from '../../src/doors/rest/rest-door.ts';
import { SmtpDoor } from '../../src/doors/smtp/smtp-door.ts';
import { build, createSubmit, examine, restAnswers } from '../../src/pipeline/submit.ts';
import type { SpoolEntry } from '../../src/spool/spool.ts';
import { HttpApp } from '../../src/web/http/app.ts';
import { type HeaderSet, isTakenOutOverSmtp } from './header-sets.ts';
import { MemorySpool } from './memory-spool/memory-spool.ts';
import { RawClient } from './smtp-peers.ts';

/** One reason, as far as the door tells it. */
export interface DoorViolation {
  readonly code: string;
  readonly message?: string;
  /** The header's name, by the doors that take JSON. */
  readonly name?: string;
}

/** What a door says of a set. */
export interface DoorVerdict {
  /** In their order; empty when accepted. SMTP prints 20 and counts the rest (D7): the last code is that line. */
  readonly violations: readonly DoorViolation[];
  /** Of an accepted set: the header section that leaves, one character an octet. */
  readonly head?: string;
}

/** A door. */
export interface Door {
  readonly name: 'SMTP' | 'REST' | 'validate' | 'binding';
  judge(set: HeaderSet): Promise<DoorVerdict>;
  close?(): void;
}

/** All of them. */
export interface Doors {
  readonly doors: readonly Door[];
  /** What `postern check` says of each set. One command judges all of them, because it reads the configuration each time. */
  check(sets: readonly HeaderSet[]): Promise<readonly DoorVerdict[]>;
  close(): Promise<void>;
}

const token = 'doors-token-0123456789abcdefghijklmnopqrst';
const sender = 'app@example.com';
const recipient = 'rcpt@example.net';

// Ed25519 everywhere: thousands of messages are signed, and nothing here depends on the algorithm.
const configuration = {
  development: { account: 'dev', credential: 'default' },
  platform: { dkim: [{ selector: 'p1', algorithm: 'ed25519' }] },
  http: { listen: '127.0.0.1:0' },
  smtp: {
    listeners: [
      {
        name: 'devices',
        role: 'submission',
        listen: '127.0.0.1:0',
        tls: 'none',
        credential: 'dev/default',
        allowFrom: ['127.0.0.1/32'],
      },
    ],
  },
  routes: [{ name: 'keep', type: 'capture' }],
  accounts: [
    {
      name: 'dev',
      id: 'a1'.repeat(16),
      sendingDomains: [{ name: 'example.com', dkim: [{ selector: 's1', algorithm: 'ed25519' }] }],
      credentials: [{ name: 'default', scopes: ['email:send'] }],
    },
  ],
};

/** Keeps what leaves by its message id, until it is asked for. */
class RecordingSpool extends MemorySpool {
  readonly #heads = new Map<string, string>();

  override async add(entry: SpoolEntry, claimUntil: number): Promise<void> {
    this.#heads.set(entry.messageId.replace(/^<|>$/g, ''), entry.head.toString('latin1'));
    await super.add(entry, claimUntil);
  }

  /** The head that left under a message id, with or without brackets; once. */
  take(messageId: string): string {
    const id = messageId.replace(/^<|>$/g, '');
    const head = this.#heads.get(id);
    if (head === undefined) throw new Error(`No message ${id} has left`);
    this.#heads.delete(id);
    return head;
  }
}

/** What no name over SMTP can hold becomes a character of the private use area, each its own. */
function smtpName(name: string): string {
  const mark = (character: string): string => String.fromCharCode(0xe000 + (character.charCodeAt(0) & 0xfff));
  const whole = name.replace(/^[ \t]+|[ \t]+$|:|\r\n/g, (found) => found.split('').map(mark).join(''));
  return whole.isWellFormed() ? whole : whole.replace(/\p{Surrogate}/gu, mark);
}

function smtpValue(value: unknown, folded: boolean): string {
  if (typeof value !== 'string') return '';
  const text = value.replaceAll('\r\n', '\r\r').replace(/\p{Surrogate}/gu, '\0\0\0');
  return folded ? text.replace(/(?<=[^\s])[ \t](?=[^\s])/g, '\r\n$&') : text;
}

/** The message that carries a set by SMTP; UTF-8. */
export function smtpMessage({ headers, folded }: HeaderSet): string {
  const lines = headers
    .filter(({ name }) => !isTakenOutOverSmtp(name))
    .map(({ name, value }) => `${smtpName(name)}: ${smtpValue(value, folded)}\r\n`);
  return `From: ${sender}\r\nTo: ${recipient}\r\nSubject: Hi\r\n${lines.join('')}\r\nHello\r\n`;
}

async function expectReply(client: RawClient, code: string): Promise<string> {
  const reply = await client.reply();
  if (!reply.startsWith(code)) throw new Error(`Wanted ${code}, got ${JSON.stringify(reply)}`);
  return reply;
}

async function smtpDoor(port: number, spool: RecordingSpool): Promise<Door> {
  const client = RawClient.open(port);
  await expectReply(client, '220');
  client.send('EHLO client.example\r\n');
  await expectReply(client, '250');
  return {
    name: 'SMTP',
    async judge(set) {
      client.send(`MAIL FROM:<${sender}>\r\nRCPT TO:<${recipient}>\r\nDATA\r\n`);
      for (const code of ['250', '250', '354']) await expectReply(client, code);
      const message = Buffer.from(smtpMessage(set)).toString('latin1');
      client.send(`${message.replace(/(?<=^|\r\n)\./g, '..')}.\r\n`);
      const reply = await client.reply();
      const id = /^250 2\.0\.0 Ok <(.+)>\r\n$/.exec(reply)?.[1];
      if (id !== undefined) return { violations: [], head: spool.take(id) };
      const lines = reply.trimEnd().split('\r\n');
      return {
        violations: lines.map((line) => ({
          code: line.replace(/^554[- ]5\.[67]\.[01] /, '').replace(/^(E_[A-Z_]+): .*$/, '$1'),
        })),
      };
    },
    close: () => client.destroy(),
  };
}

interface CheckLine {
  readonly violations: readonly { readonly code: string; readonly message: string }[];
  readonly asSent?: string;
}

/** `postern check --json --as-sent`, on a file for each set. */
function checkDoor(folder: string, env: Readonly<Record<string, string>>): Doors['check'] {
  return async (sets) => {
    const files = sets.map((set, index) => {
      const file = join(folder, `message-${index}.eml`);
      writeFileSync(file, smtpMessage(set));
      return file;
    });
    let output = '';
    const write = (text: string): void => void (output += text);
    const io = { stdout: { write }, stderr: { write }, env, cwd: folder };
    const exitCode = await runCommandLine(['check', '--json', '--as-sent', ...files], io);
    if (exitCode > 1) throw new Error(`postern check ended with ${exitCode}: ${output}`);
    const lines = output.trimEnd().split('\n');
    if (lines.length !== sets.length)
      throw new Error(`postern check told of ${lines.length} files, not of ${sets.length}`);
    return lines.map((line) => {
      const { violations, asSent } = JSON.parse(line) as CheckLine;
      if (asSent === undefined) return { violations };
      const latin1 = Buffer.from(asSent).toString('latin1');
      return { violations, head: latin1.slice(0, latin1.indexOf('\r\n\r\n') + 2) };
    });
  };
}

/** JSON text whose every character is an escape. */
function escapedText(text: string): string {
  const units = Array.from({ length: text.length }, (_, index) => text.charCodeAt(index).toString(16).padStart(4, '0'));
  return `"${units.map((unit) => `\\u${unit}`).join('')}"`;
}

/** The request: written by hand, so that order, repetition and spelling are the set's. */
export function requestJson({ headers, escaped }: HeaderSet): string {
  const text = (value: unknown): string =>
    escaped && typeof value === 'string' ? escapedText(value) : JSON.stringify(value);
  const members = headers.map(({ name, value }) => `${text(name)}:${text(value)}`);
  return `{"from":"${sender}","to":"${recipient}","subject":"Hi","text":"Hello","headers":{${members.join(',')}}}`;
}

interface Envelope {
  readonly success: boolean;
  readonly errors: readonly EnvelopeError[];
  readonly result: {
    readonly message_id?: string;
    readonly errors?: readonly EnvelopeError[];
    readonly headers_as_sent?: readonly string[] | null;
  } | null;
}

interface EnvelopeError {
  readonly message: string;
  readonly source?: { readonly pointer: string };
}

function envelopeViolation({ message, source }: EnvelopeError): DoorViolation {
  const [, code = 'no token', text = ''] = /^(E_[A-Z_]+): (.*)$/s.exec(message) ?? [];
  const name = /^\/headers\/(.*)$/s
    .exec(source?.pointer ?? '')?.[1]
    ?.replaceAll('~1', '/')
    .replaceAll('~0', '~');
  return { code, message: text, ...(name === undefined ? {} : { name }) };
}

function restDoors(endpoint: string, spool: RecordingSpool): readonly Door[] {
  const agent = new Agent({ keepAlive: true });
  const ask = (path: string, set: HeaderSet): Promise<Envelope> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const url = `${endpoint}/client/v4/accounts/dev/email/sending/${path}`;
      const asking = request(url, { method: 'POST', agent, headers }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('end', () => resolve(JSON.parse(text) as Envelope));
      });
      asking.on('error', reject).end(requestJson(set));
    });
  return [
    {
      name: 'REST',
      async judge(set) {
        const { errors, result } = await ask('send', set);
        if (result?.message_id !== undefined) return { violations: [], head: spool.take(result.message_id) };
        return { violations: errors.map(envelopeViolation) };
      },
      close: () => agent.destroy(),
    },
    {
      name: 'validate',
      async judge(set) {
        const { result } = await ask('validate', set);
        if (!result?.errors) throw new Error('validate gave no verdict');
        const violations = result.errors.map(envelopeViolation);
        if (!result.headers_as_sent) return { violations };
        return { violations, head: Buffer.from(`${result.headers_as_sent.join('\r\n')}\r\n`).toString('latin1') };
      },
    },
  ];
}

/** An object where one can say what the set says, pairs where one cannot. */
function bindingHeaders({ headers }: HeaderSet): EmailHeaders {
  const pairs = headers.map(({ name, value }) => [name, value as string] as const);
  const object = Object.fromEntries(pairs);
  const same = JSON.stringify(Object.entries(object)) === JSON.stringify(pairs);
  return same ? object : pairs;
}

function bindingDoor(endpoint: string, spool: RecordingSpool): Door {
  const binding = createEmailBinding({ endpoint, token, account: 'dev' });
  return {
    name: 'binding',
    async judge(set) {
      const message = { from: sender, to: recipient, subject: 'Hi', text: 'Hello', headers: bindingHeaders(set) };
      try {
        const { messageId } = await binding.send(message);
        return { violations: [], head: spool.take(messageId) };
      } catch (error) {
        if (!(error instanceof EmailError)) throw error;
        return {
          violations: error.violations.map(({ code, message, name }) => ({
            code,
            message,
            ...(name === undefined ? {} : { name }),
          })),
        };
      }
    },
  };
}

/** Opens every door on one pipeline. */
export async function openDoors(): Promise<Doors> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-doors-'));
  const env = { POSTERN_CONFIG: 'postern.yaml', POSTERN_TOKEN: token };
  writeFileSync(join(folder, 'postern.yaml'), JSON.stringify(configuration));
  const config = loadConfig({ file: 'postern.yaml', env, cwd: folder });
  const database = openSqliteFile(':memory:');
  await bootstrap(config, { env, clock: systemClock });
  const accounts = createAccounts({
    accounts: config.accounts,
    tokens: configuredTokens(config, env),
    clock: systemClock,
  });
  const spool = new RecordingSpool();
  const building = buildParts(config, loadKeys(config), accounts, systemClock);
  const submit = createSubmit({
    ...building,
    spool,
    expireAfterSeconds: 60,
    onAccepted: () => undefined,
    onRefused: () => undefined,
  });
  const smtp = new SmtpDoor({
    settings: config.smtp,
    accounts,
    submit,
    log: silentLog,
    clock: systemClock,
    tls: () => ({ cert: '', key: '' }),
  });
  const rest = restDoor({
    limits: config.rest.limits,
    submit,
    examine: (submission) => examine(submission, building),
    preview: (submission) => build(submission, building),
    keys: spool,
    outcomes: createOutcomeWatch(),
    onRefused: () => undefined,
  });
  const http = new HttpApp({
    answers: restAnswers,
    accounts,
    log: silentLog,
    ready: () => Promise.resolve(true),
    metrics: async () => ({ contentType: 'text/plain', text: '' }),
    plugins: [rest],
    ...{ bodies: new BodyBudget(defaultBodyLimit()), guessing: new Guessing({}) },
    ...{ trustedProxies: [], takesRequests: () => true },
    limits: { connections: Infinity, connectionsPerAddress: Infinity },
  });
  const [listening] = await smtp.listen();
  const { port } = await http.listen({ host: '127.0.0.1', port: 0 });
  const endpoint = `http://127.0.0.1:${port}`;
  const doors = [
    await smtpDoor(listening?.port ?? 0, spool),
    ...restDoors(endpoint, spool),
    bindingDoor(endpoint, spool),
  ];
  return {
    doors,
    check: checkDoor(folder, env),
    close: async () => {
      for (const door of doors) door.close?.();
      await Promise.all([smtp.drain(0), http.close(0)]);
      database.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
