// Stored events as findings: what was let pass while the policy is observed is told as what it would be refused for (D4c).

import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import { credentialText } from '../../../src/pipeline/report/print.ts';
import { findingsOfEvents } from '../../../src/pipeline/report/read-events.ts';
import { EventFeed } from '../../../src/spool/search/event-feed.ts';
import { MemoryEvents } from '../../support/memory-spool/memory-events.ts';

const accepted = {
  kind: 'accepted',
  at: 1000,
  account: 'dev',
  credential: 'default',
  sessionId: 'c0ffee',
  helo: 'box.internal',
  queueId: 'q',
  messageId: '<q@platform.example>',
  recipients: ['b@example.org'],
  recipientCount: 1,
  sizeAsSent: 100,
} as const;

/** The events as the store of a spool gives them. */
function feedOf(events: MemoryEvents): EventFeed {
  return new EventFeed({ table: events, clock: systemClock, log: silentLog });
}

test('headers that were removed while the policy is observed are cured like refused ones', async () => {
  const events = new MemoryEvents();
  // As stored by a release that kept neither the words of the reasons nor the mark of the program.
  const removed = ['User-Agent', 'Received', 'received'].map((field) => ({ field, code: 'E_HEADER_NOT_ALLOWED' }));
  const observed = { ...accepted, observed: removed };
  events.add(observed);
  events.add(accepted);
  const findings = await findingsOfEvents(feedOf(events), { since: 0, sendingDomains: () => ['example.com'] });
  const [report] = findings.report(() => undefined);
  expect(report).toMatchObject({
    accepted: 2,
    refused: 0,
    observed: 1,
    proposal: { strip: ['User-Agent'], trustedHop: true },
    mailers: [{ mailer: 'HELO box.internal', problems: [{ count: 1 }, { count: 1 }] }],
  });
});

test('an observed message is told under its program, and its reasons have the cures that a refusal would have had', async () => {
  const events = new MemoryEvents();
  const invalid = (field: string, message: string) => ({ field, code: 'E_HEADER_VALUE_INVALID', message });
  const limit = 'The custom headers have 20000 bytes together, at most 16384 are allowed';
  const observed = [
    invalid('X-Old', 'X-Old is empty'),
    ...['x-trace', 'X-Trace'].map((field) => invalid(field, 'x-trace appears 2 times, at most once is allowed')),
    ...['X-A', 'X-B'].map((field) => ({ field, code: 'E_HEADERS_TOO_LARGE', message: limit })),
  ];
  events.add({ ...accepted, observed, observedCount: 5, mailer: 'X-Mailer: old/1' });
  const findings = await findingsOfEvents(feedOf(events), { since: 0, sendingDomains: () => ['example.com'] });
  const [report] = findings.report(() => undefined);
  expect(report?.proposal).toEqual({ stripEmpty: true, keepFirst: ['X-Trace'] });
  expect(report?.mailers).toMatchObject([{ mailer: 'X-Mailer: old/1', observed: 1 }]);
  expect(report?.mailers[0]?.problems.map(({ code, message }) => [code, message])).toEqual([
    ['E_HEADER_VALUE_INVALID', 'X-Old is empty'],
    ['E_HEADER_VALUE_INVALID', 'x-trace appears 2 times, at most once is allowed'],
    ['E_HEADERS_TOO_LARGE', limit],
  ]);
});

test('suppressed recipients are one row, however many they are, and no messages', async () => {
  const events = new MemoryEvents();
  for (const [index, recipient] of ['b@example.org', 'c@example.org', 'd@example.org'].entries()) {
    const violations = [{ code: 'E_RECIPIENT_SUPPRESSED', message: `${recipient} is on the suppression list` }];
    events.add({
      ...{ ...accepted, kind: 'refused', stage: 'recipient', recipients: [recipient], violations, violationCount: 1 },
      journalId: `j${index}`,
    });
  }
  const findings = await findingsOfEvents(feedOf(events), { since: 0, sendingDomains: () => ['example.com'] });
  const [report] = findings.report(() => undefined);
  expect(report).toMatchObject({
    ...{ accepted: 0, refused: 0, proposal: {} },
    mailers: [
      {
        ...{ mailer: 'HELO box.internal', refused: 0, recipients: 3 },
        problems: [{ code: 'E_RECIPIENT_SUPPRESSED', count: 3, examples: ['j0', 'j1', 'j2'] }],
      },
    ],
  });
  expect(report && credentialText(report)).toContainEqual(
    expect.stringMatching(/^ {2}HELO box\.internal: 3 recipients refused, last /),
  );
});
