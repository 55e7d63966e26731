// Reports that real mail servers made (reports/README.md tells how): each names its recipient, and means what the next hop
// had refused it for.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { classify } from '../../../src/delivery/feedback/classify/classify.ts';
import { readReport } from '../../../src/delivery/feedback/report/read-report.ts';

const folder = join(import.meta.dirname, 'reports');

/** What each cause means; the rule where it is the same for every server. */
const meanings: Readonly<Record<string, 'hard' | 'soft' | 'policy'>> = {
  'no-such-user': 'hard',
  'no-such-user-plain': 'hard',
  'no-such-user-lines': 'hard',
  'unknown-in-german': 'hard',
  'mailbox-disabled': 'hard',
  'mailbox-full': 'soft',
  'mailbox-full-plain': 'soft',
  'no-mail-domain': 'hard',
  'host-unknown': 'hard',
  'relay-denied': 'policy',
  policy: 'policy',
  'sender-refused': 'policy',
  'too-large': 'policy',
  content: 'policy',
  spam: 'policy',
  expired: 'soft',
};

const servers = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
const reports = servers.flatMap((server) =>
  readdirSync(join(folder, server)).map((file) => ({ server, file, cause: file.replace(/(?:-\d)?\.eml$/, '') })),
);

test('there are reports of every server, fifty at the least, and of every cause', () => {
  expect(servers).toEqual(['dma', 'exim', 'nullmailer', 'opensmtpd', 'postfix', 'sendmail']);
  expect(reports.length).toBeGreaterThanOrEqual(50);
  expect([...new Set(reports.map(({ cause }) => cause))].toSorted()).toEqual(Object.keys(meanings).toSorted());
});

describe.each(servers)('%s', (server) => {
  test.each(reports.filter((report) => report.server === server))('$file', async ({ file, cause }) => {
    const octets = readFileSync(join(folder, server, file));
    const report = await readReport(octets, true);
    expect(report.kind).toBe('delivery');
    if (report.kind !== 'delivery') return;
    const address = `${cause}@${cause === 'host-unknown' ? 'nothing.invalid' : 'example.net'}`;
    const own = report.recipients.filter(({ final, original }) => [final, original].includes(address));
    expect(own).toHaveLength(1);
    const [{ action, status, diagnostic = '' } = { action: 'none' }] = own;
    const told = octets.toString('latin1');
    // Of a message that is given up after a time, a warning comes first.
    const isLate = cause === 'expired' && /^Action: delayed|warning|delayed 0? ?/im.test(told) && action === 'delayed';
    expect(action).toBe(isLate ? 'delayed' : 'failed');
    const decided = classify({ status, words: diagnostic });
    expect(`${decided.class} by ${decided.rule}, ${status}: ${diagnostic}`).toMatch(new RegExp(`^${meanings[cause]} `));
    expect(told).not.toMatch(/example-feedback-id[^]*example-feedback-id/);
  });
});
