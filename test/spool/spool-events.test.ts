import { expect, test } from 'vitest';
import { eventJson } from '../../src/spool/events/message-history.ts';
import { attemptOf, someTime, spoolEntry } from '../support/spool-entry.ts';

test.each([
  [true, { is_untried: true }],
  [false, {}],
])(
  'an event of a deferral tells that the next hop was not reached, and nothing where it was: %s',
  (isUntried, told) => {
    const reply = { code: 451, enhanced: '4.3.0', text: 'later' };
    const outcome = { kind: 'deferred', reply, host: 'mx.example.net' } as const;
    const made = attemptOf(spoolEntry(), outcome, { nextAttemptAt: someTime, isUntried });
    const { is_untried } = eventJson({ ...made, id: 1 });
    expect(is_untried === undefined ? {} : { is_untried }).toEqual(told);
  },
);
