// A shadow listener (D4f): what it answers, what it hands to whoever judges, and that nothing of it is a submission.

import { afterEach, expect, expectTypeOf, test } from 'vitest';
import type { SmtpListener } from '../../../src/doors/smtp/settings.ts';
import type { ShadowCopy, Submission, Submit } from '../../../src/pipeline/submit.ts';
import type { RefusalFacts } from '../../../src/spool/events/refusal.ts';
import type { SpoolDoors } from '../../../src/spool/spool.ts';
import { deviceListener, RawClient, type RunningDoor, startDoor } from '../../support/smtp-peers.ts';

const shadowListener: SmtpListener = { ...deviceListener, name: 'shadow', shadow: true };

let running: RunningDoor | undefined;
afterEach(async () => {
  await running?.door.drain(0);
  running = undefined;
});

/** Hands a copy to a shadow listener. @returns the replies to MAIL, RCPT and the final dot, and what was judged */
async function copy(
  message: string,
  about: { readonly from?: string; readonly to?: string; readonly suppressed?: boolean; readonly over?: boolean } = {},
) {
  const copies: ShadowCopy[] = [];
  const submitted: Submission[] = [];
  const refusals: RefusalFacts[] = [];
  running = await startDoor({
    listeners: [shadowListener],
    suppressed: () => about.suppressed === true,
    rateLimit: () => (about.over ? { code: 'E_DAILY_LIMIT_EXCEEDED', message: 'over' } : undefined),
    submit: async (submission) => {
      submitted.push(submission);
      return { accepted: true, id: 'x', messageId: '<x@platform.example>' };
    },
    judgeCopy: async (one) => void copies.push(one),
    onRefused: (refusal) => void refusals.push(refusal),
  });
  const client = RawClient.open(running.port('shadow'));
  await client.reply();
  await client.ask('EHLO old.example');
  const mail = await client.ask(`MAIL FROM:<${about.from ?? 'app@example.com'}>`);
  const rcpt = await client.ask(`RCPT TO:<${about.to ?? 'copies@shadow.invalid'}>`);
  await client.ask('DATA');
  client.send(`${message.replaceAll('\n', '\r\n')}\r\n.\r\n`);
  const end = await client.reply();
  client.destroy();
  return { replies: [mail, rcpt, end].map((reply) => reply.slice(0, 3)), copies, submitted, refusals };
}

const plain = 'From: app@example.com\nTo: A <a@partner.test>, b@partner.test\nCc: c@partner.test\nSubject: x\n\nHi';

test('a copy is judged and never submitted, whoever sends it and whomever it went to', async () => {
  const own = await copy(plain);
  expect(own.replies).toEqual(['250', '250', '250']);
  expect(own.submitted).toEqual([]);
  expect(own.copies).toMatchObject([
    {
      shadow: true,
      ofDoor: [],
      envelope: { reversePath: 'app@example.com', recipients: ['a@partner.test', 'b@partner.test', 'c@partner.test'] },
    },
  ]);
});

test('what the door would refuse is told with the copy: a sender of another domain, one without a domain', async () => {
  const other = await copy(plain, { from: 'root@box.internal' });
  expect(other.replies).toEqual(['250', '250', '250']);
  expect(other.copies[0]?.ofDoor).toMatchObject([{ code: 'E_SENDER_NOT_VERIFIED' }]);
  await running?.door.drain(0);
  const bare = await copy('From: root\nSubject: x\n\nHi', { from: 'root', to: 'copies' });
  expect(bare.replies).toEqual(['250', '250', '250']);
  expect(bare.copies[0]).toMatchObject({
    ofDoor: [{ code: 'E_VALIDATION_ERROR' }],
    envelope: { recipients: ['copies'] },
  });
  await running?.door.drain(0);
  expect((await copy(plain, { from: '' })).copies[0]?.ofDoor).toEqual([]);
});

test('neither the suppression list nor the limits of the account are asked', async () => {
  const found = await copy(plain, { suppressed: true, over: true });
  expect([found.replies, found.copies.length, found.refusals]).toEqual([['250', '250', '250'], 1, []]);
});

test('what is over a limit is answered as ever, and told as the verdict on a copy', async () => {
  const refusals: RefusalFacts[] = [];
  running = await startDoor({
    listeners: [shadowListener],
    judgeCopy: async () => undefined,
    onRefused: (refusal) => void refusals.push(refusal),
  });
  const client = RawClient.open(running.port('shadow'));
  await client.reply();
  await client.ask('EHLO old.example');
  expect(await client.ask('MAIL FROM:<app@example.com> SIZE=999999999')).toMatch(/^552 5\.3\.4 /);
  expect(await client.ask('RCPT FROM:<a@b.example>')).toMatch(/^50/);
  client.destroy();
  expect(refusals).toMatchObject([{ stage: 'message', shadow: true, violations: [{ code: 'E_CONTENT_TOO_LARGE' }] }]);
});

test('a fault of our own is answered 451', async () => {
  running = await startDoor({ listeners: [shadowListener], judgeCopy: () => Promise.reject(new Error('torn')) });
  const client = RawClient.open(running.port('shadow'));
  await client.reply();
  for (const line of ['EHLO old.example', 'MAIL FROM:<app@example.com>', 'RCPT TO:<x@y.invalid>', 'DATA'])
    await client.ask(line);
  client.send('From: app@example.com\r\n\r\nHi\r\n.\r\n');
  expect(await client.reply()).toMatch(/^451 4\.3\.0 /);
  client.destroy();
});

const journalReport = `From: <MicrosoftExchange329e71ec88ae4615bbc36ab6ce41109e@corp.example>
To: journal@shadow.invalid
Subject: Quarterly figures
X-MS-Journal-Report:
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="=_report"

--=_report
Content-Type: text/plain; charset="us-ascii"
Content-Transfer-Encoding: 7bit

Sender: clerk@example.com
Subject: Quarterly figures
Message-Id: <1@corp.example>
To: a@partner.test
Bcc: hidden@partner.test
To: group.member@partner.test, Expanded: group@partner.test

--=_report
Content-Type: message/rfc822

From: Clerk <clerk@example.com>
To: a@partner.test
Subject: Quarterly figures
User-Agent: Outlook

The body
--=_report--
`;

test('a journal report of Exchange stands for the message within it, with the sender and recipients that it names', async () => {
  const { copies } = await copy(journalReport, { from: '', to: 'journal@shadow.invalid' });
  const [found] = copies;
  expect(found?.fields.map(({ name }) => name)).toEqual(['From', 'To', 'Subject', 'User-Agent']);
  expect(found?.envelope).toMatchObject({
    reversePath: 'clerk@example.com',
    recipients: ['a@partner.test', 'hidden@partner.test', 'group.member@partner.test'],
  });
  expect(found?.body).toMatchObject({ kind: 'mime', bytes: Buffer.from('The body') });
  expect(found?.octets?.length).toBe(found?.size);
});

test('the addresses of a report are judged as those of an envelope are, whose domains have no case', async () => {
  const capitals = journalReport.replace('Sender: clerk@example.com', 'Sender: Clerk@Example.COM');
  const { copies } = await copy(capitals.replace('Bcc: hidden@partner.test', 'Bcc: Hidden@Partner.TEST'), { from: '' });
  expect(copies[0]).toMatchObject({
    envelope: {
      reversePath: 'Clerk@example.com',
      recipients: expect.arrayContaining(['Hidden@partner.test']) as object,
    },
    ofDoor: [],
  });
});

test('what looks like a report and is none stands for itself', async () => {
  const { copies } = await copy(journalReport.replace('message/rfc822', 'text/rfc822-headers'), { from: '' });
  expect(copies[0]?.fields.map(({ name }) => name)).toContain('X-MS-Journal-Report');
});

test('a copy can reach neither the pipeline that keeps messages nor the spool: it does not compile', () => {
  expectTypeOf<ShadowCopy>().not.toExtend<Submission>();
  expectTypeOf<ShadowCopy>().not.toExtend<Parameters<Submit>[0]>();
  expectTypeOf<ShadowCopy>().not.toExtend<Parameters<SpoolDoors['add']>[0]>();
  expectTypeOf<RefusalFacts>().not.toExtend<Parameters<SpoolDoors['add']>[0]>();
  const send = (submit: Submit, one: ShadowCopy) =>
    // @ts-expect-error a copy is no submission
    submit(one);
  expect(send).toBeTypeOf('function');
});
