// A load of SMTP in a process of its own, for what Postfix's smtp-source cannot do: STARTTLS with AUTH, messages that are refused, a
// pace, any message and any number of recipients. Its one argument is a SmtpJob as JSON; it prints one SmtpLoadLine.

import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { connect as secure } from 'node:tls';
import { percentileOf } from './process-usage.ts';
import { firstLine, script } from './script.ts';

/** What is sent, and how. */
export interface SmtpJob {
  readonly port: number;
  readonly messages: number;
  readonly sessions: number;
  /** Octets of a message of plain text; with `file` the message is that file, with line ends of CRLF and dots doubled. */
  readonly size?: number;
  readonly file?: string;
  /** Of each message; absent: one. They are handed in at once, by PIPELINING. */
  readonly recipients?: number;
  /** A connection for each message; absent: connections stay open. */
  readonly each?: boolean;
  /** STARTTLS, and AUTH PLAIN with this token. */
  readonly token?: string;
  /** Each message of so many has a field that the allowlist does not have. */
  readonly refuseEvery?: number;
  /** Messages a second that are begun, all sessions together; absent: as many as there can be. */
  readonly rate?: number;
}

/** What has come of it; times in milliseconds from the final dot to the reply. */
export interface SmtpLoadLine {
  readonly seconds: number;
  readonly p50: number;
  readonly p99: number;
  /** Messages by the code that ended each. */
  readonly answers: Readonly<Record<string, number>>;
  /** The first reply that refused something. */
  readonly refusal?: string;
}

/** Runs a job in a process of its own. */
export async function runSmtpLoad(job: SmtpJob): Promise<SmtpLoadLine> {
  return JSON.parse(await firstLine(script('smtp-load.ts', [JSON.stringify(job)]))) as SmtpLoadLine;
}

/** A connection on which one asks and waits. */
class Dialogue {
  #socket: Socket;
  #text = '';
  #wanted = 1;
  #settle: { resolve(replies: string): void; reject(error: Error): void } | undefined;

  constructor(port: number) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#listen();
  }

  #listen(): void {
    this.#socket.on('data', (piece) => {
      this.#text += piece.toString('latin1');
      if (this.#text.endsWith('\n') && (this.#text.match(/^\d{3} /gm)?.length ?? 0) >= this.#wanted) this.#answer();
    });
    this.#socket.on('error', (error) => this.#settle?.reject(error));
    this.#socket.on('close', () => this.#settle?.reject(new Error(`The connection was closed: ${this.#text}`)));
  }

  #answer(): void {
    const text = this.#text;
    this.#text = '';
    this.#settle?.resolve(text);
  }

  /** Waits for so many replies. */
  heard(replies = 1): Promise<string> {
    this.#wanted = replies;
    return new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
  }

  say(text: string | Buffer, replies = 1): Promise<string> {
    const answer = this.heard(replies);
    this.#socket.write(text);
    return answer;
  }

  async startTls(): Promise<void> {
    this.#socket.removeAllListeners();
    const socket = secure({ socket: this.#socket, rejectUnauthorized: false });
    await new Promise<void>((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
    this.#socket = socket;
    this.#listen();
  }

  end(): void {
    this.#settle = undefined;
    this.#socket.end('QUIT\r\n');
  }
}

/** Opens a session, up to where a message may begin. */
async function open({ port, token }: SmtpJob): Promise<Dialogue> {
  const session = new Dialogue(port);
  await session.heard();
  await session.say('EHLO bench.example\r\n');
  if (token === undefined) return session;
  await session.say('STARTTLS\r\n');
  await session.startTls();
  await session.say('EHLO bench.example\r\n');
  const login = await session.say(`AUTH PLAIN ${Buffer.from(`\0api_token\0${token}`).toString('base64')}\r\n`);
  if (!login.startsWith('235')) throw new Error(`Not logged in: ${login}`);
  return session;
}

const head = 'From: bench@example.com\r\nTo: rcpt@example.net\r\nSubject: A message of the benchmark\r\n';

function plainMessage(size: number): string {
  const line = `${'X'.repeat(78)}\r\n`;
  return `\r\n${line.repeat(Math.ceil(size / line.length)).slice(0, Math.max(2, size - head.length - 4))}\r\n`;
}

async function run(job: SmtpJob): Promise<SmtpLoadLine> {
  const { messages, sessions, recipients = 1, refuseEvery, rate } = job;
  const rest = job.file === undefined ? `${head}${plainMessage(job.size ?? 4096)}` : readFileSync(job.file, 'latin1');
  const whole = Buffer.from(`${rest}.\r\n`, 'latin1');
  const refused = Buffer.from(`User-Agent: bench\r\n${rest}.\r\n`, 'latin1');
  const addresses = Array.from({ length: recipients }, (_, at) => `RCPT TO:<rcpt${at}@example.net>\r\n`).join('');
  const times: number[] = [];
  const answers: Record<string, number> = {};
  let refusal: string | undefined;
  let begun = 0;
  const start = performance.now();

  async function send(session: Dialogue, number: number): Promise<void> {
    let reply = await session.say('MAIL FROM:<bench@example.com>\r\n');
    if (reply.startsWith('250')) reply = await session.say(addresses, recipients);
    const fault = /^[45]\d\d[ -].*/m.exec(reply)?.[0];
    if (fault !== undefined) {
      refusal ??= fault;
      await session.say('RSET\r\n');
    } else {
      await session.say('DATA\r\n');
      const from = performance.now();
      reply = await session.say(refuseEvery !== undefined && number % refuseEvery === 0 ? refused : whole);
      times.push(performance.now() - from);
      if (!reply.startsWith('250')) refusal ??= reply.trim();
    }
    const code = (fault ?? reply).slice(0, 3);
    answers[code] = (answers[code] ?? 0) + 1;
  }

  async function keepSending(): Promise<void> {
    let session: Dialogue | undefined;
    for (let number = begun++; number < messages; number = begun++) {
      const wait = rate === undefined ? 0 : (number / rate) * 1000 - (performance.now() - start);
      if (wait > 1) await new Promise((done) => setTimeout(done, wait));
      session ??= await open(job);
      await send(session, number);
      if (!job.each) continue;
      session.end();
      session = undefined;
    }
    session?.end();
  }

  await Promise.all(Array.from({ length: sessions }, keepSending));
  const seconds = (performance.now() - start) / 1000;
  const told = { seconds, p50: percentileOf(times, 0.5), p99: percentileOf(times, 0.99), answers };
  return refusal === undefined ? told : { ...told, refusal };
}

if (import.meta.main) console.log(JSON.stringify(await run(JSON.parse(process.argv[2] ?? '') as SmtpJob)));
