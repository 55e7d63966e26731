// The tables of webhooks, and how a row becomes a webhook.

import type { Migrations, Row } from '../base/database/database.ts';
import { type EventKind, isEventKind } from '../events/mail-event.ts';
import type { Webhook } from './webhook.ts';

/** The tables. Times are milliseconds since 1970. */
export const webhookMigrations: Migrations = {
  owner: 'webhooks',
  steps: [
    `-- A webhook of the file has no secret here. lease_holder: the process that sends now, until lease_until.
     -- failing_ms: for how long every request has failed, up to last_failure_at.
     CREATE TABLE webhooks (
       id TEXT NOT NULL PRIMARY KEY,
       account TEXT NOT NULL,
       source TEXT NOT NULL,
       url TEXT NOT NULL,
       kinds TEXT,
       note TEXT NOT NULL,
       secret TEXT,
       previous_secret TEXT,
       previous_until INTEGER,
       created_at INTEGER NOT NULL,
       enabled INTEGER NOT NULL,
       disabled_reason TEXT,
       failures INTEGER NOT NULL DEFAULT 0,
       failing_ms INTEGER NOT NULL DEFAULT 0,
       last_failure_at INTEGER,
       cursor INTEGER NOT NULL,
       replay_after INTEGER,
       replay_until INTEGER,
       lease_holder TEXT,
       lease_until INTEGER NOT NULL DEFAULT 0
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX webhooks_of_account ON webhooks (account, id);

     -- Events that the cursor has passed and that are not through. ready_at: NULL while an earlier event of the same message is here.
     CREATE TABLE webhook_pending (
       webhook TEXT NOT NULL,
       event INTEGER NOT NULL,
       message TEXT NOT NULL,
       attempts INTEGER NOT NULL,
       ready_at INTEGER,
       PRIMARY KEY (webhook, event)
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX webhook_pending_ready ON webhook_pending (webhook, ready_at) WHERE ready_at IS NOT NULL;
     CREATE INDEX webhook_pending_of_message ON webhook_pending (webhook, message, event);

     CREATE TABLE webhook_deliveries (
       id INTEGER PRIMARY KEY AUTOINCREMENT,
       webhook TEXT NOT NULL,
       event INTEGER NOT NULL,
       kind TEXT NOT NULL,
       attempt INTEGER NOT NULL,
       at INTEGER NOT NULL,
       duration_ms INTEGER NOT NULL,
       result TEXT NOT NULL,
       status INTEGER,
       error TEXT
     ) STRICT;
     CREATE INDEX webhook_deliveries_of_webhook ON webhook_deliveries (webhook, id);`,
  ],
  told: [{ table: 'webhooks', columns: ['url', 'kinds', 'secret', 'enabled', 'replay_until'] }],
};

/** A column that may be NULL, as a number. */
export function numberOf(row: Row, column: string): number | undefined {
  const value = row[column];
  return typeof value === 'number' ? value : undefined;
}

/** A column that may be NULL, as text. */
export function textOf(row: Row, column: string): string | undefined {
  const value = row[column];
  return typeof value === 'string' ? value : undefined;
}

function kindsOf(text: string | undefined): readonly EventKind[] | undefined {
  // Kinds that a newer program knows are passed over.
  return text === undefined ? undefined : text.split(',').filter(isEventKind);
}

/** Makes a webhook of its row. */
export function webhookOf(row: Row): Webhook {
  const after = numberOf(row, 'replay_after');
  return {
    id: String(row['id']),
    account: String(row['account']),
    source: row['source'] === 'file' ? 'file' : 'api',
    url: String(row['url']),
    kinds: kindsOf(textOf(row, 'kinds')),
    note: String(row['note']),
    createdAt: Number(row['created_at']),
    isEnabled: row['enabled'] === 1,
    disabledReason: textOf(row, 'disabled_reason'),
    failures: Number(row['failures']),
    cursor: Number(row['cursor']),
    replay: after === undefined ? undefined : { after, until: numberOf(row, 'replay_until') ?? after },
  };
}
