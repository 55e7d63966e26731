// What the journal keeps of a session: bounded, without secrets, and no line that could be taken for another.

import { expect, test } from 'vitest';
import { SessionTranscript } from '../../../src/doors/smtp/record/session-transcript.ts';

function said(lines: readonly (string | Buffer)[], secrets: readonly number[] = []): string {
  const transcript = new SessionTranscript(0);
  for (const [at, line] of lines.entries()) transcript.client(Buffer.from(line), at, secrets.includes(at));
  return transcript.ofTransaction().text();
}

test('keeps no secret, wherever a client puts it', () => {
  const secret = 'AHRva2VuAGh1bnRlcjI=';
  const text = said(
    [
      'EHLO c',
      `AUTH PLAIN ${secret}`,
      'auth login',
      secret,
      secret,
      `AUTH\tPLAIN ${secret}`,
      `auth ${secret}`,
      secret,
      `NOOP ${secret}`,
      `RSET ${secret}`,
      `data ${secret}`,
      `QUIT ${secret}`,
      `STARTTLS ${secret}`,
      `MAIL FROM:<a@x.example> AUTH=${secret} SIZE=5`,
    ],
    [3, 4],
  );
  expect(text).not.toContain('AHRva');
  expect(text).toContain('C 1 AUTH PLAIN [not kept]\n');
  expect(text).toContain('C 3 [response to AUTH, not kept]\n');
  expect(text).toContain('C 8 NOOP\nC 9 RSET\nC 10 DATA\nC 11 QUIT\nC 12 STARTTLS\n');
  expect(text).toContain('C 13 MAIL FROM:<a@x.example> AUTH=[not kept] SIZE=5\n');
});

test('keeps one transaction beside the beginning of the session, and both bounded', () => {
  const transcript = new SessionTranscript(0);
  transcript.server('220 mx ESMTP\r\n', 1);
  transcript.client(Buffer.from('MAIL FROM:<one@x.example>'), 2, false);
  const first = transcript.ofTransaction();
  transcript.client(Buffer.from('mail from:<two@x.example>'), 3, false);
  for (let at = 0; at < 100_000; at += 1) transcript.client(Buffer.from(`RCPT TO:<${at}@x.example>`), at, false);
  transcript.client(Buffer.from('DATA'), 5, false);
  transcript.server('354-a\r\n354 b\r\n', 6);
  expect(first.text()).toBe('S 1 220 mx ESMTP\nC 2 MAIL FROM:<one@x.example>\n');
  const lines = transcript.ofTransaction().text().split('\n');
  expect(lines.length).toBeLessThan(140);
  expect(lines.slice(-4)).toEqual(['C 5 DATA', 'S 6 354-a', 'S 6 354 b', '']);
  expect(lines.find((line) => line.startsWith('- '))).toMatch(/^- 0 \d+ lines are not kept$/);
});

test('no line can end itself or be endless', () => {
  const text = said([
    'MAIL FROM:<a\nS 0 250 ok\0@x>',
    `RCPT TO:<${'x'.repeat(1_000_000)}>`,
    Buffer.from([0x4d, 0xff, 0xfe]),
  ]);
  expect(text.split('\n')).toHaveLength(4);
  expect(text.length).toBeLessThan(1000);
});
