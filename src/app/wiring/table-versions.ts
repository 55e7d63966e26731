// The versions of all tables that this program knows, for what reads a whole database, such as a restore.

import { accountMigrations } from '../../accounts/token-store.ts';
import { toldCountMigrations } from '../../accounts/told-counts.ts';
import type { Migrations } from '../../base/database/database.ts';
import { feedbackMigrations } from '../../delivery/feedback/suppress-by-events.ts';
import { suppressionMigrations } from '../../delivery/feedback/suppression-store.ts';
import { shareMigrations } from '../../delivery/hop/leased-shares.ts';
import { stsMigrations } from '../../delivery/mx/sts-policy.ts';
import { tlsReportMigrations } from '../../delivery/tls-report/tls-report-store.ts';
import { webhookMigrations } from '../../delivery/webhooks/webhook-store.ts';
import { customErrorMigrations } from '../../edge/custom/custom-error-store.ts';
import { applicationMigrations } from '../../proxy/store/application-tables.ts';
import { figureMigrations } from '../../spool/figures/figure-store.ts';
import { journalMigrations } from '../../spool/journal/writer/journal-tables.ts';
import { filingMigrations, postgresSpoolMigrations } from '../../spool/postgres/postgres-schema.ts';
import { eventMigrations } from '../../spool/sqlite/sqlite-events.ts';
import { idempotencyMigrations, spoolMigrations } from '../../spool/sqlite/sqlite-tables.ts';
import { consoleMigrations } from '../../web/console/session-store.ts';

const shared: readonly Migrations[] = [
  accountMigrations,
  stsMigrations,
  shareMigrations,
  customErrorMigrations,
  feedbackMigrations,
  suppressionMigrations,
  applicationMigrations,
  webhookMigrations,
  tlsReportMigrations,
  consoleMigrations,
  figureMigrations,
];

/** The migrations of every owner of tables, for each engine. Whoever owns tables stands here. */
export const tableMigrations: { readonly sqlite: readonly Migrations[]; readonly postgres: readonly Migrations[] } = {
  sqlite: [...shared, spoolMigrations, eventMigrations, idempotencyMigrations, journalMigrations],
  postgres: [...shared, toldCountMigrations, postgresSpoolMigrations, filingMigrations, journalMigrations],
};

/** The version of each owner's tables in SQLite: a backup with tables of another owner is of a later release. */
export const tableVersions: ReadonlyMap<string, number> = new Map(
  tableMigrations.sqlite.map(({ owner, steps }) => [owner, steps.length]),
);
