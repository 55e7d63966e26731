// What happened to a recipient, told in words: no token of the HTTP interface is left for people to guess at.

import { expect, test } from 'vitest';
import { eventWords } from '../../../../src/web/console/web/text/event-words.ts';

test.each([
  [
    { kind: 'suppressed', reason: 'hard_bounce' },
    ['Mail to this address came back for good, so that it gets no more.'],
  ],
  [
    { kind: 'suppressed', reason: 'complaint' },
    ['The recipient called mail unwanted, so that the address gets no more.'],
  ],
  [{ kind: 'bounced', bounce_class: 'hard' }, ['Nobody can be reached at this address.']],
  [{ kind: 'complained', feedback_type: 'abuse' }, ['The recipient called it unwanted.']],
  [{ kind: 'complained', feedback_type: 'opt_out' }, ['opt out']],
  [{ kind: 'complained' }, []],
  [{ kind: 'dropped' }, []],
  [{ kind: 'delivered', attempts: 3 }, []],
  [{ kind: 'failed', attempts: 3 }, ['Attempt 3.']],
  [
    { kind: 'deferred', attempts: 0, is_untried: true },
    ['The next hop was not reached, which does not count as an attempt.'],
  ],
  [{ kind: 'constructor' }, []],
])('%j', (event, notes) => {
  expect(eventWords(event)).toMatchObject({ notes });
});

test('who said what, and when it is tried again', () => {
  const deferred = {
    ...{ kind: 'deferred', host: 'hop (192.0.2.1:25)', attempts: 1, next_attempt_at: '2026-11-22T12:00:00.000Z' },
    reply: { code: 450, enhanced: '4.2.1', text: 'Mailbox busy' },
  };
  expect(eventWords(deferred)).toEqual({
    by: 'hop (192.0.2.1:25)',
    said: '450 4.2.1 Mailbox busy',
    notes: ['Attempt 1.'],
    nextAt: '2026-11-22T12:00:00.000Z',
  });
  const bounced = { kind: 'bounced', bounce_class: 'policy', reported_by: '192.0.2.7', diagnostic: '550 no' };
  expect(eventWords(bounced)).toMatchObject({ by: '192.0.2.7', said: '550 no' });
});
