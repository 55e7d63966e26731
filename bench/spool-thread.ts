// What a message costs the spool's thread in SQLite, counted from its acceptance to its delivery: microseconds of that thread's CPU,
// without the journal and with events. It loads the spool of any checkout, so that two commits can be measured in turn; what counts is
// the least of some rounds, which hardly depends on what else the machine does.
// `node bench/spool-thread.ts --messages 20000 --group 10,50 --rounds 3 --against COMMIT`

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { uuidv7 } from '../src/base/ids.ts';
import type { Spool, SpoolEntry } from '../src/spool/spool.ts';
import { attemptOf, spoolEntry } from '../test/support/spool-entry.ts';
import { checkOut } from './checkout.ts';

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '20000' },
    group: { type: 'string', default: '10,50' },
    rounds: { type: 'string', default: '3' },
    /** A commit that is measured in turn with this checkout. */
    against: { type: 'string' },
    /** Measures the spool of this folder and ends; set by the script itself. */
    root: { type: 'string' },
  },
});
const messages = Number(values.messages);

const head = Buffer.alloc(600, 'X-Filler: some value of a field that is there\r\n');
const body = Buffer.alloc(3500, 'A line of text that has some length and then ends.\r\n');
const reply = { code: 250, enhanced: '2.0.0', text: 'Ok: queued as 4F1T2x3Yz5' };

function message(number: number): SpoolEntry {
  const now = Date.now();
  const id = uuidv7(now);
  return spoolEntry({
    ...{ id, acceptedAt: now, expiresAt: now + 432_000_000, transports: ['out#1'], head, body },
    recipients: [`user${number % 5000}@example${number % 50}.org`],
    clientMessageId: `<${number}.${id}@box.example>`,
    origin: { via: 'smtp', clientAddress: '192.0.2.1', helo: 'box.example' },
    received: { size: 4100, stripped: [] },
  });
}

const threads = '/proc/self/task';

/** Microseconds of CPU that threads of this process have had. */
function cpuOf(ids: readonly string[]): number {
  return ids.reduce(
    (sum, id) => sum + Number(readFileSync(join(threads, id, 'schedstat'), 'utf8').split(' ')[0]) / 1000,
    0,
  );
}

/** Accepts and delivers messages, a fifth of them before the clock runs. @returns microseconds of the spool's thread a message */
async function measure(root: string, group: number): Promise<number> {
  const module: { readonly SqliteSpool: { open(options: object): Promise<Spool> } } = await import(
    join(root, 'src/spool/sqlite/sqlite-spool.ts')
  );
  const folder = mkdtempSync(join(tmpdir(), 'postern-thread-'));
  const before = new Set(readdirSync(threads));
  const spool = await module.SqliteSpool.open({ file: join(folder, 'spool.db'), hasJournal: false });
  const own = readdirSync(threads).filter((id) => !before.has(id));
  await spool.recover();
  const warm = Math.floor(messages / 5);
  let last: readonly SpoolEntry[] = [];
  let start = 0;
  for (let done = 0; done < messages + warm; done += group) {
    if (done >= warm && start === 0) start = cpuOf(own);
    const now = Date.now();
    const added = Array.from({ length: group }, (_, at) => message(done + at));
    const ended = last.map((entry) =>
      spool.record([attemptOf(entry, { kind: 'delivered', reply, host: 'out (mx.example.org:25)' })]),
    );
    await Promise.all([...added.map((entry) => spool.add(entry, now + 3_600_000)), ...ended]);
    last = added;
  }
  // What was committed is filed before the clock stops.
  await sleep(1000);
  const spent = cpuOf(own) - start;
  await spool.close();
  rmSync(folder, { recursive: true });
  return spent / messages;
}

async function main(): Promise<void> {
  const other = values.against === undefined ? undefined : checkOut(values.against);
  const roots = [['this', resolve(import.meta.dirname, '..')], ...(other ? [[values.against, other]] : [])] as const;
  try {
    for (const group of values.group.split(',')) {
      const least = new Map<string, number>();
      for (let round = 0; round < Number(values.rounds); round += 1) {
        for (const [name = '', root = ''] of roots) {
          const args = [import.meta.filename, '--root', root, '--group', group, '--messages', values.messages];
          const spent = Number(execFileSync(process.execPath, args, { encoding: 'utf8' }));
          least.set(name, Math.min(spent, least.get(name) ?? Infinity));
        }
      }
      const text = [...least].map(([name, spent]) => `${name} ${spent.toFixed(1)}`).join(', ');
      console.log(`groups of ${group}: ${text} us of the spool's thread a message`);
    }
  } finally {
    if (other !== undefined) rmSync(other, { recursive: true });
  }
}

if (values.root === undefined) await main();
else console.log(await measure(values.root, Number(values.group)));
