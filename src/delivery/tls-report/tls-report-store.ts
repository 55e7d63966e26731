// Keeps the counts of attempts until they are reported. One process at a time claims a report that is due (D91).

import { randomUUID } from 'node:crypto';
import {
  type Database,
  type Migrations,
  type Row,
  type SharedTime,
  sharedTimeOf,
} from '../../base/database/database.ts';
import { rowReader } from '../../base/database/row-reader.ts';
import { Part } from '../../base/part.ts';
import type { SessionKind } from './session-kind.ts';

/** The tables of reports about TLS. */
export const tlsReportMigrations: Migrations = {
  owner: 'tls-report',
  steps: [
    `CREATE TABLE tls_sessions (
       day TEXT NOT NULL,
       domain TEXT NOT NULL,
       policy_id TEXT NOT NULL,
       result TEXT NOT NULL,
       exchanger TEXT NOT NULL,
       address TEXT NOT NULL,
       local_address TEXT NOT NULL,
       policy TEXT NOT NULL,
       reason TEXT NOT NULL,
       sessions INTEGER NOT NULL,
       PRIMARY KEY (day, domain, policy_id, result, exchanger, address, local_address)
     ) STRICT, WITHOUT ROWID;
     CREATE TABLE tls_reports (
       day TEXT NOT NULL,
       domain TEXT NOT NULL,
       id TEXT NOT NULL,
       due_at INTEGER NOT NULL,
       give_up_at INTEGER NOT NULL,
       attempts INTEGER NOT NULL,
       told TEXT NOT NULL,
       PRIMARY KEY (day, domain)
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX tls_reports_that_are_due ON tls_reports (due_at);`,
  ],
};

/** A report that is to be made. */
export interface DueTlsReport {
  readonly day: string;
  readonly domain: string;
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly dueAt: number;
  /** When no further attempt is made, in milliseconds since 1970. */
  readonly giveUpAt: number;
  readonly attempts: number;
  /** The destinations that have it. */
  readonly told: readonly string[];
}

/** Failures of one kind. */
export type FailureCount = Omit<SessionKind, 'day' | 'domain' | 'policy'> & { readonly sessions: number };

/** When reports of a day are due. */
export type DueTimes = Pick<DueTlsReport, 'dueAt' | 'giveUpAt'>;

/** A worker that was killed lost its claim after so many milliseconds; no attempt takes longer. */
const claimMs = 600_000;
/** A report that is due later than this, in milliseconds from now, was planned before the clock was set back. */
const latestMs = 3 * 86_400_000;
const mostRows = 500_000;
/** What one report tells of. */
const mostPolicies = 50;
const mostFailures = 1000;

const sql = {
  rows: `SELECT count(*) AS rows FROM (SELECT 1 AS one FROM tls_sessions LIMIT ${mostRows}) AS counted`,
  add: `INSERT INTO tls_sessions
      (day, domain, policy_id, result, exchanger, address, local_address, policy, reason, sessions)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (day, domain, policy_id, result, exchanger, address, local_address)
    DO UPDATE SET sessions = tls_sessions.sessions + $10`,
  plan: `INSERT INTO tls_reports (day, domain, id, due_at, give_up_at, attempts, told)
    VALUES ($1, $2, $3, $4, $5, 0, '[]') ON CONFLICT (day, domain) DO NOTHING`,
  putOff: 'UPDATE tls_reports SET due_at = $3, told = $4 WHERE day = $1 AND domain = $2',
  totals: `SELECT policy_id, policy,
      SUM(CASE WHEN result = '' THEN sessions ELSE 0 END) AS succeeded,
      SUM(CASE WHEN result = '' THEN 0 ELSE sessions END) AS failed
    FROM tls_sessions WHERE day = $1 AND domain = $2
    GROUP BY policy_id, policy ORDER BY policy_id LIMIT ${mostPolicies}`,
  failures: `SELECT * FROM tls_sessions WHERE day = $1 AND domain = $2 AND result <> ''
    ORDER BY sessions DESC, policy_id, result, exchanger, address, local_address LIMIT ${mostFailures}`,
  removeSessions: 'DELETE FROM tls_sessions WHERE day = $1 AND domain = $2',
  removeReport: 'DELETE FROM tls_reports WHERE day = $1 AND domain = $2',
} as const;

const claimStatements = ({ sql: now }: SharedTime) =>
  ({
    due: `SELECT * FROM tls_reports WHERE due_at <= ${now(2)} OR due_at > ${now(2)} + ${latestMs} ORDER BY due_at LIMIT $1`,
    claim: `UPDATE tls_reports SET due_at = ${now(4)} + ${claimMs}, attempts = attempts + 1
      WHERE day = $1 AND domain = $2 AND due_at = $3`,
  }) as const;

function namesOf(column: unknown): readonly string[] {
  const told: unknown = JSON.parse(String(column));
  return Array.isArray(told) ? told.map(String) : [];
}

const dueOf: (row: Row) => DueTlsReport = rowReader({
  ...{ day: String, domain: String, id: String, dueAt: Number, giveUpAt: Number, attempts: Number },
  told: namesOf,
});

const totalsOf = rowReader({ policyId: String, policy: String, succeeded: Number, failed: Number });
const place = { policyId: String, result: String, exchanger: String, address: String, localAddress: String };
const failureOf: (row: Row) => FailureCount = rowReader({ ...place, reason: String, sessions: Number });

/** The counts and the reports. Every method rejects with Unavailable while the database cannot be used. */
export class TlsReportStore extends Part<{ readonly database: Database }> {
  readonly #time = sharedTimeOf(this.parts.database);
  readonly #claims = claimStatements(this.#time);

  async isFull(): Promise<boolean> {
    const [row] = await this.parts.database.query(sql.rows);
    return Number(row?.['rows'] ?? 0) >= mostRows;
  }

  /** Adds counts, all of them or none, and plans the reports about them. @param times when the reports of a day are due */
  async add(
    counts: readonly { readonly kind: SessionKind; readonly sessions: number }[],
    times: (day: string) => DueTimes,
  ): Promise<void> {
    await this.parts.database.transaction(async (transaction) => {
      const planned = new Set<string>();
      for (const { kind, sessions } of counts) {
        const { day, domain, policyId, result, exchanger, address, localAddress, policy, reason } = kind;
        const key = [day, domain, policyId, result, exchanger, address, localAddress];
        await transaction.run(sql.add, [...key, policy, reason, sessions]);
        if (planned.has(`${day} ${domain}`)) continue;
        planned.add(`${day} ${domain}`);
        const { dueAt, giveUpAt } = times(day);
        await transaction.run(sql.plan, [day, domain, randomUUID(), dueAt, giveUpAt]);
      }
    });
  }

  /** Reports whose time has come. @param now the time where the database has none of its own */
  async due(now: number, limit: number): Promise<readonly DueTlsReport[]> {
    return (await this.parts.database.query(this.#claims.due, this.#time.values(now, limit))).map(dueOf);
  }

  /** Claims a report. @param now as for `due` @returns whether it is this process's to send now */
  async claim({ day, domain, dueAt }: DueTlsReport, now: number): Promise<boolean> {
    return (await this.parts.database.run(this.#claims.claim, this.#time.values(now, day, domain, dueAt))) === 1;
  }

  /** Keeps a report for another attempt. @param told the destinations that have it */
  async putOff({ day, domain }: DueTlsReport, dueAt: number, told: readonly string[]): Promise<void> {
    await this.parts.database.run(sql.putOff, [day, domain, dueAt, JSON.stringify(told)]);
  }

  /** What there is to report; of what is too much, the most frequent failures. */
  async contents({ day, domain }: DueTlsReport) {
    const totals = await this.parts.database.query(sql.totals, [day, domain]);
    const failures = await this.parts.database.query(sql.failures, [day, domain]);
    return {
      totals: totals.map(totalsOf),
      failures: failures.map(failureOf),
    };
  }

  async remove({ day, domain }: DueTlsReport): Promise<void> {
    await this.parts.database.transaction(async (transaction) => {
      await transaction.run(sql.removeSessions, [day, domain]);
      await transaction.run(sql.removeReport, [day, domain]);
    });
  }
}

/** Opens the store and brings its tables up to date. */
export async function openTlsReportStore(database: Database): Promise<TlsReportStore> {
  await database.migrate(tlsReportMigrations);
  return new TlsReportStore({ database });
}
