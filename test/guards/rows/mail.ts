// What an account may send, and what the spool in memory and in SQLite keeps of it.

import { of } from '../guard.ts';

const memory = ['test/spool/memory-spool.test.ts'];
const sqlite = ['test/spool/sqlite/sqlite-accounts.test.ts'];
const sqliteShare = ['test/spool/sqlite/sqlite-spool.test.ts > turns of'];
const idempotency = ['test/doors/rest/idempotency.test.ts'];
const restDoor = ['test/doors/rest/send.test.ts', 'test/doors/rest/idempotency.test.ts'];
const sending = ['test/pipeline/policy/sender.test.ts', 'test/pipeline/policy/check.test.ts'];
const share = ['test/delivery/transport-share.test.ts'];
const router = ['test/delivery/router.test.ts'];
const threads = ['test/pipeline/repair-thread.test.ts'];

/** What an account may send, and what the spool in memory and in SQLite keeps of it. */
export const mail = [
  ...of('pipeline/policy/judge-sender.ts', sending, [
    ['return domain === fromDomain || find(account, domain) ?', 'return domain ?'],
    [
      'const sendingDomain = find(account, from.domain)',
      'const sendingDomain = find(account, from.domain) ?? account.sendingDomains[0]',
    ],
  ]),
  ...of(
    'accounts/sender-map.ts',
    ['test/accounts/sender-map.test.ts'],
    [
      ['if (!map || map.isOwned(domain)) return undefined', 'if (!map) return undefined'],
      [' || !owns(toDomain)) continue', ') continue'],
    ],
  ),
  ...of('delivery/transport-share.ts', share, [
    [
      'const own = this.#byAccount.get(account);\n    const most',
      'const own = this.#byAccount.values().next().value;\n    const most',
    ],
    ['own.get(account) ?? 0', 'own.values().next().value ?? 0'],
    [
      '(this.#byAccount.get(account)?.claimed ?? 0) + more',
      '(this.#byAccount.values().next().value?.claimed ?? 0) + more',
    ],
    [
      'const own = this.#byAccount.get(account)?.claimed ?? 0;',
      'const own = this.#byAccount.values().next().value?.claimed ?? 0;',
    ],
    ['filter((account) => this.#isFull(account))', 'filter(() => true)'],
    ['this.#full.has(account) && ', ''],
    ['this.#byAccount.get(account) ?? {', 'this.#byAccount.values().next().value ?? {'],
  ]),
  ...of('delivery/router.ts', router, [['if (match?.accounts && !match.accounts.includes(account)) return false', '']]),
  ...of('doors/rest/idempotency.ts', idempotency, [['const name = `${account} ${key}`', 'const name = key']]),
  ...of('doors/rest/rest-door.ts', restDoor, [
    ['await parts.idempotent.begin(account, idempotency)', "await parts.idempotent.begin('', idempotency)"],
    ['parts.keys.answered(account, idempotency.key', "parts.keys.answered('', idempotency.key"],
  ]),
  ...of('pipeline/submit.ts', threads, [
    ['find(submitter.account.name, ids)', "find('', ids)"],
    [' || submitter.account.threadRepair !== true', ''],
  ]),
  ...of('spool/sqlite/sqlite-lines.ts', sqliteShare, [
    ['const key = `${transport} ${account}`', 'const key = transport'],
  ]),
  ...of(
    'spool/journal/writer/journal-tables.ts',
    ['test/spool/journal-notes.test.ts'],
    [
      ['waiting, outcome FROM journal WHERE id = ?', 'waiting, outcome FROM journal WHERE ? IS NOT NULL'],
      ['SET waiting = ?, outcome = ? WHERE id = ?', 'SET waiting = ?, outcome = ? WHERE ? IS NOT NULL'],
    ],
  ),
  ...of(
    'spool/backup/backup-file.ts',
    ['test/spool/backup/backup.test.ts'],
    [
      ['(SELECT seq FROM spool_messages WHERE id = ?)', '(SELECT seq FROM spool_messages WHERE ? IS NOT NULL)'],
      ["'spool_messages WHERE id = ?'", "'spool_messages WHERE ? IS NOT NULL'"],
    ],
  ),
  ...of(
    'spool/search/event-feed.ts',
    ['test/spool/sqlite/sqlite-spool.test.ts > flood of refusals'],
    [['`${event.kind} ${event.account}`', 'event.kind']],
  ),
  ...of(
    'delivery/mx/mx-hops.ts',
    ['test/delivery/mx/account-shares.test.ts > questions to name'],
    [['const own = `${key} ${wish.account}`', 'const own = key']],
  ),
  ...of(
    'doors/smtp/mail-commands.ts',
    ['test/e2e/senders.test.ts'],
    [['accounts.sendingDomain(account, name) !== undefined', 'name !== undefined']],
  ),
  ...of(
    'pipeline/report/settings.ts',
    ['test/pipeline/report/findings.test.ts'],
    [
      ['.some(({ pattern }) => pattern === setting.pattern) === true', '!== undefined'],
      ['credential.legacyCharset?.toLowerCase() === setting.charset', 'credential.legacyCharset !== undefined'],
    ],
  ),
  ...of(
    'delivery/router.ts',
    ['test/delivery/staging.test.ts'],
    [['.filter((address) => this.#goes(entry.account, address, share, to))', '']],
  ),
  ...of(
    'pipeline/submit.ts',
    ['test/doors/rest/send.test.ts'],
    [['if (account.threadRepair === true) entry', 'entry']],
  ),
  ...of('spool/hold.ts', memory, [
    ['this.#byKey.get(`account ${account}`)', "this.all.find(({ kind }) => kind === 'account')"],
    ['this.#byKey.get(`message ${id}`)', "this.all.find(({ kind }) => kind === 'message')"],
  ]),
  ...of('spool/core/tally-steps.ts', sqlite, [
    ['WHERE account = ?1 AND key = ?2 AND created_at', 'WHERE ?1 IS NOT NULL AND key = ?2 AND created_at'],
    ['answer = ?3 WHERE account = ?1 AND', 'answer = ?3 WHERE ?1 IS NOT NULL AND'],
    ['WHERE (account, key) IN\n  (SELECT account, key', 'WHERE key IN\n  (SELECT key'],
  ]),
  ...of('spool/sqlite/sqlite-tables.ts', sqlite, [
    [
      'AS due FROM spool_recipients\n    WHERE message = ? AND',
      'AS due FROM spool_recipients\n    WHERE ? IS NOT NULL AND',
      ['test/spool/sqlite/sqlite-spool.test.ts > apart from those'],
    ],
    [
      'LEFT JOIN spool_lines l ON l.id = r.line WHERE r.message',
      'LEFT JOIN spool_lines l ON r.line IS NOT NULL WHERE r.message',
      ['test/spool/sqlite/sqlite-spool.test.ts > apart from those'],
    ],
    [
      'r WHERE r.message = m.seq AND r.address LIKE',
      'r WHERE m.seq IS NOT NULL AND r.address LIKE',
      ['test/spool/sqlite/sqlite-spool.test.ts > apart from those'],
    ],
    ['WHERE f.account = ? ORDER BY', 'WHERE ? IS NOT NULL ORDER BY', ['test/spool/sqlite/sqlite-store.test.ts']],
    ["(?6 = '' OR account = ?6)", '?6 IS NOT NULL'],
  ]),
  ...of('spool/search/find-events.ts', sqlite, [
    ["if (account !== undefined && row['account'] !== account) return false", ''],
    ["if (message !== undefined && row['queue_id'] !== message) return false", ''],
  ]),
  ...of(
    'spool/sqlite/event-follower.ts',
    ['test/spool/sqlite/event-follower.test.ts'],
    [['WHERE k.key = ? AND e.account = ? ORDER BY', 'WHERE k.key = ? AND ? IS NOT NULL ORDER BY']],
  ),
  ...of('spool/sqlite/sqlite-ledger.ts', sqlite, [
    [
      "'SELECT * FROM spool_counts WHERE account = ?'",
      "'SELECT * FROM spool_counts WHERE ? IS NOT NULL'",
      ['test/spool/sqlite/sqlite-store.test.ts'],
    ],
  ]),
  ...of('spool/sqlite/sqlite-lines.ts', sqlite, [
    ["WHERE lane = ? AND account = ?'", "WHERE lane = ? AND ? IS NOT NULL'"],
    ['AND transport = ? AND account = ? AND', 'AND transport = ? AND ? IS NOT NULL AND'],
    ['AND account = name AND ready_at', 'AND ready_at'],
    ["integer(row, 'ready') === 1 && !except.has(name)", "integer(row, 'ready') === 1"],
  ]),
  ...of('spool/sqlite/sqlite-claims.ts', sqlite, [
    ['limit === 1 && this.#singles === 0 ? 1 : ', '', sqliteShare],
    [': Math.floor(limit / deferredShare)', ': 0', sqliteShare],
    ['this.#singles = (this.#singles + 1) % deferredShare', 'this.#singles = 0', sqliteShare],
  ]),
  ...of(
    'spool/core/thread-steps.ts',
    ['test/spool/thread-steps.test.ts', ...sqlite],
    [
      [
        "'SELECT message_id FROM spool_threads WHERE account = ?1 AND",
        "'SELECT message_id FROM spool_threads WHERE ?1 IS NOT NULL AND",
      ],
      ['t WHERE t.account = known.account\n', 't\n'],
      ['DELETE FROM spool_threads WHERE account = ?1 AND', 'DELETE FROM spool_threads WHERE ?1 IS NOT NULL AND'],
    ],
  ),
  ...of('spool/core/report-steps.ts', sqlite, [
    ['WHERE day = ?1 AND account = ?2 AND address', 'WHERE day = ?1 AND ?2 IS NOT NULL AND address'],
  ]),
  ...of(
    'spool/sqlite/in-flight.ts',
    ['test/spool/sqlite/in-flight.test.ts'],
    [
      ['message.isReported || ', ''],
      ['message.recipients.every((address) => delivered.has(address))', 'message.recipients.length === delivered.size'],
      ['DELETE FROM spool_messages WHERE seq = ? AND envelope IS NOT NULL', 'DELETE FROM spool_messages WHERE seq = ?'],
      ['!this.#isRecovered || ', ''],
      ['this.#first?.seq ?? this.#newest + 1', 'this.#newest + 1'],
    ],
  ),
];
