// The lines in which recipients wait: one for each transport and account. A line's row tells when its turn may come, so that
// whoever claims looks at lines whose turn it is and at nothing else, however many rows and lines wait.

import type { Row } from '../../base/database/database.ts';
import { type DatabaseSync, prepareAll } from '../../base/database/sqlite-file.ts';
import { Part } from '../../base/part.ts';
import { stemOfTransport } from '../hold.ts';
import type { ClaimTurn } from '../spool.ts';
import { integer, text } from '../stored-rows.ts';

/** A line of the table. */
export interface Line extends ClaimTurn {
  readonly id: number;
}

function lineOf(row: Row): Line {
  return { id: integer(row, 'id'), transport: text(row, 'lane'), account: text(row, 'account') };
}

/** Accounts that are looked at for one question whose turn it is. */
const mostAccounts = 1000;

/** The SQL of the lines. Row 0 does not exist: a recipient of line 0 waits for no transport yet. */
function prepareLines(database: DatabaseSync) {
  return prepareAll(database, {
    find: 'SELECT id FROM spool_lines WHERE lane = ? AND account = ?',
    make: 'INSERT INTO spool_lines (transport, lane, account, ready_at) VALUES (?, ?, ?, ?)',
    forget: 'DELETE FROM spool_lines WHERE id = ?',
    sooner: 'UPDATE spool_lines SET ready_at = ?2 WHERE id = ?1 AND ready_at > ?2',
    set: 'UPDATE spool_lines SET ready_at = ? WHERE id = ?',
    // Steps from account to account in the index, without reading the lines of each.
    accounts: `WITH RECURSIVE account (name) AS (
        SELECT min(account) FROM spool_lines WHERE hold = 0 AND transport = ?1 AND account > ?2
        UNION ALL
        SELECT (SELECT min(account) FROM spool_lines WHERE hold = 0 AND transport = ?1 AND account > name)
        FROM account WHERE name IS NOT NULL LIMIT ?4
      )
      SELECT name, EXISTS (SELECT 1 FROM spool_lines
        WHERE hold = 0 AND transport = ?1 AND account = name AND ready_at <= ?3) AS ready
      FROM account WHERE name IS NOT NULL`,
    ready: `SELECT id, lane, account, ready_at FROM spool_lines
      WHERE hold = 0 AND transport = ? AND account = ? AND ready_at <= ? ORDER BY ready_at LIMIT ?`,
    next: 'SELECT min(lane) AS lane FROM spool_lines WHERE lane >= ?',
    // `attempts > 0` splits a line: what was never tried, and what was deferred, each in the order in which it is due.
    nextDue: `SELECT max(next_attempt_at, claimed_until) AS due FROM spool_recipients
      WHERE state = 0 AND line = ? AND (attempts > 0) = ? ORDER BY max(next_attempt_at, claimed_until) LIMIT 1`,
    park: 'UPDATE spool_lines SET hold = ? WHERE id = ?',
    nextParked: 'SELECT min(hold) AS hold FROM spool_lines WHERE hold > ?',
    unpark: 'UPDATE spool_lines SET hold = 0 WHERE id IN (SELECT id FROM spool_lines WHERE hold = ? LIMIT ?)',
    wakeAll: 'UPDATE spool_lines SET ready_at = ?1 WHERE ready_at > ?1',
  });
}

/** The lines of one database. Every method runs in the caller's transaction. */
export class Lines extends Part<{ readonly database: DatabaseSync }> {
  readonly statements = prepareLines(this.parts.database);
  /** The lines that this transaction has found or made, by transport and account. */
  readonly #known = new Map<string, number>();
  /** When recipients that this transaction has changed are due, by line. */
  readonly #due = new Map<number, number>();
  /** The account that was looked at last, by transport: the next question begins behind it. */
  readonly #lookedAt = new Map<string, string>();

  /** To be called at the beginning of a transaction: another process may have changed the lines since. */
  begin(): void {
    this.#known.clear();
    this.#due.clear();
  }

  /** An account's line for a transport, made where there is none; 0 for no transport yet. @param due of its first, in stored time */
  of({ transport, account }: ClaimTurn, due: number): number {
    if (transport === '') return 0;
    const key = `${transport} ${account}`;
    let id = this.#known.get(key);
    if (id === undefined) {
      const found = this.statements.find.get(transport, account);
      id = found
        ? integer(found, 'id')
        : Number(this.statements.make.run(stemOfTransport(transport), transport, account, due).lastInsertRowid);
      this.#known.set(key, id);
    }
    this.dueAt(id, due);
    return id;
  }

  /** Notes that a recipient of a line is due at this stored time. */
  dueAt(line: number, due: number): void {
    if (line <= 0) return;
    const known = this.#due.get(line);
    if (known === undefined || due < known) this.#due.set(line, due);
  }

  /** Writes what was noted; to be called before COMMIT. */
  write(): void {
    for (const [line, due] of this.#due) this.statements.sooner.run(line, due);
    this.#due.clear();
  }

  /** The lines whose turn it is, the longest waiting first; accounts have equal shares. @param except accounts that are left out */
  ready(transport: string, now: number, limit: number, except: readonly string[] = []): readonly Line[] {
    const accounts = this.#readyAccounts(transport, now, limit, new Set(except));
    const each = Math.max(1, Math.floor(limit / Math.max(1, accounts.length)));
    return accounts
      .flatMap((account) => this.statements.ready.all(transport, account, now, each))
      .toSorted((left, right) => integer(left, 'ready_at') - integer(right, 'ready_at'))
      .map(lineOf);
  }

  /** Accounts with a line whose turn it is, `most` at most; from one question to the next all accounts come about. */
  #readyAccounts(transport: string, now: number, most: number, except: ReadonlySet<string>): readonly string[] {
    const found: string[] = [];
    const start = this.#lookedAt.get(transport) ?? '';
    let looked = 0;
    for (const from of start === '' ? [''] : [start, '']) {
      for (const row of this.statements.accounts.iterate(transport, from, now, mostAccounts)) {
        const name = text(row, 'name');
        // All have come about.
        if (looked === mostAccounts || (from === '' && start !== '' && name > start)) return found;
        looked += 1;
        this.#lookedAt.set(transport, name);
        if (integer(row, 'ready') === 1 && !except.has(name)) found.push(name);
        if (found.length === most) return found;
      }
    }
    return found;
  }

  /** The line of a turn; undefined where nobody waits in it. */
  find({ transport, account }: ClaimTurn): Line | undefined {
    const found = this.statements.find.get(transport, account);
    return found && { id: integer(found, 'id'), transport, account };
  }

  /** Transports' names without domains, each once, in steps through the index. */
  *stems(): Generator<string> {
    let lane = this.statements.next.get('')?.['lane'];
    while (typeof lane === 'string') {
      const stem = stemOfTransport(lane);
      yield stem;
      // `0` comes right behind `/`, and so behind every name with a domain.
      lane = this.statements.next.get(`${stem}0`)?.['lane'];
    }
  }

  /** When the next recipient of a line is due, in stored time; undefined where nobody waits in it. */
  #nextDue(line: number): number | undefined {
    const fresh = this.statements.nextDue.get(line, 0);
    const deferred = this.statements.nextDue.get(line, 1);
    if (!fresh || !deferred) return fresh || deferred ? integer(fresh ?? deferred ?? {}, 'due') : undefined;
    return Math.min(integer(fresh, 'due'), integer(deferred, 'due'));
  }

  /** Ends a turn: the next comes when a recipient is due, behind all lines that wait. An empty line is removed. */
  endTurn(line: number, now: number): void {
    const due = this.#nextDue(line);
    if (due !== undefined) return void this.statements.set.run(Math.max(due, now), line);
    this.statements.forget.run(line);
    this.#known.clear();
    this.#due.delete(line);
  }

  /** Lets lines of holds that are gone have turns again, `limit` lines at most. @returns how many */
  unparkOthers(holds: ReadonlySet<number>, limit: number): number {
    let done = 0;
    let hold: unknown = this.statements.nextParked.get(0)?.['hold'];
    while (typeof hold === 'number' && done < limit) {
      if (!holds.has(hold)) done += Number(this.statements.unpark.run(hold, limit - done).changes);
      hold = this.statements.nextParked.get(hold)?.['hold'];
    }
    return done;
  }
}
