// The mark of the program that made a message, as events keep it.

import { expect, test } from 'vitest';
import { readMessage } from '../../../src/mail/header/header-reader.ts';
import { refusalOf } from '../../../src/pipeline/submit.ts';
import { mailerOf } from '../../../src/spool/events/refusal.ts';
import { smtpSubmission } from '../../support/policy-fixtures.ts';

function mark(head: string): string | undefined {
  return mailerOf(readMessage(Buffer.from(`${head}\r\n\r\nx\r\n`, 'latin1')).fields);
}

test.each([
  [
    'X-Mailer: swaks v20201014.0 jetmore.org/john/code/swaks/',
    'X-Mailer: swaks v20201014.0 jetmore.org/john/code/swaks/',
  ],
  ['X-Mailer: a\r\nuser-agent: b', 'User-Agent: b'],
  ['X-PHP-Originating-Script: 0:send.php', 'X-PHP-Originating-Script: 0:send.php'],
  ['User-Agent:  two\r\n\twords ', 'User-Agent: two words'],
  ['X-Mailer:', 'X-Mailer:'],
  ['Subject: x', undefined],
])('%j is known as %j', (head, expected) => {
  expect(mark(head)).toBe(expected);
});

test('the environment that cron tells of may hold a secret, and is not kept', () => {
  expect(mark('X-Cron-Env: <TOKEN=hunter2>')).toBe('X-Cron-Env');
});

test.each([199, 200, 201])('a value that makes it %i octets long is kept up to 200, and is printable', (length) => {
  const value = 'a'.repeat(length - 'X-Mailer: '.length);
  expect(mark(`X-Mailer: ${value}`)).toHaveLength(Math.min(length, 200));
});

test('what would steer a terminal, or is no ASCII, is masked', () => {
  expect(mark('X-Mailer: \x1b[31mred\x9b\xe4\x7f\0')).toBe('X-Mailer: ?[31mred????');
});

test('a refusal tells the mark of its message', () => {
  const submission = smtpSubmission(Buffer.from('From: a@example.com\r\nUser-Agent: Mua/1\r\n\r\nx\r\n'));
  expect(refusalOf(submission, []).mailer).toBe('User-Agent: Mua/1');
});
