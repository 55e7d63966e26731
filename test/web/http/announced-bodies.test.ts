// Bodies that are announced and do not come: they cost no memory of their own, and a token has a share of such requests.

import { connect, type Socket } from 'node:net';
import { Type } from 'typebox';
import { expect, onTestFinished, test } from 'vitest';
import { BodyBudget, bodyCosts } from '../../../src/base/body-budget.ts';
import { succeed } from '../../../src/web/http/envelope.ts';
import type { V4Plugin } from '../../../src/web/http/v4-app.ts';
import { ask, startHttpApp } from '../../support/http-app.ts';

const mebibyte = 1_048_576;
const path = '/client/v4/accounts/dev/things';
const headers = { Authorization: 'Bearer dev-default', 'Content-Type': 'application/json' };

const things: V4Plugin = (app) => {
  app.post(
    '/accounts/:account_id/things',
    { config: { scope: 'email:send', bodyBytes: 9 * mebibyte }, schema: { body: Type.Unknown() } },
    async (request, reply) => succeed(reply, { octets: request.bodyOctets }),
  );
};

/** Announces a body of eight million octets and sends some of them. */
function announce(port: number, sent: string): { readonly socket: Socket; readonly answer: Promise<string> } {
  const socket = connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => undefined);
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\n${fields.join('')}Content-Length: 8000000\r\n\r\n${sent}`);
  return {
    socket,
    answer: new Promise((resolve) => socket.once('data', (octets) => resolve(octets.toString('latin1')))),
  };
}

test('a hundred bodies of eight million octets of which nine have come take no memory for the rest', async () => {
  const bodies = new BodyBudget(1024 * mebibyte);
  const { port } = await startHttpApp([things], { bodies });
  const before = process.memoryUsage().arrayBuffers;
  const all = Array.from({ length: 100 }, () => announce(port, '"12345678'));
  await expect.poll(() => bodies.held).toBe(100 * 32_768 * bodyCosts.http);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100 * mebibyte);
  for (const { socket } of all) socket.destroy();
  await expect.poll(() => bodies.held).toBe(0);
});

test('requests whose body has not begun hold their share too, and leave room for others', async () => {
  const step = 32_768 * bodyCosts.http;
  const bodies = new BodyBudget(10 * step + 2 * 8_028_160 * bodyCosts.http);
  const { port, base } = await startHttpApp([things], { bodies });
  const all = Array.from({ length: 12 }, () => announce(port, ''));
  await expect.poll(() => bodies.held / step + bodies.refusals.http).toBe(12);
  expect(bodies.refusals.http).toBeGreaterThan(0);
  expect(await Promise.race(all.map(({ answer }) => answer))).toMatch(/^HTTP\/1\.1 503 /);
  const small = await ask(base + path, { method: 'POST', headers, body: '"x"' });
  expect(small.status).toBe(200);
  for (const { socket } of all) socket.destroy();
  await expect.poll(() => bodies.held).toBe(0);
});

test.each([0, 1, 65_535, 65_536, 65_537, 600_000, 8_000_000])(
  'a body of %i octets in pieces is read whole',
  async (length) => {
    const { base } = await startHttpApp([things]);
    const text = JSON.stringify('x'.repeat(length));
    const pieces = (): ReadableStream<Uint8Array> =>
      new ReadableStream({
        start(controller) {
          for (let at = 0; at < text.length; at += 50_001) controller.enqueue(Buffer.from(text.slice(at, at + 50_001)));
          controller.close();
        },
      });
    const known = await ask(base + path, { method: 'POST', headers, body: text });
    const init: RequestInit = { method: 'POST', headers, body: pieces(), duplex: 'half' };
    const unknown = await fetch(base + path, init);
    const result = { octets: text.length };
    expect([known.json.result, await unknown.json()]).toMatchObject([result, { result }]);
  },
);
