// The live stream of a running gateway: it ends with what let it in, and clients that come and go leave no place taken.

import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { PosternHere } from '../support/postern-here.ts';
import { testToken } from '../support/postern-process.ts';
import { type Reloadable, startReloadableHere } from '../support/reloadable.ts';

let postern: PosternHere;
let gateway: Reloadable<PosternHere>;
let base = '';
beforeAll(async () => {
  gateway = await startReloadableHere();
  ({ postern } = gateway);
  base = `http://127.0.0.1:${postern.ports['http']}`;
}, 60_000);
afterAll(async () => postern.cleanUp());

type Headers = Readonly<Record<string, string>>;
const asAdmin: Headers = { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' };
const live = '/client/v4/accounts/dev/email/sending/live';

async function makeToken(): Promise<{ readonly id: string; readonly token: string }> {
  const body = JSON.stringify({ credential: 'default', scopes: ['console:read'] });
  const made = await fetch(`${base}/client/v4/accounts/dev/tokens`, { method: 'POST', headers: asAdmin, body });
  return ((await made.json()) as { result: { id: string; token: string } }).result;
}

async function signIn(token: string): Promise<Headers> {
  const page = { 'X-Postern-Console': '1', Origin: base, 'Content-Type': 'application/json' };
  const body = JSON.stringify({ token });
  const answer = await fetch(`${base}/console/session`, { method: 'POST', headers: page, body });
  return { 'X-Postern-Console': '1', Origin: base, Cookie: answer.headers.getSetCookie()[0]?.split(';')[0] ?? '' };
}

/** Opens a stream. @returns a promise of its end */
async function watch(headers: Headers): Promise<{ readonly status: number; readonly ended: Promise<string> }> {
  const answer = await fetch(`${base}${live}`, { headers });
  return { status: answer.status, ended: answer.text() };
}

const stillOpen = Symbol('still open');
async function orOpen(ended: Promise<string>): Promise<string | typeof stillOpen> {
  return await Promise.race([ended, new Promise<typeof stillOpen>((done) => setTimeout(done, 20_000, stillOpen))]);
}

test('a stream ends when its session is signed out, and when its token is revoked', { timeout: 60_000 }, async () => {
  const [signedOut, revoked] = [await makeToken(), await makeToken()];
  const page = await signIn(signedOut.token);
  const streams = [
    await watch(page),
    await watch(await signIn(revoked.token)),
    await watch({ Authorization: `Bearer ${revoked.token}` }),
  ];
  const other = await watch(asAdmin);
  expect([...streams, other].map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  await fetch(`${base}/console/session`, { method: 'DELETE', headers: page });
  await fetch(`${base}/client/v4/accounts/dev/tokens/${revoked.id}`, { method: 'DELETE', headers: asAdmin });
  const ends = await Promise.all(streams.map(({ ended }) => orOpen(ended)));
  expect(ends).toEqual(streams.map(() => expect.stringContaining('retry: 2000')));
  // Whoever may go on is not disturbed, and no wrong login is counted.
  expect(await Promise.race([other.ended, Promise.resolve('open')])).toBe('open');
  expect(postern.output()).not.toContain('authentication failed');
});

test('clients that go away at once, and HEAD, leave no place taken', { timeout: 60_000 }, async () => {
  const head = `Host: 127.0.0.1:${postern.ports['http']}\r\nAuthorization: Bearer ${testToken}\r\nLast-Event-ID: 0\r\n`;
  for (const method of ['GET', 'HEAD']) {
    for (let round = 0; round < 30; round += 1) {
      const socket = connect(postern.ports['http'] ?? 0, '127.0.0.1');
      await once(socket, 'connect');
      socket.on('error', () => undefined);
      socket.write(`${method} ${live} HTTP/1.1\r\n${head}\r\n`);
      if (round % 3 === 0) await new Promise((done) => setTimeout(done, round));
      if (round % 2 === 0) socket.resetAndDestroy();
      else socket.destroy();
    }
  }
  await vi.waitFor(
    async () => {
      const opened = await Promise.all(Array.from({ length: 15 }, () => fetch(`${base}${live}`, { headers: asAdmin })));
      for (const { body } of opened) await body?.cancel();
      expect(opened.map(({ status }) => status)).toEqual(opened.map(() => 200));
    },
    { timeout: 10_000, interval: 500 },
  );
  const asked = await fetch(`${base}${live}`, {
    method: 'HEAD',
    headers: asAdmin,
    signal: AbortSignal.timeout(10_000),
  });
  expect(asked.status).toBe(405);
});

test('a client that missed a lot is told to read the list anew, and gets what it missed where that is less', async () => {
  const headers = Object.fromEntries(
    Array.from({ length: 20 }, (_, at) => [`X-${'long'.repeat(23)}-${at}\u0001`, 'x']),
  );
  const body = JSON.stringify({ from: 'shop@example.com', to: 'a@partner.test', subject: 'x', text: 'x', headers });
  const send = async (): Promise<void> => {
    const path = '/client/v4/accounts/dev/email/sending/send';
    expect((await fetch(`${base}${path}`, { method: 'POST', headers: asAdmin, body })).status).toBe(400);
  };
  for (let round = 0; round < 10; round += 1) await Promise.all(Array.from({ length: 15 }, send));
  await vi.waitFor(
    async () => {
      const path = '/client/v4/accounts/dev/email/sending/journal?per_page=100';
      const answer = await fetch(`${base}${path}&cursor=999999999`, { headers: asAdmin });
      const { result } = (await answer.json()) as { result: readonly { fields: readonly string[] }[] };
      expect(result).toHaveLength(100);
      expect(JSON.stringify(result).length).toBeGreaterThan(200_000);
    },
    { timeout: 10_000, interval: 200 },
  );
  /** Reads a stream from an event on, until it has told something. */
  const told = async (after: number): Promise<string> => {
    const answer = await fetch(`${base}${live}`, { headers: { ...asAdmin, 'Last-Event-ID': `${after}` } });
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!/event: (?:row|reset)\n/.test(text)) text += (await reader?.read())?.value ?? '';
    await reader?.cancel();
    return text;
  };
  expect(await told(0)).toContain('event: reset\n');
  const newest = await fetch(`${base}/client/v4/accounts/dev/email/sending/events`, { headers: asAdmin });
  const [{ id }] = ((await newest.json()) as { result: [{ id: string }] }).result;
  expect(await told(Number(id) - 3)).toContain('event: row\n');
});

test('streams of sessions end where a reload turns the console off', { timeout: 60_000 }, async () => {
  const { token } = await makeToken();
  const ofSession = await watch(await signIn(token));
  const ofToken = await watch({ Authorization: `Bearer ${token}` });
  expect([ofSession.status, ofToken.status]).toEqual([200, 200]);
  gateway.change((config) => {
    config['console'] = { enabled: false };
  });
  expect((await gateway.reload()).code).toBe(0);
  expect(await orOpen(ofSession.ended)).toContain('retry: 2000');
  expect(await Promise.race([ofToken.ended, Promise.resolve('open')])).toBe('open');
});
