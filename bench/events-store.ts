// Events of very many messages in a spool of SQLite, and searches among them, for events.ts and the growth of the events.

import { uuidv7 } from '../src/base/ids.ts';
import type { EventSearch } from '../src/spool/events/event-store.ts';
import type { SpoolEntry } from '../src/spool/spool.ts';
import { outcomeEvent } from '../src/spool/spool-events.ts';
import type { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { median } from './process-usage.ts';

const host = 'default (mx.example:25)';
const batch = 250;

function entryOf(number: number): SpoolEntry {
  const now = Date.now();
  const id = uuidv7(now);
  return {
    ...{ id, account: 'dev', credential: 'default', sessionId: id.slice(-12), messageId: `<${id}@platform.example>` },
    ...{ clientMessageId: `<${number}@client.example>`, reversePath: 'b+token@bounces.platform.example' },
    ...{
      senderPath: `sender-${number % 50}@example.com`,
      recipients: [`user-${(number * 7919) % 300_000}@example.net`],
    },
    ...{ smtputf8: false, requireTls: false, acceptedAt: now, expiresAt: now + 432_000_000 },
    ...{ head: Buffer.from('Subject: bench\r\n\r\n'), body: Buffer.from('Hello.\r\n') },
  };
}

/** Adds messages, each with its delivery. @returns microseconds for each event */
export async function fillEvents(spool: SqliteSpool, from: number, events: number): Promise<number> {
  const began = performance.now();
  for (let number = from; number < from + events / 2; number += batch) {
    const entries = Array.from({ length: batch }, (_, at) => entryOf(number + at));
    await Promise.all(entries.map((entry) => spool.add(entry, 0)));
    const outcomes = entries.map((entry, at) => {
      const kind = (number + at) % 1000 === 0 ? 'failed' : 'delivered';
      const outcome = { kind, reply: { code: kind === 'failed' ? 550 : 250, text: 'ok' }, host } as const;
      const recipient = entry.recipients[0] ?? '';
      return outcomeEvent(entry, { recipient, outcome, at: Date.now(), route: 'default', attempts: 1, size: 26 });
    });
    await spool.record(outcomes);
  }
  return ((performance.now() - began) * 1000) / events;
}

async function middle(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < 21; round += 1) {
    const began = performance.now();
    await work();
    times.push(performance.now() - began);
  }
  return median(times);
}

/** Milliseconds of searches for 100 events of the account. @param began when the first event was written */
export async function searches(spool: SqliteSpool, began: number): Promise<Record<string, number>> {
  const half = began + (Date.now() - began) / 2;
  const queries: Record<string, Partial<EventSearch>> = {
    newest: {},
    'failed, newest': { kinds: ['failed'] },
    recipient: { recipient: `user-${(77 * 7919) % 300_000}@example.net` },
    'client Message-ID': { clientMessageId: '77@client.example' },
    sender: { sender: 'sender-7@example.com' },
    'from the middle in time': { since: half, order: 'oldest' },
    'of nobody': { recipient: 'nobody@example.net' },
  };
  const found: Record<string, number> = {};
  for (const [name, query] of Object.entries(queries)) {
    const time = await middle(() => spool.events.search({ account: 'dev', order: 'newest', limit: 100, ...query }));
    found[name] = Math.round(time * 100) / 100;
  }
  return found;
}
