// The gateway on PostgreSQL, as real processes: what was answered 250 arrives, whatever becomes of server and gateways.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { deviceConfiguration } from '../support/device-config.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { type PosternOptions, type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { runCli } from '../support/run-cli.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

async function startSink(): Promise<FaultSink> {
  const sink = await FaultSink.start();
  onTestFinished(() => sink.close());
  return sink;
}

/** Starts a gateway that ends with the test. */
async function start(options: PosternOptions): Promise<PosternProcess> {
  const postern = await startPostern(options);
  onTestFinished(async () => {
    await postern.end('SIGKILL');
    rmSync(postern.folder, { recursive: true, force: true });
  });
  return postern;
}

/** A gateway that relays to the sink and retries every second. */
function settings(sink: FaultSink, url: string): PosternOptions {
  const route = { name: 'sink', type: 'smarthost', url: `smtp://127.0.0.1:${sink.port}`, tls: 'none', connections: 4 };
  const config = {
    ...deviceConfiguration({
      routes: [route],
      delivery: { retry: { firstDelaySeconds: 1, factor: 1, maxDelaySeconds: 1, expireAfterSeconds: 3600 } },
    }),
    database: { url: 'postgres://nobody@127.0.0.1:1/none', takeOverSeconds: 5 },
  };
  return { config, env: { POSTERN_DATABASE_URL: url } };
}

/** What senders heard for each message: a reply code, or 0 for none. */
class Senders {
  readonly answers = new Map<string, number>();
  #serial = 0;
  #isOver = false;

  readonly #name: string;

  /** @param name begins the mark of each message */
  constructor(name: string) {
    this.#name = name;
  }

  /**
   * Sends messages one after another until it is stopped; begins anew when the connection breaks.
   * @param port of the gateway that takes mail now; undefined while there is none
   */
  async run(port: () => number | undefined): Promise<void> {
    while (!this.#isOver) {
      const at = port();
      if (at !== undefined) await this.#session(at).catch(() => undefined);
      await new Promise((wait) => setTimeout(wait, 20));
    }
  }

  stop(): void {
    this.#isOver = true;
  }

  marks(isWanted: (code: number) => boolean): readonly string[] {
    return [...this.answers].filter(([, code]) => isWanted(code)).map(([mark]) => mark);
  }

  async #session(port: number): Promise<void> {
    const client = await connectSmtp(port);
    try {
      await client.reply();
      await client.command('EHLO load.example.com');
      while (!this.#isOver) {
        const mark = `${this.#name}${(this.#serial += 1)}`;
        // The first refusal counts: after a refused MAIL, DATA is out of order.
        let { code } = await client.command('MAIL FROM:<a@example.com>');
        if (code === 250) ({ code } = await client.command(`RCPT TO:<${mark}@one.test>`));
        if (code === 250) ({ code } = await client.command('DATA'));
        if (code !== 354) {
          await client.command('RSET');
          this.answers.set(mark, code);
          await new Promise((wait) => setTimeout(wait, 50));
          continue;
        }
        this.answers.set(mark, 0);
        client.write(`From: a@example.com\r\nTo: b@partner.test\r\nSubject: load\r\n\r\n${mark}\r\n.\r\n`);
        this.answers.set(mark, (await client.reply()).code);
      }
    } finally {
      client.close();
    }
  }
}

/** How often each recipient's mail has arrived, by its mark. */
function arrivals({ messages }: FaultSink): Map<string, number> {
  const seen = new Map<string, number>();
  for (const { recipients } of messages) {
    for (const recipient of recipients) {
      const mark = recipient.split('@', 1)[0] ?? '';
      seen.set(mark, (seen.get(mark) ?? 0) + 1);
    }
  }
  return seen;
}

async function ask(url: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

async function sendByRest(postern: PosternProcess, to: string): Promise<Response> {
  return await fetch(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { authorization: `Bearer ${testToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ from: 'a@example.com', to, subject: 'by REST', text: 'Hello.' }),
  });
}

test('takes mail by SMTP and REST, relays it, and shows the queue to commands', { timeout: 90_000 }, async () => {
  const sink = await startSink();
  const url = await server.createSchema();
  const postern = await start(settings(sink, url));
  const senders = new Senders('first');
  const sending = senders.run(() => postern.ports['devices']);
  await postern.until(() => senders.marks((code) => code === 250).length > 20);
  senders.stop();
  await sending;
  expect((await sendByRest(postern, 'rest@one.test')).status).toBe(200);
  const wanted = [...senders.marks((code) => code === 250), 'rest'];
  await postern.until(() => wanted.every((mark) => arrivals(sink).get(mark) === 1));

  const env = { ...postern.env } as Record<string, string>;
  const cli = async (...args: string[]) => await runCli(args, { env, cwd: postern.folder });
  expect((await cli('queue', 'summary')).stdout).toContain('0 messages queued');
  expect(await cli('backup', join(postern.folder, 'b'))).toMatchObject({ exitCode: 64 });
  expect((await cli('queue', 'compact')).stderr).toContain('autovacuum');
  expect((await cli('token', 'create', '--account', 'dev', '--credential', 'devices')).exitCode).toBe(0);
  expect((await cli('token', 'list', '--account', 'dev')).stdout).toContain('devices');
  const shown = await cli('config', 'show');
  expect(shown.stdout).toContain('url: "[hidden]"');
  expect(await postern.end('SIGTERM')).toBe(0);
  expect(await ask(url, 'SELECT id FROM spool_processes')).toEqual([]);
});

test('a restart of the server under load is answered 451 and 503, and loses nothing', {
  timeout: 120_000,
}, async () => {
  const sink = await startSink();
  const url = await server.createSchema();
  const postern = await start(settings(sink, url));
  const senders = Array.from({ length: 4 }, (_, index) => new Senders(`s${index}x`));
  const sending = senders.map((one) => one.run(() => postern.ports['devices']));
  const heard = (code: number): number =>
    senders.reduce((sum, one) => sum + one.marks((got) => got === code).length, 0);
  const ready = async (): Promise<number> => (await fetch(`http://127.0.0.1:${postern.ports['http']}/readyz`)).status;
  for (const mode of ['fast', 'immediate'] as const) {
    const [before, refused] = [heard(250), heard(451)];
    await postern.until(() => heard(250) > before + 25);
    await server.stop(mode);
    await postern.until(() => heard(451) > refused);
    expect(await ready()).toBe(503);
    const answer = await sendByRest(postern, 'never@one.test');
    expect([answer.status, answer.headers.get('retry-after') !== null]).toEqual([503, true]);
    await server.start();
    const between = heard(250);
    await postern.until(() => heard(250) > between + 20);
    expect(await ready()).toBe(200);
  }
  for (const one of senders) one.stop();
  await Promise.all(sending);
  const accepted = senders.flatMap((one) => one.marks((code) => code === 250));
  await postern.until(() => accepted.every((mark) => arrivals(sink).has(mark)), 40);
  const seen = arrivals(sink);
  const refused = new Set(senders.flatMap((one) => one.marks((code) => code >= 400)));
  expect([...seen.keys()].filter((mark) => refused.has(mark))).toEqual([]);
  const twice = [...seen.values()].filter((count) => count > 1).length;
  console.log(`${accepted.length} accepted, ${refused.size} refused, ${twice} arrived more than once`);
  expect(await postern.end('SIGTERM')).toBe(0);
  expect(await ask(url, 'SELECT count(*) AS left FROM spool_recipients WHERE state = 0')).toEqual([{ left: '0' }]);
});

test('three gateways on one database, one killed every few seconds: nothing answered 250 is lost', {
  timeout: 120_000,
}, async () => {
  const sink = await startSink();
  const url = await server.createSchema();
  const running: PosternProcess[] = [];
  for (let index = 0; index < 3; index += 1) running.push(await start(settings(sink, url)));
  const senders = running.map((_, index) => new Senders(`g${index}x`));
  const sending = senders.map((one, index) => one.run(() => running[index]?.ports['devices']));
  const accepted = (): readonly string[] => senders.flatMap((one) => one.marks((code) => code === 250));
  for (let index = 0; index < 3; index += 1) {
    const before = accepted().length;
    await running[index]?.until(() => accepted().length > before + 50);
    await running[index]?.end('SIGKILL');
    running[index] = await start(settings(sink, url));
  }
  for (const one of senders) one.stop();
  await Promise.all(sending);
  const wanted = accepted();
  await running[0]?.until(() => wanted.every((mark) => arrivals(sink).has(mark)), 40);
  const seen = arrivals(sink);
  const twice = [...seen.values()].filter((count) => count > 1).length;
  console.log(`${wanted.length} accepted, ${seen.size} arrived, ${twice} of them more than once`);
  // What had been handed over and not recorded when its process was killed: no more than a process has in hand.
  expect(twice).toBeLessThan(60);
  // What a killed process held, also of messages whose sender got no answer, has come back to the others and left.
  const left = 'SELECT count(*) AS left FROM spool_recipients WHERE state = 0';
  await expect.poll(() => ask(url, left), { timeout: 30_000, interval: 200 }).toEqual([{ left: '0' }]);
  // The rows of those that were killed go; one that has had nothing to do since its start has none yet.
  const tooMany = 'SELECT count(*) > 3 AS many FROM spool_processes';
  await expect.poll(() => ask(url, tooMany), { timeout: 30_000, interval: 200 }).toEqual([{ many: false }]);
});
