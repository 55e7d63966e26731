// Request bodies where there is no room in memory: 503 with Retry-After, and the room given back on every way out.

import { connect } from 'node:net';
import { Type } from 'typebox';
import { afterEach, expect, test } from 'vitest';
import { BodyBudget } from '../../../src/base/body-budget.ts';
import { succeed } from '../../../src/web/http/envelope.ts';
import type { V4Plugin } from '../../../src/web/http/v4-app.ts';
import { ask, httpAccounts, startHttpApp } from '../../support/http-app.ts';

const mebibyte = 1_048_576;
const path = '/client/v4/accounts/dev/things';

let bodies: BodyBudget = new BodyBudget(0);
let work: Promise<void> = Promise.resolve();
afterEach(async () => {
  work = Promise.resolve();
  await expect.poll(() => bodies.held).toBe(0);
});

const things: V4Plugin = (app) => {
  app.post(
    '/accounts/:account_id/things',
    { config: { scope: 'email:send', bodyBytes: 8 * mebibyte }, schema: { body: Type.Unknown() } },
    async (_request, reply) => {
      await work;
      return succeed(reply, null);
    },
  );
};

async function start(): Promise<{ readonly base: string; readonly port: number }> {
  bodies = new BodyBudget(32 * mebibyte);
  return await startHttpApp([things], { bodies });
}

const headers = { Authorization: 'Bearer dev-default', 'Content-Type': 'application/json' };
const body = JSON.stringify('x'.repeat(3 * mebibyte));

function post(url: string): ReturnType<typeof ask> {
  return ask(url, { method: 'POST', headers, body });
}

test('a body without room is 503 with Retry-After before it is read, and passes later', async () => {
  const { base } = await start();
  const hold = bodies.open({ door: 'smtp', account: 'other', address: '192.0.2.1' });
  hold.grow(8 * mebibyte);
  const refused = await post(base + path);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '10']);
  expect(refused.json.errors).toEqual([
    { code: 10003, message: 'E_NO_ROOM: Too much mail is under way, try again later' },
  ]);
  expect(bodies.refusals).toEqual({ smtp: 0, http: 1 });
  hold.release();
  expect((await post(base + path)).status).toBe(200);
});

test.each([
  { account: 'dev', credential: 'watcher', mebibytes: 8, status: 503 },
  { account: 'dev', credential: 'watcher', mebibytes: 6, status: 200 },
  { account: 'dev', credential: 'default', mebibytes: 6, status: 503 },
  { account: 'other', credential: 'default', mebibytes: 8, status: 200 },
])(
  '$mebibytes MiB of $account with $credential elsewhere: $status',
  async ({ account, credential, mebibytes, status }) => {
    const { base } = await start();
    const { id = '' } = httpAccounts.find(({ name }) => name === account) ?? {};
    const hold = bodies.open({ door: 'smtp', account: id, credential, address: '192.0.2.1' });
    hold.grow(mebibytes * mebibyte);
    expect((await ask(base + path, { method: 'POST', headers, body: '1' })).status).toBe(status);
    hold.release();
  },
);

/** The head of a request whose body comes in chunks. */
const chunked = `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer dev-default\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;

test('one of unknown length is refused where the room ends', async () => {
  const { port } = await start();
  const hold = bodies.open({ door: 'smtp', account: 'other', address: '192.0.2.1' });
  hold.grow(8 * mebibyte);
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(`${chunked}300000\r\n${body.slice(0, 3 * mebibyte)}`);
  const answer = await new Promise<string>((resolve) => {
    socket.once('data', (data: Buffer) => resolve(data.toString('latin1')));
  });
  expect(answer).toMatch(/^HTTP\/1\.1 503 /);
  expect(answer).toMatch(/\r\nretry-after: 10\r\n/i);
  socket.destroy();
  hold.release();
});

test('a client that goes away with half of its body gives the room back', async () => {
  const { port } = await start();
  const socket = connect(port, '127.0.0.1');
  socket.write(`${chunked}300000\r\n${body.slice(0, 2 * mebibyte)}`);
  await expect.poll(() => bodies.held).toBeGreaterThanOrEqual(8 * mebibyte);
  socket.resetAndDestroy();
  await expect.poll(() => bodies.held).toBe(0);
});

test('one that goes away while its request is worked on gives it back when that is done', async () => {
  const { port } = await start();
  let done: (() => void) | undefined;
  work = new Promise((resolve) => (done = resolve));
  const socket = connect(port, '127.0.0.1');
  const length = `Content-Length: ${body.length}`;
  socket.write(`${chunked.replace('Transfer-Encoding: chunked', length)}${body}`);
  await expect.poll(() => bodies.held).toBeGreaterThanOrEqual(12 * mebibyte);
  socket.resetAndDestroy();
  await new Promise((wait) => setTimeout(wait, 100));
  expect(bodies.held).toBeGreaterThanOrEqual(12 * mebibyte);
  done?.();
  await expect.poll(() => bodies.held).toBe(0);
});

test('one that has gone before its body is read gives the room back', async () => {
  bodies = new BodyBudget(32 * mebibyte);
  const slow: V4Plugin = (app) => {
    app.addHook('onRequest', ({ raw }, _reply, done) => void raw.once('close', () => done()));
    things(app);
  };
  const { port } = await startHttpApp([slow], { bodies });
  const socket = connect(port, '127.0.0.1');
  socket.write(`${chunked}3\r\n`);
  await expect.poll(() => bodies.held).toBeGreaterThan(0);
  socket.resetAndDestroy();
  await expect.poll(() => bodies.held).toBe(0);
});
