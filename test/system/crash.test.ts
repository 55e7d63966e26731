// kill -9 at random moments under load: what was answered 250 arrives, what was answered otherwise does not, and nothing arrives
// twice but across a kill. The sender's ledger (answers) and the sink's (arrivals) are compared at the end. More rounds than these:
// POSTERN_CRASH_ROUNDS=30 npx vitest run --project system test/system/crash.test.ts

import { rmSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Database } from '../../src/base/database/database.ts';
import type { MailEvent } from '../../src/spool/events/mail-event.ts';
import { deviceConfiguration } from '../support/device-config.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { aheadBy } from '../support/old-data.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { servingPids } from '../support/server-processes.ts';
import { openStoreOf } from '../support/store.ts';

const rounds = process.env['POSTERN_CRASH_ROUNDS'];
const sessions = 8;
const hourMs = 3_600_000;

/** Where mail is kept, which gateways work on it, and how often one of them is killed. */
interface Place {
  readonly place: string;
  readonly kills: number;
  readonly isOnPostgres: boolean;
  /** For each gateway, by how many milliseconds its clock is ahead. */
  readonly gateways: readonly number[];
  /** Processes of a gateway, of which one is killed; absent: it has one. */
  readonly processes?: number;
}

const places: readonly Place[] = [
  { place: 'SQLite', kills: Number(rounds ?? 15), isOnPostgres: false, gateways: [0] },
  { place: 'PostgreSQL', kills: Number(rounds ?? 6), isOnPostgres: true, gateways: [0] },
  {
    place: 'PostgreSQL, one of four processes',
    ...{ kills: Number(rounds ?? 3), isOnPostgres: true, gateways: [0], processes: 4 },
  },
  {
    // One of two gateways is killed.
    place: 'PostgreSQL, clocks two hours apart',
    ...{ kills: Number(rounds ?? 3), isOnPostgres: true, gateways: [0, 2 * hourMs] },
  },
];

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server?.remove());

let sink: FaultSink | undefined;
let gateways: PosternProcess[] = [];
/** How many messages had arrived when a process was gone, kill by kill. */
let arrivedBefore: number[] = [];
/** Whether there is nothing left to send. */
const sending = { isOver: false };
afterEach(async () => {
  sending.isOver = true;
  await Promise.all(gateways.map((one) => one.end('SIGKILL')));
  await sink?.close();
  for (const { folder } of gateways) rmSync(folder, { recursive: true, force: true });
  [gateways, sink, sending.isOver, arrivedBefore] = [[], undefined, false, []];
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

/** Sends messages one after another, each time the connection breaks by a new one. @param port of whichever gateway is there */
async function sendOn(port: () => number | undefined): Promise<void> {
  while (!sending.isOver) {
    const at = port();
    if (at !== undefined) await session(at).catch(() => undefined);
    await new Promise((wait) => setTimeout(wait, 20));
  }
}

/** What has no answer when the process is killed stays 0, which says nothing either way. */
async function session(port: number): Promise<void> {
  const client = await connectSmtp(port);
  try {
    await client.reply();
    await client.command('EHLO crash.example.com');
    while (!sending.isOver) {
      serial += 1;
      const mark = `m${serial}`;
      const { text, recipients } = message(mark);
      await client.command('MAIL FROM:<a@example.com>');
      for (const recipient of recipients) await client.command(`RCPT TO:<${recipient}>`);
      await client.command('DATA');
      answers.set(mark, 0);
      client.write(text);
      answers.set(mark, (await client.reply()).code);
    }
  } finally {
    client.close();
  }
}

/** How often each recipient was accepted, and delivered to, as the events tell. */
async function countedEvents(database: Database): Promise<Map<string, number>> {
  const count = new Map<string, number>();
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

/** Arrivals by mark and recipient: after how many kills each came. */
function arrivals(): Map<string, readonly number[]> {
  const seen = new Map<string, readonly number[]>();
  for (const [at, { raw, recipients }] of (sink?.messages ?? []).entries()) {
    const mark = /^X-Ledger: (m\d+)\r$/m.exec(raw.toString('latin1', 0, 8192))?.[1] ?? '?';
    const kills = arrivedBefore.filter((arrived) => arrived <= at).length;
    for (const recipient of recipients)
      seen.set(`${mark} ${recipient}`, [...(seen.get(`${mark} ${recipient}`) ?? []), kills]);
  }
  return seen;
}

/** How a gateway of a place is started, again on the folder of an earlier one. */
async function startsOf({ isOnPostgres, gateways: aheads, processes }: Place, port: number) {
  const url = isOnPostgres ? await server.createSchema() : undefined;
  const config = deviceConfiguration({
    routes: [{ name: 'sink', type: 'smarthost', url: `smtp://127.0.0.1:${port}`, tls: 'none', connections: 4 }],
    delivery: {
      retry: { firstDelaySeconds: 1, maxDelaySeconds: 1, expireAfterSeconds: 3600 },
    },
    // What was in the hands of a killed process comes back when it was silent for so long.
    ...(isOnPostgres ? { database: { url: 'postgres://nobody@127.0.0.1:1/none', takeOverSeconds: 5 } } : {}),
    ...(processes === undefined ? {} : { processes }),
  });
  return aheads.map((ahead) => async (folder?: string) => {
    const env = { ...(url === undefined ? {} : { POSTERN_DATABASE_URL: url }), ...(ahead > 0 ? aheadBy(ahead) : {}) };
    return await startPostern({ config, env, startSeconds: 90, ...(folder === undefined ? {} : { folder }) });
  });
}

/** Kills one process of a gateway, and waits until another one takes its place. */
async function killProcess(gateway: PosternProcess, processes: number): Promise<void> {
  const pids = [...servingPids(gateway).values()];
  process.kill(pids[Math.floor(Math.random() * pids.length)] ?? gateway.pid, 'SIGKILL');
  await gateway.until(() => servingPids(gateway).size < processes);
  arrivedBefore.push(sink?.messages.length ?? 0);
  await gateway.until(() => servingPids(gateway).size === processes, 90);
}

test.each(places)(
  'kill -9, $kills rounds on $place: nothing answered 250 is lost, nothing refused arrives',
  { timeout: 900_000 },
  async (place) => {
    const { kills, processes } = place;
    sink = await FaultSink.start();
    const starts = await startsOf(place, sink.port);
    const running: (PosternProcess | undefined)[] = [];
    for (const start of starts) {
      const one = await start();
      gateways.push(one);
      running.push(one);
    }
    const senders = Array.from({ length: sessions }, (_, at) =>
      sendOn(() => running[at % running.length]?.ports['devices']),
    );
    const acceptedSoFar = (): number => [...answers.values()].filter((code) => code === 250).length;
    for (let round = 0; round < kills; round += 1) {
      const before = acceptedSoFar();
      await new Promise((wait) => setTimeout(wait, 50 + Math.random() * 600));
      // A slow machine may have taken next to nothing by then.
      await expect.poll(acceptedSoFar).toBeGreaterThan(before + 5);
      const at = Math.floor(Math.random() * starts.length);
      const victim = gateways[at];
      if (!victim) throw new Error('There is no gateway');
      if (processes !== undefined) {
        await killProcess(victim, processes);
        continue;
      }
      running[at] = undefined;
      await victim.end('SIGKILL');
      arrivedBefore.push(sink.messages.length);
      const next = await starts[at]?.(victim.folder);
      if (next) gateways[at] = next;
      running[at] = next;
    }
    sending.isOver = true;
    await Promise.all(senders);

    const accepted = [...answers].filter(([, code]) => code === 250).map(([mark]) => mark);
    const wanted = accepted.flatMap((mark) => message(mark).recipients.map((recipient) => `${mark} ${recipient}`));
    const [any] = gateways;
    if (!any) throw new Error('There is no gateway');
    const store = await openStoreOf(any);
    // What was in the hands of a killed process comes back later, also where it had arrived.
    const untold = async (): Promise<readonly string[]> => {
      const told = await countedEvents(store);
      return [...wanted, ...arrivals().keys()].filter((key) => !told.has(`delivered ${key.split(' ', 2)[1] ?? ''}`));
    };
    await expect.poll(untold, { timeout: 120_000, interval: 500 }).toEqual([]);

    // Every message answered 250 has one event of its acceptance, and each of its recipients one of its delivery.
    await Promise.all(gateways.map((one) => one.end('SIGTERM')));
    const events = await countedEvents(store);
    expect([...events].filter(([, count]) => count !== 1)).toEqual([]);
    expect(accepted.filter((mark) => !events.has(`accepted ${mark}@one.test`))).toEqual([]);

    const seen = arrivals();
    const refused = new Set([...answers].filter(([, code]) => code >= 400).map(([mark]) => mark));
    const twice = [...seen].filter(([, arrived]) => arrived.length > 1);
    console.log(
      `${place.place}, ${kills} rounds: ${accepted.length} answered 250, ${refused.size} refused, ${[...answers.values()].filter((code) => code === 0).length} without an answer; ${seen.size} arrivals, ${twice.length} of them more than once`,
    );
    expect(accepted.length).toBeGreaterThan(kills * 5);
    expect(refused.size).toBeGreaterThan(0);
    expect(wanted.filter((key) => !seen.has(key))).toEqual([]);
    expect([...seen.keys()].filter((key) => refused.has(key.split(' ', 1)[0] ?? ''))).toEqual([]);
    // What was handed over, and the process killed before it had written so, comes once more: never without a kill between.
    expect(twice.filter(([, arrived]) => new Set(arrived).size < arrived.length)).toEqual([]);
  },
);
