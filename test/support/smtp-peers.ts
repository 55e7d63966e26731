// What the SMTP door's tests are made of: accounts, settings, a door on loopback, and a client that sends octets.

import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { generate } from 'selfsigned';
import type { Account, Credential, Scope, Submitter } from '../../src/accounts/account.ts';
import { stripRules } from '../../src/accounts/strip-rules.ts';
import { hashToken } from '../../src/accounts/token-store.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import type { DoorAccounts } from '../../src/doors/smtp/dialogue-context.ts';
import type { SmtpLimits, SmtpListener, SmtpSettings } from '../../src/doors/smtp/settings.ts';
import { SmtpDoor, type SmtpDoorParts } from '../../src/doors/smtp/smtp-door.ts';
import type { Submission, SubmitResult } from '../../src/pipeline/submit.ts';

export { type ManualClock, manualClock } from './manual-clock.ts';

export const hostname = 'mx.platform.example';
/** Tokens of the test accounts. */
export const tokens = { full: 'token-full', cron: 'token-cron', readOnly: 'token-read-only' } as const;

function credential(name: string, more: Partial<Credential> = {}): Credential {
  return { name, scopes: new Set<Scope>(['email:send']), strip: stripRules(), trustedHop: false, ...more };
}

const dkim = [{ selector: 's1', algorithm: 'rsa' }] as const;

export const devAccount: Account = {
  id: 'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',
  name: 'dev',
  plan: 'enterprise',
  sendingDomains: [
    { name: 'example.com', subdomains: true, dkim },
    { name: 'xn--bcher-kva.example', subdomains: true, dkim },
  ],
  limits: {},
  showClientAddress: true,
  tlsRequiredNo: false,
  credentials: new Map([
    ['default', credential('default')],
    ['cron', credential('cron', { defaultDomain: 'example.com', legacyCharset: 'iso-8859-1' })],
    ['reader', credential('reader', { scopes: new Set<Scope>(['proxy:read']) })],
  ]),
};

function submitter(name: string): Submitter | undefined {
  const found = devAccount.credentials.get(name);
  return found && { account: devAccount, credential: found };
}

const credentialOfToken: Readonly<Record<string, string>> = {
  [tokens.full]: 'default',
  [tokens.cron]: 'cron',
  [tokens.readOnly]: 'reader',
};

const submitterOfHash = new Map(
  Object.entries(credentialOfToken).map(([token, name]) => [hashToken(token), submitter(name)]),
);

/** One account with three credentials, a token each. */
export const accounts: DoorAccounts = {
  authenticateHash: (sha256) => submitterOfHash.get(sha256),
  find: (idOrName) => (idOrName === devAccount.id || idOrName === devAccount.name ? devAccount : undefined),
  submitter: (account, name) => (account === devAccount.name ? submitter(name) : undefined),
  sendingDomain: (account, domain) =>
    account.sendingDomains.find((entry) => domain === entry.name || domain.endsWith(`.${entry.name}`)),
};

/** A listener on a free port of loopback: without TLS, and AUTH taken all the same. */
export const plainListener: SmtpListener = {
  name: 'plain',
  role: 'submission',
  host: '127.0.0.1',
  port: 0,
  tls: 'none',
  allowInsecureAuth: true,
  trustedHop: false,
  lineEndings: 'fix',
  legacyCharset: 'windows-1252',
  proxyProtocolFrom: [],
  allowFrom: [],
};

/** A listener whose sessions are the credential `default` (D40c). */
export const deviceListener: SmtpListener = {
  ...plainListener,
  name: 'devices',
  allowInsecureAuth: false,
  credential: { account: 'dev', name: 'default' },
  allowFrom: ['127.0.0.0/8'],
};

export const limits: SmtpLimits = {
  messageBytes: 4096,
  recipients: 100,
  connections: 200,
  connectionsPerAddress: 100,
  authFailures: 3,
  authSeconds: 30,
  commandSeconds: 60,
  dataIdleSeconds: 300,
  dataOctetsPerSecond: 100,
  idleSeconds: 300,
};

let pair: { readonly cert: string; readonly key: string } | undefined;

/** A self-signed certificate, made once for a test file. */
export async function certificate(): Promise<{ readonly cert: string; readonly key: string }> {
  if (!pair) {
    const made = await generate([{ name: 'commonName', value: hostname }], { algorithm: 'sha256' });
    pair = { cert: made.cert, key: made.private };
  }
  return pair;
}

/** A door that listens, and what it handed to `submit`. */
export interface RunningDoor {
  readonly door: SmtpDoor;
  /** The port of a listener by its name. */
  port(listener: string): number;
  readonly submissions: Submission[];
}

/** What a test may set. */
export interface DoorChoices extends Partial<Omit<SmtpDoorParts, 'settings'>> {
  readonly listeners?: readonly SmtpListener[];
  readonly limits?: Partial<SmtpLimits>;
}

/** Accepts everything under a message id that counts up. */
export function recordingSubmit(submissions: Submission[]): (submission: Submission) => Promise<SubmitResult> {
  return (submission) => {
    submissions.push(submission);
    const id = String(submissions.length);
    return Promise.resolve({ accepted: true, id, messageId: `<${id}@platform.example>` });
  };
}

/** Starts a door on loopback. */
export async function startDoor(choices: DoorChoices = {}): Promise<RunningDoor> {
  const { listeners = [plainListener], limits: chosenLimits, ...parts } = choices;
  const submissions: Submission[] = [];
  const settings: SmtpSettings = { hostname, listeners, limits: { ...limits, ...chosenLimits } };
  const tls = await certificate();
  const door = new SmtpDoor({
    settings,
    accounts,
    submit: recordingSubmit(submissions),
    log: silentLog,
    clock: systemClock,
    tls: () => tls,
    ...parts,
  });
  const bound = await door.listen();
  return {
    door,
    submissions,
    port: (name) => bound.find((listener) => listener.name === name)?.port ?? 0,
  };
}

/** A client that sends octets and collects what comes back, one character an octet. */
export class RawClient {
  received = '';
  ended = false;
  #socket: Socket | TLSSocket;
  #wake: (() => void) | undefined;

  constructor(socket: Socket | TLSSocket) {
    this.#socket = socket;
    this.#attach(socket);
  }

  /** Connects over TCP. */
  static open(port: number, options: { readonly localAddress?: string; readonly host?: string } = {}): RawClient {
    return new RawClient(connect({ port, host: '127.0.0.1', noDelay: true, ...options }));
  }

  /** Connects with TLS from the first octet. */
  static openTls(port: number): RawClient {
    return new RawClient(connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }));
  }

  #attach(socket: Socket | TLSSocket): void {
    socket.on('data', (chunk: Buffer) => {
      this.received += chunk.toString('latin1');
      this.#wake?.();
    });
    socket.on('close', () => {
      this.ended = true;
      this.#wake?.();
    });
    socket.on('error', () => this.#wake?.());
  }

  /** Sends octets, given as one character each. */
  send(text: string): void {
    this.#socket.write(text, 'latin1');
  }

  /** Sends octets in pieces of their own, one turn of the event loop apart. */
  async sendPieces(pieces: readonly Buffer[]): Promise<void> {
    for (const piece of pieces) {
      await new Promise<void>((resolve) => {
        this.#socket.write(piece, () => setImmediate(resolve));
      });
      if (this.ended) return;
    }
  }

  /** Closes our side only. */
  halfClose(): void {
    this.#socket.end();
  }

  /** Reads nothing more. */
  pause(): void {
    this.#socket.pause();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Cuts a connection without TLS off. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  /** Resolves when what was received fulfils the condition, or the connection has ended. */
  async until(fulfilled: (received: string) => boolean): Promise<string> {
    while (!fulfilled(this.received) && !this.ended) {
      await new Promise<void>((resolve, reject) => {
        const giveUp = (): void => reject(new Error(`Nothing more came; so far: ${JSON.stringify(this.received)}`));
        const timer = setTimeout(giveUp, 15_000);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return this.received;
  }

  /** Takes one whole reply, all its lines; what is left when the connection has ended. */
  async reply(): Promise<string> {
    const whole = /^(?:\d{3}-[^\n]*\n)*\d{3}(?: [^\n]*)?\n/;
    await this.until((received) => whole.test(received));
    const taken = whole.exec(this.received)?.[0] ?? this.received;
    this.received = this.received.slice(taken.length);
    return taken;
  }

  /** Sends a command and gives its reply. */
  async ask(command: string): Promise<string> {
    this.send(`${command}\r\n`);
    return await this.reply();
  }

  /** Resolves to everything received when the other side has closed. */
  async untilEnd(): Promise<string> {
    return await this.until(() => false);
  }

  /** Puts TLS on top of the connection, as behind STARTTLS. */
  async startTls(): Promise<void> {
    const raw = this.#socket;
    raw.removeAllListeners('data');
    const upgraded = connectTls({ socket: raw, rejectUnauthorized: false });
    this.#socket = upgraded;
    await new Promise<void>((resolve, reject) => {
      upgraded.once('secureConnect', resolve);
      upgraded.once('error', reject);
    });
    this.#attach(upgraded);
  }
}

/** What AUTH PLAIN sends for a user name and a password. */
export function plainResponse(userName: string, password: string): string {
  return Buffer.from(`\0${userName}\0${password}`).toString('base64');
}
