import { expect, test } from 'vitest';
import { mayStrip } from '../../src/policy/check.ts';

test.each(['User-Agent', 'x-cron-env', 'Received', 'Date', 'List-Id', 'DKIM-Signature', 'ARC-Seal', 'Sender'])(
  '%s may be stripped',
  (name) => {
    expect(mayStrip(name)).toBe(true);
  },
);

test.each([
  'From',
  'to',
  'CC',
  'Bcc',
  'Subject',
  'Reply-To',
  'MIME-Version',
  'Content-Type',
  'content-id',
  'Content-Location',
])('%s may not be stripped (D4a)', (name) => {
  expect(mayStrip(name)).toBe(false);
});
