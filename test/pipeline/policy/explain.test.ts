import { expect, test } from 'vitest';
import { explain } from '../../../src/pipeline/policy/explain.ts';
import { context, smtpSubmission } from '../../support/policy-fixtures.ts';

function told(lines: readonly string[], credential: string) {
  return explain(smtpSubmission(Buffer.from([...lines, '', 'Hi', ''].join('\r\n')), { credential }), context);
}

test('every header gets its verdict with its rule, in the order of the text', () => {
  const { headers, admitted, usage, limits } = told(
    [
      'X-Cron-Env: a',
      'From: root (Cron Daemon)',
      'Subject: s',
      'Date: d',
      'Content-Type: text/plain',
      'x-a: b',
      'Importance: high',
    ],
    'cron',
  );
  expect(admitted).toBe(true);
  expect(headers.map(({ name, verdict, standard }) => [name, verdict, standard])).toEqual([
    ['X-Cron-Env', 'stripped', 'non-standard'],
    ['From', 'lifted', 'RFC 5322'],
    ['Subject', 'lifted', 'RFC 5322'],
    ['Date', 'replaced', 'RFC 5322'],
    ['Content-Type', 'mime', 'RFC 2045'],
    ['x-a', 'admitted', 'non-standard'],
    ['Importance', 'admitted', 'RFC 2156'],
  ]);
  expect(headers[0]?.rule).toBe('Removed: the operator named it for this credential.');
  expect(headers[3]?.rule).toBe('The platform writes its own. The time of acceptance, in UTC.');
  expect(usage).toEqual({ allowlisted: 1, bytes: 3 + 4 + 1 + 10 + 4 + 4 });
  expect(limits).toEqual({ nameBytes: 100, valueBytes: 2048, allowlisted: 20, totalBytes: 16_384 });
});

test('a refused header carries its reason, each of a repeated name the same one', () => {
  const { headers, admitted } = told(
    ['Received: x', 'From: a@elsewhere.example', 'User-Agent: u', 'X-A: 1', 'x-a: 2', 'X-B: fine'],
    'default',
  );
  expect(admitted).toBe(false);
  expect(headers.map(({ verdict, violation }) => [verdict, violation?.code])).toEqual([
    ['refused', 'E_HEADER_NOT_ALLOWED'],
    ['refused', 'E_SENDER_NOT_VERIFIED'],
    ['refused', 'E_HEADER_NOT_ALLOWED'],
    ['refused', 'E_HEADER_VALUE_INVALID'],
    ['refused', 'E_HEADER_VALUE_INVALID'],
    ['admitted', undefined],
  ]);
  expect(headers[2]).toMatchObject({ rule: 'On no list, and does not begin with X-.' });
  expect(headers[2]).not.toHaveProperty('standard');
});

test('trace of a trusted hop is told as such', () => {
  expect(told(['Received: x', 'From: a@example.com'], 'oldbox').headers[0]).toMatchObject({ verdict: 'trace' });
});

test('what becomes of a mail server’s bounce is told on its From and its own X-Original-From (D4b)', () => {
  const text = 'From: <MAILER-DAEMON@box.internal>\r\nX-Original-From: mine\r\nX-A: b\r\n\r\nHi\r\n';
  const judged = explain(smtpSubmission(Buffer.from(text), { credential: 'oldbox', reversePath: '' }), context);
  expect(judged.admitted).toBe(true);
  expect(judged.headers.map(({ verdict, rule }) => [verdict, rule])).toEqual([
    ['lifted', 'A mail server’s bounce: becomes MAILER-DAEMON@example.com, and X-Original-From keeps this one.'],
    ['replaced', 'Keeps what From was.'],
    ['admitted', expect.any(String)],
  ]);
});
