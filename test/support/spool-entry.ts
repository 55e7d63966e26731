// Makes messages for tests of the spool and of delivery.

import { uuidv7 } from '../../src/base/ids.ts';
import type { OutcomeEvent } from '../../src/spool/events/mail-event.ts';
import type { Outcome, SpoolEntry } from '../../src/spool/spool.ts';
import { type DeliveryAttempt, outcomeEvent } from '../../src/spool/spool-events.ts';

/** 2026-01-01T00:00:00Z, milliseconds. */
export const someTime = 1_767_225_600_000;

/** A message of one recipient, changed as the test wishes. */
export function spoolEntry(changes: Partial<SpoolEntry> = {}): SpoolEntry {
  const id = changes.id ?? uuidv7(changes.acceptedAt ?? someTime);
  return {
    id,
    account: 'dev',
    credential: 'default',
    sessionId: 'c0ffee',
    messageId: `<${id}@platform.example>`,
    reversePath: 'b+token@bounces.platform.example',
    senderPath: 'alice@example.com',
    recipients: ['bob@example.org'],
    smtputf8: false,
    requireTls: false,
    acceptedAt: someTime,
    expiresAt: someTime + 432_000_000,
    head: Buffer.from(`From: alice@example.com\r\nMessage-ID: <${id}@platform.example>\r\n\r\n`),
    body: Buffer.from('Hello.\r\n'),
    ...changes,
  };
}

/** What became of the first attempt for a recipient of a message, the first one unless named. */
export function attemptOf(
  entry: SpoolEntry,
  outcome: Outcome,
  { recipient = entry.recipients[0] ?? '', ...more }: Partial<DeliveryAttempt> = {},
): OutcomeEvent {
  const size = entry.head.length + entry.body.length;
  return outcomeEvent(entry, { recipient, outcome, at: someTime, route: 'default', attempts: 1, size, ...more });
}
