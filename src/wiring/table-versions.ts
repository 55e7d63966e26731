// The versions of all tables that this program knows, for what reads a whole database, such as a restore.

import { accountMigrations } from '../accounts/account-tables.ts';
import { consoleMigrations } from '../console/session-tables.ts';
import { shareMigrations } from '../deliver/hop/share-store.ts';
import { stsMigrations } from '../deliver/mx/sts-store.ts';
import { customErrorMigrations } from '../edge/custom/custom-error-store.ts';
import { feedbackMigrations } from '../feedback/suppress-by-events.ts';
import { suppressionMigrations } from '../feedback/suppression-store.ts';
import { applicationMigrations } from '../proxy/store/application-tables.ts';
import { journalMigrations } from '../spool/journal/journal-tables.ts';
import { eventMigrations } from '../spool/sqlite/sqlite-events.ts';
import { idempotencyMigrations } from '../spool/sqlite/sqlite-keys.ts';
import { spoolMigrations } from '../spool/sqlite/sqlite-schema.ts';
import { tlsReportMigrations } from '../tls-report/tls-report-store.ts';
import { webhookMigrations } from '../webhooks/webhook-tables.ts';

/** The version of each owner's tables. Every owner stands here: a backup with tables of another is of a later release. */
export const tableVersions: ReadonlyMap<string, number> = new Map(
  [
    accountMigrations,
    stsMigrations,
    shareMigrations,
    customErrorMigrations,
    feedbackMigrations,
    suppressionMigrations,
    applicationMigrations,
    eventMigrations,
    idempotencyMigrations,
    spoolMigrations,
    journalMigrations,
    webhookMigrations,
    tlsReportMigrations,
    consoleMigrations,
  ].map(({ owner, steps }) => [owner, steps.length]),
);
