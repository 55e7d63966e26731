// How the cost grows with what is stored, in SQLite: the queue, events, suppressions and tokens.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashToken, openTokenStore } from '../../src/accounts/token-store.ts';
import { systemClock } from '../../src/base/clock.ts';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import { openSuppressionStore } from '../../src/delivery/feedback/suppression-store.ts';
import { defaultEventLimits } from '../../src/spool/events/event-store.ts';
import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { fillEvents, searches } from '../events-store.ts';
import { median } from '../process-usage.ts';
import { drainedRoute } from '../queue-drain.ts';
import { fillQueue, storeCosts } from '../queue-store.ts';
import { startSink } from '../smtp-sink.ts';
import type { GrowthCase, Point } from './case.ts';
import { costOf, timedStart } from './gateway.ts';

/** The id of the account `dev` of every configuration here. */
const account = 'a1'.repeat(16);

/** Milliseconds of a question: the middle of so many askings. */
async function asked(work: (at: number) => Promise<unknown>, times = 21): Promise<number> {
  const taken: number[] = [];
  for (let at = 0; at < times; at += 1) {
    const began = performance.now();
    await work(at);
    taken.push(performance.now() - began);
  }
  return median(taken);
}

/** A folder for one case whose `data/postern.db` is to be filled. */
function scratch(): { readonly folder: string; readonly file: string; readonly remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'postern-growth-'));
  mkdirSync(join(folder, 'data'));
  return {
    folder,
    file: join(folder, 'data/postern.db'),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function queueQuestions(file: string): Promise<Point['figures']> {
  const spool = await SqliteSpool.open({ file });
  try {
    const { items } = await spool.list({ limit: 100 });
    const id = items.at(-1)?.entry.id ?? '';
    return {
      'a page of the list, ms': await asked(() => spool.list({ limit: 100 })),
      'a page of a search that finds nothing, ms': await asked(() => spool.list({ limit: 100, search: 'nobody' }), 5),
      'one message, ms': await asked(() => spool.show(id)),
      'the numbers, ms': await asked(() => spool.tallies()),
    };
  } finally {
    await spool.close();
  }
}

async function* measureQueue(sizes: readonly number[]): AsyncGenerator<Point> {
  for (const size of sizes) {
    const { folder, file, remove } = scratch();
    try {
      fillQueue(file, size);
      const { insert, claim, turns } = storeCosts(file, size);
      const questions = await queueQuestions(file);
      const route = { name: drainedRoute, type: 'smarthost', url: 'smtp://127.0.0.1:9', tls: 'none', connections: 10 };
      const { postern, readyMs, mebibytes } = await timedStart({ folder, routes: [route] });
      await postern.stop();
      const costs = { 'insert, CPU us': insert, 'claim, CPU us': claim, 'turns, CPU us': turns };
      yield { size, figures: { ...costs, ...questions, 'ms until ready': readyMs, 'memory, MiB': mebibytes } };
    } finally {
      remove();
    }
  }
}

const queue: GrowthCase = {
  name: 'queue',
  title: 'Messages in the queue',
  unit: 'messages',
  sizes: [1000, 10_000, 100_000, 1_000_000],
  small: [1000, 10_000],
  note: 'Messages of one account that are all due. An insert is one of fifty in a commit, a claim one message of 256; CPU of the thread that does it. The gateway starts with its next hop down, and memory is that of two seconds later.',
  plot: {
    y: 'CPU us, and ms',
    columns: ['insert, CPU us', 'claim, CPU us', 'a page of the list, ms', 'ms until ready'],
  },
  measure: measureQueue,
};

async function* measureEvents(sizes: readonly number[]): AsyncGenerator<Point> {
  const { file, remove } = scratch();
  const began = Date.now();
  const most = Math.max(...sizes);
  const spool = await SqliteSpool.open({ file, eventLimits: { ...defaultEventLimits, mail: most * 2 } });
  try {
    let written = 0;
    for (const size of sizes) {
      const us = await fillEvents(spool, written / 2, size - written);
      written = size;
      const found = await searches(spool, began);
      const named = Object.entries(found).map(([name, ms]) => [`${name}, ms`, ms] as const);
      yield { size, figures: { 'write, us': us, ...Object.fromEntries(named) } };
    }
  } finally {
    await spool.close();
    remove();
  }
}

const events: GrowthCase = {
  name: 'events',
  title: 'Events',
  unit: 'events',
  sizes: [1000, 10_000, 100_000, 1_000_000],
  small: [1000, 10_000],
  note: 'Half of them acceptances, half outcomes, one failure in a thousand messages. A write is by the clock, message and outcome with it, from the size before on; a search is for 100 events.',
  plot: {
    y: 'us of a write, and ms of a search',
    columns: ['write, us', 'newest, ms', 'recipient, ms', 'failed, newest, ms'],
  },
  measure: measureEvents,
};

function addressOf(at: number): string {
  return `user-${at}@domain-${at % 1000}.example`;
}

async function fillSuppressions(file: string, size: number): Promise<Point['figures']> {
  const database = await openDatabase(file);
  try {
    const store = await openSuppressionStore(database, systemClock);
    const began = performance.now();
    for (let done = 0; done < size; done += 500) {
      const count = Math.min(500, size - done);
      const entries = Array.from({ length: count }, (_, at) => ({
        ...{ account, address: addressOf(done + at), reason: 'hard_bounce' as const },
      }));
      await store.addNew(entries);
    }
    const write = size === 0 ? {} : { 'write, us': ((performance.now() - began) / size) * 1000 };
    return {
      ...write,
      'whether it is there, ms': await asked((at) => store.find(account, addressOf(at * 7919)), 201),
      'a page, ms': await asked(() => store.list(account, { limit: 50 })),
      'a search that finds nothing, ms': await asked(() => store.list(account, { limit: 50, search: 'nobody' }), 3),
    };
  } finally {
    await database.close();
  }
}

async function* measureSuppressions(sizes: readonly number[]): AsyncGenerator<Point> {
  for (const size of sizes) {
    const { folder, file, remove } = scratch();
    const sink = startSink();
    try {
      const questions = await fillSuppressions(file, size);
      const { postern, readyMs, mebibytes } = await timedStart({ folder });
      try {
        await costOf(postern, { messages: 1500, size: 4096 });
        const { cpu } = await costOf(postern, { messages: 1000, size: 4096 });
        const figures = { ...questions, 'ms until ready': readyMs, 'memory, MiB': mebibytes, 'CPU us a message': cpu };
        yield { size, figures };
      } finally {
        await postern.stop();
      }
    } finally {
      sink.stop();
      remove();
    }
  }
}

const suppressions: GrowthCase = {
  name: 'suppressions',
  title: 'Suppressions of an account',
  unit: 'addresses',
  sizes: [0, 1000, 10_000, 100_000, 1_000_000],
  small: [0, 1000],
  note: 'Addresses that the account must not write to, written 500 in a statement; then a start on them, and 1,000 messages after 1,500 that warm it up, whose recipient is not on the list.',
  plot: { y: 'us, and ms', columns: ['write, us', 'whether it is there, ms', 'ms until ready', 'CPU us a message'] },
  measure: measureSuppressions,
};

async function fillTokens(file: string, size: number): Promise<Point['figures']> {
  const database = await openDatabase(file);
  try {
    const store = await openTokenStore(database);
    const wanted = { account, credential: 'devices', createdAt: Date.now() };
    let last = '';
    for (let done = 0; done < size; done += 1000) {
      await store.transaction(async (tokens) => {
        for (let at = 0; at < Math.min(1000, size - done); at += 1) last = (await tokens.create(wanted)).token;
      });
    }
    const hash = hashToken(last);
    return {
      'login, ms': await asked(() => store.findLive(hash, Date.now()), 201),
      'make one, ms': await asked(() => store.create(wanted)),
      'list all, ms': await asked(() => store.list(account), 3),
    };
  } finally {
    await database.close();
  }
}

async function* measureTokens(sizes: readonly number[]): AsyncGenerator<Point> {
  for (const size of sizes) {
    const { folder, file, remove } = scratch();
    try {
      const questions = await fillTokens(file, size);
      const { postern, readyMs, mebibytes } = await timedStart({ folder });
      await postern.stop();
      yield { size, figures: { ...questions, 'ms until ready': readyMs, 'memory, MiB': mebibytes } };
    } finally {
      remove();
    }
  }
}

const tokens: GrowthCase = {
  name: 'tokens',
  title: 'Tokens of an account',
  unit: 'tokens',
  sizes: [10, 100, 1000, 10_000, 100_000],
  small: [10, 1000],
  note: 'A login reads its token from the database each time; a token that is made is a commit.',
  plot: { y: 'ms', columns: ['login, ms', 'make one, ms', 'list all, ms', 'ms until ready'] },
  measure: measureTokens,
};

/** The cases of what is stored. */
export const storedCases: readonly GrowthCase[] = [queue, events, suppressions, tokens];
