// A process of its own on a spool, for tests of what happens when one ends or works beside another.
// node spool-process.ts add FILE: adds small and large messages until killed, prints each id once it is safe.
// node spool-process.ts work FILE: adds messages and records a deferral, then for every second one the delivery, until
// killed; prints each id once it is recorded.
// node spool-process.ts hold FILE: adds one message claimed for an hour, prints its id, and stays.

import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { attemptOf, spoolEntry } from './spool-entry.ts';

const [, , mode, file] = process.argv;
if (!file || (mode !== 'add' && mode !== 'work' && mode !== 'hold')) {
  throw new Error('Usage: spool-process.ts add|work|hold FILE');
}

const spool = await SqliteSpool.open({ file });
const claimUntil = Date.now() + 3_600_000;
const small = Buffer.alloc(4096, 'small\r\n');
const large = Buffer.alloc(300_000, 'large\r\n');

async function add(body: Buffer): Promise<void> {
  const entry = spoolEntry({ body, acceptedAt: Date.now() });
  await spool.add(entry, claimUntil);
  process.stdout.write(`${entry.id} ${body.length}\n`);
}

const host = 'default (127.0.0.1:25)';
const deferred = { kind: 'deferred', reply: { code: 451, text: 'busy' }, host } as const;
const delivered = { kind: 'delivered', reply: { code: 250, text: 'ok' }, host } as const;

async function work(isDelivered: boolean): Promise<void> {
  const entry = spoolEntry({ body: small, acceptedAt: Date.now() });
  await spool.add(entry, claimUntil);
  await spool.record([attemptOf(entry, deferred)]);
  if (isDelivered) await spool.record([attemptOf(entry, delivered, { attempts: 2 })]);
  process.stdout.write(`${entry.id} ${isDelivered}\n`);
}

if (mode === 'work') {
  await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      for (;;) await work(index % 2 === 0);
    }),
  );
} else if (mode === 'hold') {
  await add(small);
  setInterval(() => undefined, 1000);
} else {
  await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      for (;;) await add(index % 4 === 0 ? large : small);
    }),
  );
}
