// The notifier over a real spool and the real pipeline: what is not sent, what is put off, and that nothing is made in vain.

import { mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Account } from '../../../src/accounts/account.ts';
import { silentLog } from '../../../src/base/log.ts';
import { Notifier, type NotifierParts } from '../../../src/delivery/notify/notifier.ts';
import { createSubmit, type Submission } from '../../../src/pipeline/submit.ts';
import type { SpoolEntry } from '../../../src/spool/spool.ts';
import { type SpoolLimits, unlimited } from '../../../src/spool/spool-limits.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { platform } from '../../support/checked.ts';
import { makeKey } from '../../support/dkim.ts';
import { logLines } from '../../support/log-lines.ts';
import { context, devAccount } from '../../support/policy-fixtures.ts';
import { countsOf } from '../../support/spool-counts.ts';
import { attemptOf, someTime, spoolEntry } from '../../support/spool-entry.ts';

let folder = '';
let spool: SqliteSpool;
let now = someTime;
let submitted: Submission[] = [];
const clock = { now: () => now, monotonic: () => now };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-notify-'));
  [now, submitted] = [someTime, []];
});
afterEach(async () => {
  await spool.close();
  rmSync(folder, { recursive: true, force: true });
});

async function notifier(changes: Partial<NotifierParts> = {}, limits: Partial<SpoolLimits> = {}) {
  spool = await SqliteSpool.open({ file: join(folder, 'postern.db'), clock, limits: { ...unlimited, ...limits } });
  const { signing } = await makeKey('platform.example', 'p1', 'ed25519');
  const submit = createSubmit({
    clock,
    hostname: 'mx.platform.example',
    platform,
    sendingDomain: (_, domain) => ({ name: domain, subdomains: false, dkim: [] }),
    domainKeys: () => [signing],
    platformKeys: [],
    wantsPlatformSignature: () => false,
    spool,
    expireAfterSeconds: 1000,
    onAccepted: () => undefined,
    onRefused: () => undefined,
  });
  return new Notifier({
    spool,
    accounts: { find: (name) => (name === 'dev' ? devAccount : undefined), sendingDomain: context.sendingDomain },
    submit: (submission) => {
      submitted.push(submission);
      return submit(submission);
    },
    suppressed: async () => false,
    from: () => ({ platformDomain: 'platform.example', hostname: 'mx.platform.example' }),
    returnBytes: 1000,
    clock,
    log: silentLog,
    ...changes,
  });
}

const reply = { code: 550, enhanced: '5.1.1', text: 'no such user' };

async function fail(count: number, changes: Partial<SpoolEntry> = {}) {
  for (let at = 0; at < count; at += 1) {
    const entry = spoolEntry({ reports: { failure: true, delay: false, success: false }, ...changes });
    await spool.add(entry, now);
    await spool.record([attemptOf(entry, { kind: 'failed', reply, host: 'r (h:25)' })]);
  }
}

test('many reports are sent one after the other, each once', async () => {
  const made = await notifier();
  await fail(25);
  await Promise.all([made.sendDue(), made.sendDue()]);
  await made.sendDue();
  expect(made.counts).toEqual({ made: 25, left: 0 });
  expect(await countsOf(spool)).toEqual({ queued: 25, failed: 25 });
});

test('where the account’s share of the spool is used up, one report is made in vain, not all of them', async () => {
  const made = await notifier({}, { queuedMessages: 1 });
  await fail(25);
  const filler = spoolEntry();
  await spool.add(filler, now);
  await made.sendDue();
  expect(submitted).toHaveLength(1);
  expect(made.counts).toEqual({ made: 0, left: 0 });
  await made.sendDue();
  expect(submitted).toHaveLength(1);
  await spool.drop(filler.id);
  now += 60_000;
  await made.sendDue();
  // The first one takes the room, the next one finds none.
  expect(made.counts).toEqual({ made: 1, left: 0 });
});

test('an account that is gone, a sender that is no longer its own, and a suppressed one get none', async () => {
  const suppressed = async (_: Account, recipient: string) => recipient === 'no@example.com';
  const made = await notifier({ suppressed });
  await fail(1, { account: 'gone' });
  await fail(1, { senderPath: 'alice@sold.example' });
  await fail(1, { senderPath: 'no@example.com' });
  await fail(1);
  await made.sendDue();
  expect(made.counts).toEqual({ made: 1, left: 3 });
  expect(submitted.map(({ envelope }) => envelope)).toEqual([
    { reversePath: '', recipients: ['alice@example.com'], smtputf8: false, requireTls: false },
  ]);
  expect(await spool.reportsDue({ now, limit: 10 })).toEqual([]);
});

test('the report about a message with REQUIRETLS asks for it too (RFC 8689 §5)', async () => {
  const made = await notifier();
  await fail(1, { requireTls: true });
  await made.sendDue();
  expect(submitted.map(({ envelope }) => envelope.requireTls)).toEqual([true]);
});

test('what stops begins no report any more', async () => {
  const made = await notifier();
  await fail(3);
  await made.stop();
  await made.sendDue();
  expect(made.counts.made).toBe(0);
});

test('that reports cannot be read is told once, and not that they can be, while the spool takes no questions', async () => {
  const { log, lines } = logLines();
  const made = await notifier({ log, everyMs: 5 });
  const file = join(folder, 'postern.db');
  const beside = new DatabaseSync(file);
  beside.exec('DROP TABLE spool_reports');
  beside.close();
  made.start();
  await vi.waitFor(() => expect(lines).toHaveLength(1));
  renameSync(file, `${file}.moved`);
  await vi.waitFor(() => expect(spool.unavailable).toBeDefined(), 5000);
  await new Promise((done) => setTimeout(done, 50));
  expect(lines.map(({ msg }) => msg)).toEqual(['reports could not be read']);
  await made.stop();
});
