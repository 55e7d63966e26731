// What PostgreSQL keeps of an account.

import { of } from '../guard.ts';

const postgres = ['test/system/postgres-accounts.test.ts'];
const postgresShare = ['test/system/postgres-spool.test.ts > turns of'];

/** What PostgreSQL keeps of an account. */
export const postgresGuards = [
  ...of('spool/postgres/postgres-claims.ts', postgres, [
    ['name <> ALL ($4::text[]) AND (SELECT 1', '($4::text[]) IS NOT NULL AND (SELECT 1'],
    ['line.account = name AND line.ready_at', 'line.ready_at'],
    ['line.account = ready.name AND', ''],
    ['line.account = $2::text AND', '$2::text IS NOT NULL AND'],
    ["lane = $1::text AND account = $2::text'", "lane = $1::text AND $2::text IS NOT NULL'"],
    [
      'lane = $1::text AND account = $2::text AND ${triedBefore',
      'lane = $1::text AND $2::text IS NOT NULL AND ${triedBefore',
    ],
    ['limit === 1 && this.#singles === 0 ? 1 : ', '', postgresShare],
    ['this.#singles = (this.#singles + 1) % deferredShare', 'this.#singles = 0', postgresShare],
    ['AND r.account = line.account\n', '\n'],
  ]),
  ...of('spool/postgres/spool-lines.ts', postgres, [
    ["h.kind = 'account' AND h.value = line.account", "h.kind = 'account'"],
  ]),
  ...of('spool/postgres/postgres-queue.ts', postgres, [
    ["($6::text = '' OR m.account = $6::text)", '$6::text IS NOT NULL'],
  ]),
  ...of('spool/postgres/postgres-retention.ts', postgres, [
    ['WHERE f.account = $1::text ORDER', 'WHERE $1::text IS NOT NULL ORDER'],
  ]),
  ...of('spool/postgres/spool-lines.ts', postgres, [
    ["h.kind = 'account' AND h.value = line.account", "h.kind = 'account'"],
  ]),
  ...of('spool/postgres/postgres-queue.ts', postgres, [
    ["($6::text = '' OR m.account = $6::text)", '$6::text IS NOT NULL'],
  ]),
  ...of('spool/postgres/postgres-retention.ts', postgres, [
    ['WHERE f.account = $1::text ORDER', 'WHERE $1::text IS NOT NULL ORDER'],
  ]),
  ...of('spool/postgres/spool-lines.ts', postgres, [
    ['r.lane = line.lane AND r.account = line.account', 'r.lane = line.lane'],
  ]),
  ...of('spool/search/find-events.ts', postgres, [
    ["if (account !== undefined && row['account'] !== account) return false", ''],
  ]),
  ...of('spool/postgres/events/event-removal.ts', postgres, [
    [
      'WHERE account = $4::text AND share = $5::smallint ORDER',
      'WHERE $4::text IS NOT NULL AND share = $5::smallint ORDER',
    ],
    [
      'WHERE account = $4::text AND share = $5::smallint AND',
      'WHERE $4::text IS NOT NULL AND share = $5::smallint AND',
    ],
  ]),
];
