// What a report says of the host that replied, from the words of delivery.

import { expect, test } from 'vitest';
import { statusFacts } from '../../../src/delivery/notify/compose-report.ts';

test.each([
  ['out (mx1.example[192.0.2.1]:25)', 'mx1.example'],
  ['out (mx1.example[2001:db8::1]:25)', 'mx1.example'],
  ['out ([2001:db8::1]:25)', '2001:db8::1'],
  ['out (192.0.2.1:25)', '192.0.2.1'],
  ['out (mail.example:587)', 'mail.example'],
  ['out (mx1.example)', 'mx1.example'],
  // Nobody of a set has answered, and nobody was found.
  ['out (mx1.example, mx2.example)', undefined],
  ['out (a.example:25, b.example:25)', undefined],
  ['out', undefined],
])('%s is %s', (host, remote) => {
  const reply = { code: 550, enhanced: '5.1.1', text: 'No such user' };
  const facts = statusFacts({ address: 'bob@partner.test', action: 'failed', at: 0, reply, host }, false);
  expect(facts.remote).toBe(remote);
});
