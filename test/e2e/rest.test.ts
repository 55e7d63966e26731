// REST, end to end with the shipped configuration: into the capture folder, signed; a key over a crash; the documents.

import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { simpleParser } from 'mailparser';
import { afterEach, expect, test } from 'vitest';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { ask, type HttpAnswer } from '../support/http-app.ts';
import { startHere } from '../support/postern-here.ts';
import {
  type PosternProcess,
  projectRoot,
  type RunningPostern,
  startPostern,
  testToken,
} from '../support/postern-process.ts';
import { shippedConfig } from '../support/reloadable.ts';
import { isOnPostgres, soonTakenOver } from '../support/store.ts';

const running: RunningPostern[] = [];
afterEach(async () => {
  for (const postern of running.splice(0).toReversed()) await postern.cleanUp();
});

async function start(options: Parameters<typeof startPostern>[0] = {}): Promise<PosternProcess> {
  const postern = await startPostern(options);
  running.push(postern);
  return postern;
}

function send(
  postern: RunningPostern,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<HttpAnswer> {
  return ask(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
}

const message = {
  from: 'Shop <shop@example.com>',
  to: 'a@partner.test',
  subject: 'Grüße',
  text: 'Hi.',
  html: '<p>Hi.</p>',
};

test('a message is captured, signed, logged under its Ray-ID, and Prefer tells that it is delivered', async () => {
  const postern = await start();
  const answer = await send(
    postern,
    { ...message, headers: { 'list-unsubscribe': '<https://example.com/u>' } },
    { Prefer: 'wait=20' },
  );
  expect(answer.json.result).toMatchObject({ delivered: ['a@partner.test'], permanent_bounces: [], queued: [] });
  const [raw = Buffer.alloc(0)] = postern.captured();
  const { message_id: id } = answer.json.result as { message_id: string };
  expect(raw.toString('latin1')).toContain(`\r\nMessage-ID: <${id}>\r\n`);
  const parsed = await simpleParser(raw);
  expect([parsed.subject, parsed.text?.trim(), parsed.html]).toEqual(['Grüße', 'Hi.', '<p>Hi.</p>']);
  const verdicts = await verifySignatures(raw, dkimRecords(postern.certsDir));
  expect(verdicts.map(({ domain, selector, result }) => `${domain} ${selector} ${result}`).sort()).toEqual([
    'example.com e1 pass',
    'example.com s1 pass',
    'platform.example p1 pass',
  ]);
  const ray = answer.headers.get('ray-id');
  for (const line of ['accepted', 'delivered', 'request']) {
    const found = await postern.until(() => postern.log().find(({ msg }) => msg === line));
    expect([line, found['session']]).toEqual([line, ray]);
  }
  expect(postern.output()).not.toContain(testToken);
  expect(postern.output()).not.toContain('Hi.');
});

test('a key outlives a crash, and a drained process finishes its answers', async () => {
  const options = isOnPostgres ? { config: { ...shippedConfig(), ...soonTakenOver } } : {};
  const first = await start(options);
  const key = { 'Idempotency-Key': 'crash-1' };
  const before = await send(first, message, key);
  expect(before.status).toBe(200);
  await first.end('SIGKILL');
  const second = await start({ ...options, folder: first.folder });
  const after = await send(second, message, key);
  expect([after.status, after.text]).toEqual([200, before.text]);
  expect((await send(second, { ...message, text: 'Else.' }, key)).status).toBe(422);
  await second.until(() => second.captured().length > 0);
  expect(second.captured()).toHaveLength(1);
  expect(await second.end('SIGTERM')).toBe(0);
});

test('SIGTERM ends a wait for outcomes with what is known', async () => {
  // A next hop that never says a word: nothing is known of the recipient before the wait is over.
  const silent = createServer(() => undefined);
  const port = await new Promise<number>((resolve) => {
    silent.listen(0, '127.0.0.1', () => {
      const address = silent.address();
      resolve(typeof address === 'object' && address ? address.port : 0);
    });
  });
  const postern = await start({ env: { POSTERN_RELAY: `smtp://127.0.0.1:${port}` } });
  const waiting = send(postern, message, { Prefer: 'wait=30' });
  await postern.until(() => postern.log().some(({ msg }) => msg === 'accepted'));
  const ended = postern.end('SIGTERM');
  expect((await waiting).json.result).toMatchObject({ delivered: [], queued: ['a@partner.test'] });
  expect(await ended).toBe(0);
  silent.close();
});

test('docs/openapi.json is what the server serves, and every reference in it and in /docs leads somewhere', async () => {
  const postern = await startHere();
  running.push(postern);
  const base = `http://127.0.0.1:${postern.ports['http']}`;
  const served = await ask(`${base}/openapi.json`);
  const file = join(projectRoot, 'docs/openapi.json');
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, served.text);
  const command = 'UPDATE_DOCS=1 npx vitest run --project unit test/e2e/rest.test.ts';
  expect(
    readFileSync(file, 'utf8') === served.text,
    `docs/openapi.json is out of date; write it anew with: ${command}`,
  ).toBe(true);
  const document = JSON.parse(served.text) as { openapi: string; paths: object; components: { schemas: object } };
  expect(document.openapi).toBe('3.1.0');
  const sending = '/client/v4/accounts/{account_id}/email/sending';
  for (const name of ['send', 'send_raw', 'validate'])
    expect(document.paths).toHaveProperty([`${sending}/${name}`, 'post']);
  for (const [, name = ''] of served.text.matchAll(/"\$ref": "#\/components\/schemas\/(\w+)"/g)) {
    expect(Object.keys(document.components.schemas)).toContain(name);
  }
  const page = await ask(`${base}/docs`);
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  const links = [...page.text.matchAll(/href="([^"]+)"/g)].map(([, link = '']) => link);
  expect(links.length).toBeGreaterThan(300);
  const ids = new Set([...page.text.matchAll(/ id="([^"]+)"/g)].map(([, id]) => `#${id}`));
  expect(links.filter((link) => link.startsWith('#') && !ids.has(link))).toEqual([]);
  for (const link of new Set(links.filter((each) => !/^#|^data:/.test(each)))) {
    expect([link, (await ask(new URL(link, `${base}/docs`).href)).status]).toEqual([link, 200]);
  }
});
