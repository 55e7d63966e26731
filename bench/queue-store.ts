// A spool of SQLite with a long queue, and what its statements cost beside it, for queue.ts and the growth of the queue.

import { openSqliteFile } from '../src/base/database/sqlite-file.ts';
import { uuidv7 } from '../src/base/ids.ts';
import { transportOf } from '../src/delivery/router.ts';
import type { Route } from '../src/delivery/settings.ts';
import { encodeEvent } from '../src/spool/encoded-event.ts';
import type { SpoolEntry } from '../src/spool/spool.ts';
import { acceptedEvent } from '../src/spool/spool-events.ts';
import { leaseMilliseconds } from '../src/spool/spool-limits.ts';
import { SpoolLock } from '../src/spool/sqlite/file/sqlite-lock.ts';
import { SqliteStore, type WriteOperation } from '../src/spool/sqlite/sqlite-store.ts';
import { drainedRoute } from './queue-drain.ts';

const head = Buffer.from(`From: alice@example.com\r\nSubject: ${'x'.repeat(200)}\r\n\r\n`);
const body = Buffer.alloc(500, 'A line of text.\r\n');

/** The route of the queue's messages, to a port of loopback. */
export function routeTo(port: number): Route {
  return {
    ...{ name: drainedRoute, type: 'smarthost', host: '127.0.0.1', port, tls: 'none', tlsVerify: false },
    ...{ connections: 10, platformSignature: true },
  };
}

const lane = transportOf({ routes: [routeTo(1)] })({ account: 'dev', address: 'a@x.test' });

/** A message of now. */
export function entryOf(account: string): SpoolEntry {
  const now = Date.now();
  const id = uuidv7(now);
  return {
    ...{ id, account, credential: 'default', sessionId: 'bench', messageId: `<${id}@platform.example>` },
    ...{ reversePath: 'b@bounces.platform.example', senderPath: 'alice@example.com', smtputf8: false },
    ...{ requireTls: false, recipients: ['a@x.test'], transports: [lane], acceptedAt: now },
    ...{ expiresAt: now + 432_000_000, head, body },
  };
}

function addOf(entry: SpoolEntry, claimUntil: number): WriteOperation {
  const { head: _, body: _body, ...meta } = entry;
  const octets = { head: new Uint8Array(head), body: new Uint8Array(body) };
  return {
    kind: 'add',
    args: [{ entry: meta, event: encodeEvent(acceptedEvent(entry)), claimUntil, size: 700, ...octets }],
  };
}

/** CPU time in microseconds for each of so many pieces of work. */
function cost(pieces: number, work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / pieces;
}

function openStore(file: string): { readonly store: SqliteStore; readonly close: () => void } {
  const database = openSqliteFile(file);
  database.exec('PRAGMA wal_autocheckpoint = 4000');
  const lock = new SpoolLock(file);
  const store = new SqliteStore({ database, lock, bodies: `${file}-bodies` });
  return {
    store,
    close: () => {
      database.close();
      lock.close();
    },
  };
}

/** Puts so many messages of one account into the queue, all due. */
export function fillQueue(file: string, count: number): void {
  const { store, close } = openStore(file);
  for (let done = 0; done < count; done += 2000) {
    const size = Math.min(2000, count - done);
    store.write(Array.from({ length: size }, () => addOf(entryOf('many'), 0)));
  }
  close();
}

/** The CPU cost of an insert, in groups of fifty, of a claimed message, in claims of 256, and of asking whose turn it is. */
export function storeCosts(
  file: string,
  rows: number,
): { readonly insert: number; readonly claim: number; readonly turns: number } {
  const { store, close } = openStore(file);
  const groups = 100;
  const insert = cost(groups * 50, () => {
    for (let group = 0; group < groups; group += 1) {
      store.write(Array.from({ length: 50 }, () => addOf(entryOf('few'), Date.now() + leaseMilliseconds)));
    }
  });
  const now = Date.now();
  const claims = Math.max(1, Math.min(16, Math.floor(rows / 256)));
  const claim = cost(claims * 256, () => {
    for (let count = 0; count < claims; count += 1) {
      const query = { transport: lane, account: 'many', limit: 256, now, claimUntil: now + leaseMilliseconds };
      store.write([{ kind: 'claimDue', args: [{ ...query }] }]);
    }
  });
  const turns = cost(1000, () => {
    for (let count = 0; count < 1000; count += 1)
      store.write([{ kind: 'turns', args: [{ transport: lane, now, limit: 256 }] }]);
  });
  close();
  return { insert, claim, turns };
}
