// Mail to two hundred destinations of which a fifth refuse, a fifth are slow and a tenth are down, with kill -9 in between:
// every message that was answered 250 ends delivered or failed with its reason, none is lost, and what arrives twice was under
// way when the process was killed. POSTERN_DESTINATION_MESSAGES=10000 is the full size.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import type { MailEvent } from '../../src/spool/events/mail-event.ts';
import { deviceConfiguration } from '../support/device-config.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { queuedQuestion } from '../support/store.ts';

const total = Number(process.env['POSTERN_DESTINATION_MESSAGES'] ?? 600);
const destinations = 200;
const kills = 3;
const sessions = 6;
const slowMilliseconds = 200;
/** Long enough for the last message to be tried again after the last kill. */
const expireAfterSeconds = 10;

let sink: FaultSink | undefined;
let postern: PosternProcess | undefined;
afterAll(async () => {
  await postern?.end('SIGKILL');
  await sink?.close();
  if (postern) rmSync(postern.folder, { recursive: true, force: true });
});

type Fate = 'refused' | 'slow' | 'down' | 'well';

function fateOf(destination: number): Fate {
  return (['refused', 'refused', 'slow', 'slow', 'down'] as const)[destination % 10] ?? 'well';
}

function recipientOf(number: number): string {
  const destination = number % destinations;
  const name = { refused: 'fail-rcpt', slow: 'slow', down: 'down', well: 'well' }[fateOf(destination)];
  return `${name}+m${number}@d${destination}.test`;
}

/** The answer to each message, by recipient; absent where the process was killed before it came. */
const answers = new Map<string, number>();
let next = 0;

/** Sends messages until there is none left or the connection breaks. */
async function send(port: number): Promise<void> {
  try {
    const client = await connectSmtp(port);
    await client.reply();
    await client.command('EHLO many.example.com');
    while (next < total) {
      const recipient = recipientOf(next);
      next += 1;
      await client.command('MAIL FROM:<a@example.com>');
      await client.command(`RCPT TO:<${recipient}>`);
      await client.command('DATA');
      client.write('From: a@example.com\r\nTo: b@partner.test\r\nSubject: many\r\n\r\nBody.\r\n.\r\n');
      answers.set(recipient, (await client.reply()).code);
    }
    client.close();
  } catch {
    // The process was killed: nobody knows what became of a message without an answer.
  }
}

/** Recipients that still wait. */
function waiting(file: string): number {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
  const row = database.prepare(`SELECT ${queuedQuestion({ env: {} })}`).get();
  database.close();
  return Number(row?.['queued']);
}

/** The last event of each recipient. */
function ends(file: string): Map<string, MailEvent> {
  const last = new Map<string, MailEvent>();
  const database = new DatabaseSync(file, { readOnly: true });
  for (const row of database.prepare('SELECT event FROM mail_events ORDER BY id').all()) {
    const event: MailEvent = JSON.parse(String(row['event']));
    if ('recipient' in event && event.recipient !== undefined) last.set(event.recipient, event);
  }
  database.close();
  return last;
}

/** Ordinals of arrivals, by recipient. */
function arrivals(): Map<string, number[]> {
  const seen = new Map<string, number[]>();
  for (const [at, { recipients }] of (sink?.messages ?? []).entries()) {
    for (const recipient of recipients) seen.set(recipient, [...(seen.get(recipient) ?? []), at]);
  }
  return seen;
}

test(`${total} messages to ${destinations} destinations, ${kills} kills`, { timeout: 900_000 }, async () => {
  sink = await FaultSink.start({ slowMilliseconds });
  const nobody = await FaultSink.start();
  const closedPort = nobody.port;
  await nobody.close();
  const config = deviceConfiguration({
    routes: Array.from({ length: destinations }, (_, index) => ({
      ...{ name: `d${index}`, type: 'smarthost', tls: 'none', connections: 3, backoffSeconds: 2 },
      url: `smtp://127.0.0.1:${fateOf(index) === 'down' ? closedPort : sink?.port}`,
      ...(index < destinations - 1 ? { match: { recipientDomains: [`d${index}.test`] } } : {}),
    })),
    // Only what was handed in is counted.
    // The next hop is asked about every message, and reports of ours are no mail of this test.
    account: { reports: { failure: false }, suppress: { failures: false } },
    delivery: { retry: { firstDelaySeconds: 1, maxDelaySeconds: 1, expireAfterSeconds } },
  });
  const killedAt: number[] = [];
  for (let round = 0; round <= kills; round += 1) {
    postern = await startPostern({ config, ...(postern ? { folder: postern.folder } : {}) });
    const port = postern.ports['devices'] ?? 0;
    const senders = Array.from({ length: sessions }, () => send(port));
    if (round === kills) {
      await Promise.all(senders);
      break;
    }
    const share = ((round + 1) * total) / (kills + 1);
    await postern.until(() => next >= share, 300);
    await postern.end('SIGKILL');
    // The sink is slow: what it was given before the kill arrives a little later.
    await sleep(5 * slowMilliseconds);
    killedAt.push(sink.messages.length);
    await Promise.all(senders);
  }
  const file = join(postern?.dataDir ?? '', 'postern.db');
  await postern?.until(() => waiting(file) === 0, 300);
  await postern?.end('SIGTERM');

  const accepted = [...answers].filter(([, code]) => code === 250).map(([recipient]) => recipient);
  expect(accepted.length).toBeGreaterThan(total - kills * sessions - 1);
  const end = ends(file);
  const seen = arrivals();
  const wrong = accepted.filter((recipient) => {
    const event = end.get(recipient);
    const isDelivered = event?.kind === 'delivered';
    if (isDelivered !== /^(?:well|slow)/.test(recipient)) return true;
    if (isDelivered) return !seen.has(recipient);
    return event?.kind !== 'failed' || event.reply.text === '';
  });
  expect(wrong).toEqual([]);
  const reasons = accepted.flatMap((recipient) => {
    const event = end.get(recipient);
    return event?.kind === 'failed' ? [`${recipient.split('+')[0]} ${event.reply.code} ${event.reply.enhanced}`] : [];
  });
  expect(new Set(reasons)).toEqual(new Set(['fail-rcpt 550 5.1.1', 'down 451 4.4.7']));

  const twice = [...seen].filter(([, times]) => times.length > 1);
  console.log(`${accepted.length} answered 250, ${reasons.length} failed, ${twice.length} arrived more than once`);
  // Between two arrivals of a message the process was killed before the outcome of the first was on disk.
  const unexplained = twice.filter(([, times]) =>
    times.slice(1).some((at, index) => !killedAt.some((kill) => (times[index] ?? 0) < kill && at >= kill)),
  );
  expect(unexplained).toEqual([]);
});
