// Stored events as findings: what was let pass while the policy is observed is told as what it would be refused for (D4c).

import { expect, test } from 'vitest';
import { MemoryEvents } from '../../src/events/memory-events.ts';
import { findingsOfEvents } from '../../src/report/read-events.ts';

test('headers that were removed while the policy is observed are cured like refused ones', async () => {
  const events = new MemoryEvents();
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
  const removed = ['User-Agent', 'Received', 'received'].map((field) => ({ field, code: 'E_HEADER_NOT_ALLOWED' }));
  const observed = { ...accepted, observed: removed };
  events.add(observed);
  events.add(accepted);
  const findings = await findingsOfEvents(events, { since: 0, sendingDomains: () => ['example.com'] });
  const [report] = findings.report(() => undefined);
  expect(report).toMatchObject({
    accepted: 2,
    refused: 0,
    observed: 1,
    proposal: { strip: ['User-Agent'], trustedHop: true },
    mailers: [{ mailer: 'HELO box.internal', problems: [{ count: 1 }, { count: 1 }] }],
  });
});
