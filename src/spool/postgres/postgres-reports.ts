// The reports to senders in PostgreSQL (reports/report-steps.ts).

import type { GroupMessage } from '../core/message-group.ts';
import { dueReports, endReport, noteReports, postponeReport, type ReportTables } from '../core/report-steps.ts';
import type { DueReport, NotedMail, ReportKey, ReportLimits } from '../reports/report.ts';
import { ServerPart, type ServerParts } from './server/database-clock.ts';
import { type Send, stepsOver } from './server/postgres-session.ts';

const head = `m.head_length,
  (SELECT substring(o.octets FOR 131072) FROM spool_octets o WHERE o.message = m.id AND o.part = 0) AS octets`;

const locks = {
  // Whoever is ending the report is waited for: what comes after that begins another.
  report: ' FOR UPDATE',
  // How many are begun is read and counted by one transaction at a time for each account.
  counts: "SELECT pg_advisory_xact_lock(hashtext('postern reports ' || current_schema()), hashtext(?1))",
};

/** The reports of one database. */
export class PostgresReports extends ServerPart<ServerParts & { readonly limits: ReportLimits }> {
  readonly #tables: ReportTables<GroupMessage> = {
    ...{ times: this.parts.clock, limits: this.parts.limits, head, locks },
    keyOf: ({ id }) => id,
  };

  /** Notes outcomes, in the transaction that writes them and before their messages are forgotten; see `noteReports`. */
  note(send: Send, mails: readonly NotedMail<GroupMessage>[], now: number): Promise<number> {
    // In one order, so that no two transactions wait for each other's accounts.
    const sorted = mails.toSorted((one, other) => (one.message.account < other.message.account ? -1 : 1));
    return stepsOver(send, noteReports(this.#tables, sorted, now));
  }

  /** Reads reports that are due. */
  due(query: { readonly now: number; readonly limit: number }): Promise<readonly DueReport[]> {
    return this.parts.session.steps(dueReports(this.parts.clock, query));
  }

  /** Deletes a report, or puts it off; see `Spool.endReport`. */
  async end(report: ReportKey, until?: number): Promise<boolean> {
    return await this.parts.session.transaction(async (send) => {
      if (until === undefined) return await stepsOver(send, endReport(report));
      await stepsOver(send, postponeReport(report, this.parts.clock.stored(until)));
      return true;
    });
  }
}
