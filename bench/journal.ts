// npm run bench:journal: a journal of a million rows, in SQLite or PostgreSQL: lists, searches, filters that match nothing, and removing rows
// beside accepts. Prints one JSON line a measurement.

import { parseArgs } from 'node:util';
import { uuidv7 } from '../src/base/ids.ts';
import type { JournalQuery } from '../src/spool/journal/journal.ts';
import { spoolEntry } from '../test/support/spool-entry.ts';
import { type BenchRow, postgresStore, sqliteStore } from './journal-stores.ts';

const usage = `Usage: npm run bench:journal -- [options]
  --rows N       rows (default 1000000)
  --asks N       how often each list is asked for (default 100)
  --database D   sqlite (default) or postgres, a server of its own that syncs to the disk
  --whole        PostgreSQL without partitions`;

const { values } = parseArgs({
  options: {
    ...{ rows: { type: 'string' }, asks: { type: 'string' }, help: { type: 'boolean' } },
    ...{ database: { type: 'string', default: 'sqlite' }, whole: { type: 'boolean', default: false } },
  },
});
if (values.help) {
  process.stdout.write(`${usage}\n`);
  process.exit(0);
}
const rows = Number(values.rows ?? 1_000_000);
const asks = Number(values.asks ?? 100);
const isPostgres = values.database === 'postgres';
const store = isPostgres ? await postgresStore(values.whole) : sqliteStore();
const day = 86_400_000;
const end = Date.now();
const words = ['invoice', 'order', 'report', 'reset', 'welcome', 'cron', 'backup', 'weekly', 'alert', 'build'];

function tell(what: string, figures: object): void {
  process.stdout.write(`${JSON.stringify({ what, ...figures })}\n`);
}

/** The rows as the spool writes them: one in ten refused, three accounts, 200 addresses of clients. */
function* made(): Generator<BenchRow> {
  for (let at = 0; at < rows; at += 1) {
    const time = end - 20 * day + Math.floor((at / rows) * 20 * day);
    const isRefused = at % 10 === 0;
    const facts = {
      ...{ credential: `app${at % 7}`, via: 'smtp', client: `192.0.2.${at % 200}`, helo: 'client.example' },
      ...{ sender: `app${at % 50}@example.com`, recipients: [`user${at % 100_000}@partner.example`], count: 1 },
      subject: `${words[at % words.length]} ${words[(at * 7) % words.length]} ${at}`,
      ...(isRefused ? { codes: ['E_HEADER_NOT_ALLOWED'], fields: ['User-Agent'] } : {}),
    };
    const row = {
      ...{ id: uuidv7(time), at: time, account: ['dev', 'shop', 'mail'][at % 3] ?? '' },
      ...{ outcome: isRefused ? 6 : 2, waiting: 0, octets: 0, facts: JSON.stringify(facts), more: '{}' },
    };
    yield { row, facts };
  }
}

function quantiles(times: readonly number[]): object {
  const sorted = times.toSorted((one, other) => one - other);
  const at = (share: number): number =>
    Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0) * 10) / 10;
  return { p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) };
}

const queries: Readonly<Record<string, Partial<JournalQuery>>> = {
  'newest of all': {},
  'newest of an account': { account: 'dev' },
  'refused of an account': { account: 'shop', outcome: 'refused' },
  'by client': { account: 'dev', client: '192.0.2.17' },
  'by code and header': { account: 'dev', code: 'E_HEADER_NOT_ALLOWED', field: 'user-agent' },
  'by time, ten days back': { account: 'dev', until: end - 10 * day },
  'nothing: unknown client': { account: 'dev', client: '203.0.113.9' },
  'nothing: no such account': { account: 'nobody' },
  'nothing: failed': { account: 'dev', outcome: 'failed' },
  'nothing: two filters that never meet': { account: 'dev', credential: 'app1', client: '192.0.2.8', code: 'E_X' },
  'nothing: accepted, never delivered': { account: 'dev', outcome: 'accepted' },
  'search: one word of all rows': { account: 'dev', text: 'partner' },
  'search: two words': { account: 'dev', text: 'invoice weekly' },
  'search: one row': { text: `${rows - 777}` },
  'search: the beginning of many words': { text: 'use' },
  'search: nothing': { account: 'dev', text: 'nothinglikeit' },
};

const began = performance.now();
await store.fill(made(), { since: end - 20 * day, until: end });
tell('filled', { rows, seconds: Math.round((performance.now() - began) / 1000) });
const limits = { keepDays: 30, maxOctets: 1e12, refusals: 1e9, copies: 1e9 };
const journal = await store.openJournal(limits);
const indexing = performance.now();
while (await journal.tend(end));
tell('indexed', { us_a_row: Math.round(((performance.now() - indexing) * 1000) / rows) });
for (const [what, query] of Object.entries(queries)) {
  const times: number[] = [];
  let found = 0;
  let cursor: number | undefined;
  for (let ask = 0; ask < asks; ask += 1) {
    const start = performance.now();
    const page = await journal.list({ limit: 50, ...query, cursor });
    times.push(performance.now() - start);
    found += page.items.length;
    cursor = page.next;
  }
  tell(what, { ...quantiles(times), rows_a_page: Math.round(found / asks) });
}
await journal.close();

/** How long accepts take, one after another, until a promise is settled. */
async function acceptsBeside(work: Promise<void>): Promise<readonly number[]> {
  const spool = await store.openSpool();
  const state = { isDone: false };
  void work.finally(() => {
    state.isDone = true;
  });
  const times: number[] = [];
  for (let count = 0; !state.isDone || count < 200; count += 1) {
    const details = { content: 'none', maxBodyOctets: 0, fields: [], verdicts: '', timings: {} } as const;
    const start = performance.now();
    await spool.add(spoolEntry({ acceptedAt: end, journal: details }), end + 60_000);
    times.push(performance.now() - start);
    if (count >= 5000) break;
  }
  await spool.close();
  return times;
}

tell('accepts alone', quantiles(await acceptsBeside(Promise.resolve())));
const aged = await store.openJournal({ ...limits, keepDays: 15 });
const removing = performance.now();
const work = (async (): Promise<void> => {
  // As the gateway does (open-journal.ts).
  for (let start = performance.now(); await aged.tend(end); start = performance.now()) {
    const took = performance.now() - start;
    await new Promise((resolve) => setTimeout(resolve, Math.min(500, Math.max(25, took))));
  }
})();
const beside = await acceptsBeside(work);
await work;
tell('accepts beside removal', {
  ...quantiles(beside),
  accepts: beside.length,
  removal_s: Math.round((performance.now() - removing) / 1000),
});
await aged.close();
await store.remove();
