// kill -9 at random moments under load: what was answered 250 arrives, what was answered otherwise does not. The
// sender's ledger (answers) and the sink's (arrivals) are compared at the end. So on SQLite and on PostgreSQL.

import { rmSync } from 'node:fs';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import type { MailEvent } from '../../src/events/mail-event.ts';
import { deviceConfiguration } from '../support/device-config.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { startPostgres } from '../support/postgres.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { openStoreOf } from '../support/store.ts';

const rounds = process.env['POSTERN_CRASH_ROUNDS'];
const sessions = 8;

/** Where the gateway keeps its mail, and how often it is killed there. */
const stores = [
  { store: 'SQLite', rounds: Number(rounds ?? 15), settings: async () => ({}) },
  {
    store: 'PostgreSQL',
    rounds: Number(rounds ?? 6),
    async settings() {
      const server = await startPostgres();
      onTestFinished(() => server.remove());
      // What was in the hands of a killed process comes back when it was silent for so long.
      const database = { url: 'postgres://nobody@127.0.0.1:1/none', takeOverSeconds: 5 };
      return { database, url: await server.createSchema() };
    },
  },
] satisfies readonly {
  readonly store: string;
  readonly rounds: number;
  readonly settings: () => Promise<{ readonly database?: object; readonly url?: string }>;
}[];

let sink: FaultSink | undefined;
let postern: PosternProcess | undefined;
afterEach(async () => {
  await postern?.end('SIGKILL');
  await sink?.close();
  if (postern) rmSync(postern.folder, { recursive: true, force: true });
  [postern, sink] = [undefined, undefined];
  answers.clear();
});

/** What the sender heard for each message: a reply code, or 0 for none. */
const answers = new Map<string, number>();
let serial = 0;

function message(mark: string): { readonly text: string; readonly recipients: readonly string[] } {
  const number = Number(mark.slice(1));
  // Every seventh is refused by the policy, every eleventh is over 256 KiB (its body is a file), some go to two.
  const extra = number % 7 === 0 ? 'User-Agent: refused/1.0\r\n' : '';
  const body = number % 11 === 0 ? `${'x'.repeat(76)}\r\n`.repeat(4000) : `Body of ${mark}.\r\n`;
  const recipients = number % 3 === 0 ? [`${mark}@one.test`, `${mark}@two.test`] : [`${mark}@one.test`];
  const head = `From: a@example.com\r\nTo: b@partner.test\r\nSubject: crash\r\nX-Ledger: ${mark}\r\n${extra}\r\n`;
  return { text: `${head}${body}.\r\n`, recipients };
}

/** Sends messages one after another until the connection breaks. */
async function sendUntilDead(port: number): Promise<void> {
  let mark = '';
  try {
    const client = await connectSmtp(port);
    await client.reply();
    await client.command('EHLO crash.example.com');
    for (;;) {
      serial += 1;
      mark = `m${serial}`;
      const { text, recipients } = message(mark);
      await client.command('MAIL FROM:<a@example.com>');
      for (const recipient of recipients) await client.command(`RCPT TO:<${recipient}>`);
      await client.command('DATA');
      answers.set(mark, 0);
      client.write(text);
      answers.set(mark, (await client.reply()).code);
    }
  } catch {
    // The process was killed: what has no answer yet stays 0, which says nothing either way.
  }
}

/** How often each recipient was accepted, and delivered to, as the events tell. */
async function countedEvents(ended: PosternProcess): Promise<Map<string, number>> {
  const count = new Map<string, number>();
  const database = await openStoreOf(ended);
  const rows = await database.query("SELECT event FROM mail_events WHERE kind IN ('accepted', 'delivered')");
  for (const row of rows) {
    const event: MailEvent = JSON.parse(String(row['event']));
    const recipients =
      event.kind === 'accepted' ? event.recipients : event.kind === 'delivered' ? [event.recipient] : [];
    for (const recipient of recipients) {
      const key = `${event.kind} ${recipient}`;
      count.set(key, (count.get(key) ?? 0) + 1);
    }
  }
  return count;
}

/** Arrivals by mark and recipient. */
function arrivals(): Map<string, number> {
  const seen = new Map<string, number>();
  for (const { raw, recipients } of sink?.messages ?? []) {
    const mark = /^X-Ledger: (m\d+)\r$/m.exec(raw.toString('latin1', 0, 8192))?.[1] ?? '?';
    for (const recipient of recipients) seen.set(`${mark} ${recipient}`, (seen.get(`${mark} ${recipient}`) ?? 0) + 1);
  }
  return seen;
}

test.each(stores)(
  'kill -9, $rounds rounds on $store: nothing answered 250 is lost, nothing refused arrives',
  {
    timeout: 600_000,
  },
  async ({ store, rounds: kills, settings }) => {
    const { database, url }: { readonly database?: object; readonly url?: string } = await settings();
    sink = await FaultSink.start();
    const config = deviceConfiguration({
      routes: [{ name: 'sink', type: 'smarthost', url: `smtp://127.0.0.1:${sink.port}`, tls: 'none', connections: 4 }],
      delivery: {
        retry: { firstDelaySeconds: 1, factor: 1, maxDelaySeconds: 1, jitter: 0.2, expireAfterSeconds: 3600 },
      },
      ...(database ? { database } : {}),
    });
    const start = (): Promise<PosternProcess> =>
      startPostern({
        config,
        ...(url === undefined ? {} : { env: { POSTERN_DATABASE_URL: url } }),
        ...(postern ? { folder: postern.folder } : {}),
      });
    const acceptedSoFar = (): number => [...answers.values()].filter((code) => code === 250).length;
    for (let round = 0; round < kills; round += 1) {
      postern = await start();
      const port = postern.ports['devices'] ?? 0;
      const senders = Array.from({ length: sessions }, () => sendUntilDead(port));
      await new Promise((wait) => setTimeout(wait, 50 + Math.random() * 600));
      // A slow machine may have taken next to nothing by then.
      await expect.poll(acceptedSoFar).toBeGreaterThan((round + 1) * 5);
      await postern.end('SIGKILL');
      await Promise.all(senders);
    }

    postern = await start();
    const accepted = [...answers].filter(([, code]) => code === 250).map(([mark]) => mark);
    const wanted = accepted.flatMap((mark) => message(mark).recipients.map((recipient) => `${mark} ${recipient}`));
    await postern
      .until(() => {
        const seen = arrivals();
        return wanted.every((key) => seen.has(key));
      }, 120)
      .catch(() => undefined); // the comparison below says what is missing

    // Every message answered 250 has one event of its acceptance, and each of its recipients one of its delivery.
    await postern.end('SIGTERM');
    const events = await countedEvents(postern);
    expect([...events.values()].filter((count) => count !== 1)).toEqual([]);
    expect(accepted.filter((mark) => !events.has(`accepted ${mark}@one.test`))).toEqual([]);
    expect([...arrivals().keys()].filter((key) => !events.has(`delivered ${key.split(' ', 2)[1] ?? ''}`))).toEqual([]);

    const seen = arrivals();
    const refused = new Set([...answers].filter(([, code]) => code >= 400).map(([mark]) => mark));
    const twice = [...seen.values()].filter((count) => count > 1).length;
    console.log(
      `${store}, ${kills} rounds: ${accepted.length} answered 250, ${refused.size} refused, ${[...answers.values()].filter((code) => code === 0).length} without an answer; ${seen.size} arrivals, ${twice} of them more than once`,
    );
    expect(accepted.length).toBeGreaterThan(kills * 5);
    expect(refused.size).toBeGreaterThan(0);
    expect(wanted.filter((key) => !seen.has(key))).toEqual([]);
    expect([...seen.keys()].filter((key) => refused.has(key.split(' ', 1)[0] ?? ''))).toEqual([]);
  },
);
