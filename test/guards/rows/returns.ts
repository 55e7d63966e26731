// What comes back, and who is told.

import { of } from '../guard.ts';

const webhooks = ['test/web/admin/webhooks.test.ts'];
const webhookStore = ['test/delivery/webhooks/webhook-store.test.ts'];
const sender = ['test/delivery/webhooks/sender.test.ts'];
const suppressions = ['test/delivery/feedback/suppression-store.test.ts'];
const feedback = ['test/delivery/feedback/suppress-by-events.test.ts'];
const bounces = ['test/doors/bounce/bounce-address.test.ts', 'test/doors/bounce/bounce-listener.test.ts'];
const returnToken = ['test/mail/return-token.test.ts'];

/** What comes back, and who is told. */
export const returns = [
  ...of('mail/return-token.ts', returnToken, [
    ['if (!timingSafeEqual(octets, macOf(id, kind, hashOf(id, key)))) return undefined', ''],
    ["kind === 'bounce' ? mac", 'kind !== undefined ? mac'],
  ]),
  ...of('doors/bounce/bounce-desk.ts', bounces, [
    ['if (!isOwn && !addresses.returnPathDomains.has(host)) return', 'if (host === null) return'],
    ['if (isOwn && localPart', 'if (localPart'],
    ['if (queueId === undefined) return { kind', 'if (queueId === null) return { kind'],
    ['return isExpired(queueId, addresses, nowMs) ?', 'return nowMs < 0 ?'],
    [' && !isExpired(id, addresses, nowMs)', ''],
    ["readToken(id, 'feedback', addresses", "readToken(id, 'bounce', addresses"],
    ["target.kind === 'unknown' || target.kind === 'expired'", "target.kind === 'expired'"],
    [
      "if (queueId === undefined) return { result: 'unauthenticated'",
      "if (queueId === null) return { result: 'unauthenticated'",
    ],
  ]),
  ...of(
    'delivery/feedback/take-report.ts',
    ['test/doors/bounce/bounce-listener.test.ts'],
    [
      ['message.recipients.get(comparableMailbox(address))', '[...message.recipients.values()][0]'],
      ['return recipientCount === 1 ?', 'return recipientCount > 0 ?'],
    ],
  ),
  ...of('delivery/feedback/suppress-by-events.ts', feedback, [
    ['entry: { account: owner.id, address', "entry: { account: 'x', address"],
    ['!owner || owner.suppress?.[cause.setting] === false', '!owner'],
  ]),
  ...of(
    'web/admin/suppression-endpoints.ts',
    ['test/web/admin/endpoints.test.ts'],
    [[' && !(await suppressions.hasRoom(account.id))', ' && false']],
  ),
  ...of('delivery/feedback/suppression-store.ts', suppressions, [
    [
      "count: 'SELECT count(*) AS count FROM suppressions WHERE account = $1'",
      "count: 'SELECT count(*) AS count FROM suppressions WHERE $1 IS NOT NULL'",
    ],
    ['const free = most - ', 'const free = 1 + most - '],
    ['known.left += 1;', 'known.left += 0;'],
    [
      "'SELECT * FROM suppressions WHERE account = $1 AND address",
      "'SELECT * FROM suppressions WHERE $1 IS NOT NULL AND address",
    ],
    [
      'remove: `DELETE FROM suppressions WHERE account = $1 AND',
      'remove: `DELETE FROM suppressions WHERE $1 IS NOT NULL AND',
    ],
    [
      'page: `SELECT * FROM suppressions WHERE account = $1 AND',
      'page: `SELECT * FROM suppressions WHERE $1 IS NOT NULL AND',
    ],
    ['for (const { account } of entries) empty.forget(account)', ''],
    ['const since = this.#since.get(account);', 'const [since] = this.#since.values();'],
  ]),
  ...of('delivery/webhooks/webhook-store.ts', webhookStore, [
    ["FROM webhooks WHERE account = $1'", "FROM webhooks WHERE $1 IS NOT NULL'"],
    ["list: 'SELECT * FROM webhooks WHERE account = $1", "list: 'SELECT * FROM webhooks WHERE $1 IS NOT NULL"],
    ["find: 'SELECT * FROM webhooks WHERE account = $1", "find: 'SELECT * FROM webhooks WHERE $1 IS NOT NULL"],
    ['secret = $3\n    WHERE account = $1 AND', 'secret = $3\n    WHERE $1 IS NOT NULL AND'],
    ['"DELETE FROM webhooks WHERE account = $1 AND', '"DELETE FROM webhooks WHERE $1 IS NOT NULL AND'],
    ['replay_until ELSE $4 END\n    WHERE account = $1 AND', 'replay_until ELSE $4 END\n    WHERE $1 IS NOT NULL AND'],
    [
      "$8 = 1 THEN NULL ELSE last_failure_at END\n    WHERE account = $1 AND id = $2 AND source = 'api'",
      '$8 = 1 THEN NULL ELSE last_failure_at END\n    WHERE account = $1 AND id = $2',
    ],
    [
      "secret = $3\n    WHERE account = $1 AND id = $2 AND source = 'api'",
      'secret = $3\n    WHERE account = $1 AND id = $2',
    ],
    [
      `"DELETE FROM webhooks WHERE account = $1 AND id = $2 AND source = 'api'`,
      `"DELETE FROM webhooks WHERE account = $1 AND id = $2`,
    ],
    [
      "forgetPending: 'DELETE FROM webhook_pending WHERE webhook = $1'",
      "forgetPending: 'DELETE FROM webhook_pending WHERE $1 IS NOT NULL'",
    ],
    [
      "forgetLog: 'DELETE FROM webhook_deliveries WHERE webhook = $1'",
      "forgetLog: 'DELETE FROM webhook_deliveries WHERE $1 IS NOT NULL'",
    ],
    [
      "'UPDATE webhook_pending SET ready_at = $2 WHERE webhook = $1 AND",
      "'UPDATE webhook_pending SET ready_at = $2 WHERE $1 IS NOT NULL AND",
    ],
    [
      'SELECT * FROM webhook_deliveries WHERE webhook = $1 AND',
      'SELECT * FROM webhook_deliveries WHERE $1 IS NOT NULL AND',
    ],
    [
      `"DELETE FROM webhooks WHERE id = $1 AND source = 'file'"`,
      `"DELETE FROM webhooks WHERE $1 IS NOT NULL AND source = 'file'"`,
    ],
    ['last_failure_at = NULL WHERE id = $1 AND source', 'last_failure_at = NULL WHERE $1 IS NOT NULL AND source'],
  ]),
  ...of('delivery/webhooks/lease-store.ts', webhookStore, [
    ['WHERE webhook = webhooks.id AND ready_at IS NOT NULL', 'WHERE ready_at IS NOT NULL'],
    ['WHERE id = $1 AND enabled = 1 AND (lease_holder', 'WHERE $1 IS NOT NULL AND enabled = 1 AND (lease_holder'],
    [
      'WHERE id = $1 AND lease_holder = $2 AND enabled = 1 AND lease_until',
      'WHERE id = $1 AND $2 IS NOT NULL AND enabled = 1 AND lease_until',
    ],
    [
      'WHERE id = $1 AND lease_holder = $2 AND enabled = 1 AND lease_until',
      'WHERE $1 IS NOT NULL AND lease_holder = $2 AND enabled = 1 AND lease_until',
    ],
    ['WHERE id = $1 AND replay_after = $2', 'WHERE $1 IS NOT NULL AND replay_after = $2'],
    [
      '(SELECT id FROM webhook_deliveries WHERE webhook = $1 ORDER',
      '(SELECT id FROM webhook_deliveries WHERE $1 IS NOT NULL ORDER',
    ],
    [
      'DELETE FROM webhook_deliveries WHERE webhook = $1 AND at',
      'DELETE FROM webhook_deliveries WHERE $1 IS NOT NULL AND at',
    ],
    ['lease_until = 0 WHERE lease_holder = $1', 'lease_until = 0 WHERE $1 IS NOT NULL'],
    [
      'WHERE webhook = $1 AND ready_at IS NOT NULL AND (ready_at <= $2',
      'WHERE $1 IS NOT NULL AND ready_at IS NOT NULL AND (ready_at <= $2',
    ],
    [
      "webhook_pending WHERE webhook = $1 AND ready_at IS NOT NULL'",
      "webhook_pending WHERE $1 IS NOT NULL AND ready_at IS NOT NULL'",
    ],
    [
      '(SELECT 1 FROM webhook_pending WHERE webhook = $1 LIMIT',
      '(SELECT 1 FROM webhook_pending WHERE $1 IS NOT NULL LIMIT',
    ],
    [
      "'DELETE FROM webhook_pending WHERE webhook = $1 AND event",
      "'DELETE FROM webhook_pending WHERE $1 IS NOT NULL AND event",
    ],
    ['attempts = $3, ready_at = $4 WHERE webhook = $1 AND', 'attempts = $3, ready_at = $4 WHERE $1 IS NOT NULL AND'],
    [
      '`UPDATE webhook_pending SET ready_at = $3 WHERE webhook = $1 AND',
      '`UPDATE webhook_pending SET ready_at = $3 WHERE $1 IS NOT NULL AND',
    ],
    [
      'FROM webhook_pending WHERE webhook = $1 AND message = $2',
      'FROM webhook_pending WHERE $1 IS NOT NULL AND message = $2',
    ],
    [
      "retryAll: 'UPDATE webhook_pending SET ready_at = $2 WHERE webhook = $1",
      "retryAll: 'UPDATE webhook_pending SET ready_at = $2 WHERE $1 IS NOT NULL",
    ],
    [
      '`DELETE FROM webhook_deliveries WHERE webhook = $1 AND',
      '`DELETE FROM webhook_deliveries WHERE $1 IS NOT NULL AND',
    ],
    [
      "disabled_reason = $3 WHERE id = $1 AND lease_holder = $2'",
      "disabled_reason = $3 WHERE id = $1 AND $2 IS NOT NULL'",
    ],
    [
      'message FROM webhook_pending WHERE webhook = $1 AND message IN',
      'message FROM webhook_pending WHERE $1 IS NOT NULL AND message IN',
    ],
  ]),
  ...of('delivery/webhooks/webhook-turns.ts', sender, [
    ['...(this.#byAccount.get(account) ?? [])', '...this.#known.keys()'],
  ]),
  ...of(
    'delivery/webhooks/round.ts',
    ['test/delivery/webhooks/sender.test.ts > of two accounts'],
    [
      ['isSlow ? 1 : newAtOnce, account, kinds })', 'isSlow ? 1 : newAtOnce, kinds })'],
      ['limit: replayedAtOnce, account, kinds })', 'limit: replayedAtOnce, kinds })'],
    ],
  ),
  ...of(
    'delivery/webhooks/round.ts',
    ['test/delivery/webhooks/sender.test.ts > on the same host'],
    [['parts.poster.post({ owner, url', "parts.poster.post({ owner: '', url"]],
  ),
  ...of('web/admin/webhooks/webhook-endpoints.ts', webhooks, [
    ["if (source === 'file') {", "if (id === '') {"],
    [
      'const { id } = await webhookOf(parts, asked);\n    const { cursor',
      'const { id } = asked.params;\n      const { cursor',
    ],

    ['await replayRange(events, account.name, {', "await replayRange(events, '', {"],
  ]),
];
