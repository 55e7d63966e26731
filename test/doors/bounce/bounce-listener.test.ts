// The bounce listener of a running gateway: what it takes, what it refuses, and what reports do (D26, D29, D40a, D51).

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type BounceGateway,
  complaint,
  deliveryReport,
  type SentMessage,
  startBounceGateway,
} from '../../support/bounce-gateway.ts';

let gateway: BounceGateway;

beforeAll(async () => {
  gateway = await startBounceGateway((config) => {
    config.accounts[0]?.sendingDomains.push({ name: 'own.example', returnPathDomain: 'b.own.example' });
  });
}, 60_000);

afterAll(() => gateway.postern.cleanUp());

const failed = ['Action: failed', 'Status: 5.1.1', 'Diagnostic-Code: smtp; 550 5.1.1 no such user'];

/** A member of the log lines of one kind about a message. */
function told(msg: string, { id }: SentMessage, member: string): readonly unknown[] {
  return gateway
    .logged(msg)
    .filter((line) => line['id'] === id)
    .map((line) => line[member]);
}

test('a hard bounce suppresses its recipient, is told in the log and counted, and mail to it is refused from then on', async () => {
  const sent = await gateway.send(['gone@example.net', 'there@example.net']);
  expect(await gateway.report(sent.reversePath, deliveryReport(['gone@example.net'], failed))).toMatchObject({
    code: 250,
  });
  await expect.poll(() => gateway.suppressed()).toEqual(['gone@example.net hard_bounce']);
  const { result } = await gateway.api('GET', '/email/sending/suppressions');
  expect(result).toMatchObject([{ note: `reported: 5.1.1 550 5.1.1 no such user (message ${sent.id})` }]);
  await expect.poll(() => told('suppressed', sent, 'source')).toEqual(['bounced']);
  expect(gateway.logged('bounced')).toMatchObject([
    { id: sent.id, recipient: 'gone@example.net', class: 'hard', rule: 'no-such-user', reportingMta: 'mx.example.net' },
  ]);
  expect(gateway.logged('suppressed')).toMatchObject([{ recipient: 'gone@example.net', source: 'bounced' }]);
  const metrics = await gateway.metrics();
  expect(metrics.get('postern_bounces_total{class="hard"}')).toBe(1);
  expect(metrics.get('postern_reports_total{result="counted"}')).toBe(1);
  expect(metrics.get('postern_suppressed_total{source="bounced"}')).toBe(1);
  const again = await gateway.api('POST', '/email/sending/send', {
    ...{ from: 'alice@example.com', to: ['gone@example.net'], subject: 's', text: 't' },
  });
  expect(again.status).toBe(400);
  await gateway.api('DELETE', `/email/sending/suppressions/${(result as { id: string }[])[0]?.id}`);
  // The same report once more, in another spelling of the address, says nothing new.
  const replayed = deliveryReport(['GONE@Example.NET'], failed);
  expect(await gateway.report(sent.reversePath.toUpperCase(), replayed)).toMatchObject({ code: 250 });
  await gateway.postern.until(() =>
    gateway.logged('report without effect').find(({ result }) => result === 'repeated'),
  );
  expect(gateway.logged('bounced')).toHaveLength(1);
  expect(await gateway.suppressed()).toEqual([]);
});

test('soft bounces, refusals by policy, delays and confirmations suppress nobody', async () => {
  const sent = await gateway.send(['soft@example.net']);
  for (const fields of [
    ['Action: failed', 'Status: 5.2.2'],
    ['Action: failed', 'Status: 5.7.1', 'Diagnostic-Code: smtp; 550 5.7.1 spam'],
    ['Action: delayed', 'Status: 4.4.1'],
    ['Action: delivered', 'Status: 2.0.0'],
  ]) {
    expect(await gateway.report(sent.reversePath, deliveryReport(['soft@example.net'], fields))).toMatchObject({
      code: 250,
    });
  }
  // The delay is soft like the full mailbox: of each class, one is counted.
  await expect.poll(() => told('report without effect', sent, 'result')).toEqual(['repeated', 'confirmed']);
  expect(told('bounced', sent, 'class')).toEqual(['soft', 'policy']);
  expect(await gateway.suppressed()).toEqual([]);
});

test('who is no recipient of the message is never suppressed, also by the token of another message', async () => {
  const [mine, other] = [await gateway.send(['mine@example.net']), await gateway.send(['other@example.net'])];
  const forged = deliveryReport(['other@example.net', 'victim@example.net'], failed);
  expect(await gateway.report(mine.reversePath, forged)).toMatchObject({ code: 250 });
  await expect.poll(() => told('report without effect', mine, 'result')).toEqual(['unmatched']);
  const both = deliveryReport(['victim@example.net', 'other@example.net'], failed);
  await gateway.report(other.reversePath, both);
  await expect.poll(() => gateway.suppressed()).toEqual(['other@example.net hard_bounce']);
});

test('only recipients whose token is ours are taken', async () => {
  const sent = await gateway.send(['someone@example.net']);
  const [local = '', domain = ''] = sent.reversePath.split('@');
  const forged = `${local.slice(0, 45)}${local[45] === 'a' ? 'b' : 'a'}${local.slice(46)}`;
  const client = await gateway.connect();
  await client.command('MAIL FROM:<anybody@elsewhere.example>');
  for (const wrong of [
    ...[`${forged}@${domain}`, `${local}@example.com`, `${local}x@${domain}`, `b+@${domain}`, `someone@${domain}`],
    ...[`b+${sent.feedbackId}@${domain}`, `postmaster@example.com`, `fbl@example.com`, `alice@example.com`],
  ]) {
    expect(await client.command(`RCPT TO:<${wrong}>`), wrong).toMatchObject({ code: 550 });
  }
  expect(await client.command('DATA')).toMatchObject({ code: 554 });
  for (const right of [sent.reversePath, sent.reversePath.toUpperCase(), `${local}@b.own.example`]) {
    await client.command('RSET');
    await client.command('MAIL FROM:<>');
    expect((await client.command(`RCPT TO:<${right}>`)).lines, right).toEqual(['250 2.1.5 Ok']);
  }
  expect(await client.command(`RCPT TO:<fbl@${domain}>`)).toMatchObject({ code: 452 });
  expect(await client.command('AUTH PLAIN AGEAYg==')).toMatchObject({ code: 502 });
  client.close();
  const metrics = await gateway.metrics();
  expect(metrics.get('postern_bounce_recipients_refused_total{reason="unknown"}')).toBe(9);
});

test('mail to postmaster of the bounce domain is kept for people to read, and is no report (RFC 5321 §4.5.1)', async () => {
  const sent = await gateway.send(['about@example.net']);
  const domain = sent.reversePath.split('@')[1] ?? '';
  const report = deliveryReport(['about@example.net'], failed);
  for (const recipient of [`postmaster@${domain}`, `PostMaster@${domain}`, 'postmaster@b.own.example', 'Postmaster']) {
    expect(await gateway.report(recipient, report, 'them@elsewhere.example'), recipient).toMatchObject({ code: 250 });
  }
  const folder = join(gateway.postern.dataDir, 'postmaster', 'new');
  const kept = readdirSync(folder).map((file) => readFileSync(join(folder, file), 'latin1'));
  expect(kept).toHaveLength(4);
  expect(kept[0]).toMatch(/^Return-Path: <them@elsewhere\.example>\r\n/);
  expect(kept[0]).toContain('Final-Recipient: rfc822; about@example.net');
  await expect.poll(() => gateway.logged('mail for the postmaster')).toHaveLength(4);
  expect(await gateway.suppressed()).not.toContain('about@example.net hard_bounce');
  const metrics = await gateway.metrics();
  expect(metrics.get('postern_reports_total{result="postmaster"}')).toBe(4);
  // Where nobody reads, more is put off.
  for (let file = 4; file < 500; file += 1) writeFileSync(join(folder, `${file}.eml`), '');
  expect(await gateway.report(`postmaster@${domain}`, report)).toMatchObject({ code: 452 });
  expect(readdirSync(folder)).toHaveLength(500);
  expect(await gateway.report(sent.reversePath, report)).toMatchObject({ code: 250 });
});

test('it offers STARTTLS and no AUTH, and its own size', async () => {
  const client = await gateway.connect();
  const { lines } = await client.command('EHLO again.example');
  expect(lines).toContain('250 STARTTLS');
  expect(lines).toContain('250-SIZE 1048576');
  expect(lines.join('\n')).not.toContain('AUTH');
  expect(await client.command('MAIL FROM:<> SIZE=1048577')).toMatchObject({ code: 552 });
  client.close();
});

test('a message over the limit is refused, and the session goes on', async () => {
  const sent = await gateway.send(['large@example.net']);
  const client = await gateway.connect();
  for (const line of ['MAIL FROM:<>', `RCPT TO:<${sent.reversePath}>`, 'DATA']) await client.command(line);
  const reply = await client.command(`Subject: large\r\n\r\n${`${'x'.repeat(998)}\r\n`.repeat(1100)}.`);
  expect(reply.lines[0]).toBe('552 5.3.4 The message is larger than the limit of 1048576 octets');
  expect(await client.command('NOOP')).toMatchObject({ code: 250 });
  client.close();
});

test('a complaint counts by the CFBL-Feedback-ID of its message, wherever it stands; any other is refused', async () => {
  const [sent, next] = [await gateway.send(['cross@example.net']), await gateway.send(['angry@example.net'])];
  const fbl = `fbl@${sent.reversePath.split('@')[1]}`;
  expect(await gateway.report(fbl, complaint(sent.raw), 'fbl@mx.example.net')).toMatchObject({ code: 250 });
  const field = complaint('Subject: redacted\n\n', [`CFBL-Feedback-ID: ${next.feedbackId}`]);
  expect(await gateway.report(fbl, field)).toMatchObject({ code: 250 });
  await expect
    .poll(() => gateway.suppressed())
    .toEqual(expect.arrayContaining(['cross@example.net complaint', 'angry@example.net complaint']));
  await expect.poll(() => gateway.logged('complained').length).toBe(2);
  expect(gateway.logged('complained')).toMatchObject([
    { id: sent.id, recipient: 'cross@example.net', feedbackType: 'abuse', userAgent: 'Reporter/1.0' },
    { id: next.id, recipient: 'angry@example.net' },
  ]);
  const token = sent.reversePath.slice(2, sent.reversePath.indexOf('@'));
  for (const wrong of [
    complaint('Subject: nothing\n\n'),
    complaint('Subject: nothing\n\n', [`CFBL-Feedback-ID: ${token}`]),
    deliveryReport(['cross@example.net'], failed),
  ]) {
    expect((await gateway.report(fbl, wrong)).lines[0]).toMatch(/^554 5\.7\.1 /);
  }
});

test('of a message to several, a complaint that names none of them suppresses nobody', async () => {
  const sent = await gateway.send(['one-of-two@example.net', 'two-of-two@example.net']);
  const after = await gateway.send(['next-one@example.net']);
  const fbl = `fbl@${sent.reversePath.split('@')[1]}`;
  for (const { feedbackId } of [sent, after])
    for (const returned of [
      'Subject: redacted\n\n',
      'To: One <one-of-two@example.net>\nCc: two-of-two@example.net\n\n',
    ])
      await gateway.report(fbl, complaint(returned, [`CFBL-Feedback-ID: ${feedbackId}`]));
  // They are dealt with in their order.
  await expect.poll(() => gateway.suppressed()).toContain('next-one@example.net complaint');
  await expect.poll(() => told('complained', sent, 'recipient')).toEqual([undefined]);
  expect((await gateway.suppressed()).filter((entry) => entry.includes('of-two@'))).toEqual([]);
});

test('absence notices, challenges and what people write are taken and do nothing', async () => {
  const sent = await gateway.send(['away@example.net']);
  const text = 'User unknown: away@example.net\n';
  for (const head of [
    'From: away@example.net\nSubject: Out of office\nAuto-Submitted: auto-replied\n',
    'From: away@example.net\nSubject: Please confirm your message\n',
    'From: away@example.net\nSubject: Re: Hello\n',
  ]) {
    expect(await gateway.report(sent.reversePath, `${head}\n${text}`)).toMatchObject({ code: 250 });
  }
  await expect.poll(() => told('report without effect', sent, 'result')).toEqual(['reply', 'reply', 'reply']);
  expect(told('bounced', sent, 'class')).toEqual([]);
});

test('one address that sends too many wrong recipients is sent away, and others are not', async () => {
  const count = async (): Promise<readonly number[]> => {
    const codes: number[] = [];
    for (let session = 0; session < 40; session += 1) {
      const client = await gateway.connect();
      await client.command('MAIL FROM:<>');
      client.write('RCPT TO:<nobody@example.com>\r\n'.repeat(10));
      for (let reply = 0; reply < 10; reply += 1) {
        const { code } = await client.reply();
        codes.push(code);
        if (code === 421) break;
      }
      client.close();
    }
    return codes;
  };
  const codes = await count();
  expect(codes.slice(0, 250).every((code) => code === 550)).toBe(true);
  expect(codes.at(-1)).toBe(421);
  const sent = await gateway.send(['after@example.net']);
  expect(await gateway.report(sent.reversePath, deliveryReport(['after@example.net'], failed))).toMatchObject({
    code: 250,
  });
});
