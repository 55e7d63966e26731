// A token for /metrics: who shows it reads, nobody else does.

import { expect, test } from 'vitest';
import { Guessing } from '../../../src/accounts/guessing.ts';
import { hashToken } from '../../../src/accounts/token-store.ts';
import { ask, startHttpApp } from '../../support/http-app.ts';

const token = 'scrape:me_0123456789!';
const metricsToken = { sha256: hashToken(token) };

function bearing(value: string): RequestInit {
  return { headers: { Authorization: value } };
}

test('the token is wanted for /metrics alone', async () => {
  const { base, app } = await startHttpApp([], { metricsToken });
  const none = await ask(`${base}/metrics`);
  expect([none.status, none.text, none.headers.get('www-authenticate')]).toEqual([
    401,
    'A bearer token is needed\n',
    'Bearer realm="postern"',
  ]);
  for (const value of [`Bearer ${token}`, `bearer  ${token}`]) {
    const answer = await ask(`${base}/metrics?x=y`, bearing(value));
    expect([answer.status, answer.text]).toEqual([200, 'up 1\n']);
  }
  expect((await ask(`${base}/metrics`, { method: 'HEAD', ...bearing(`Bearer ${token}`) })).status).toBe(200);
  expect((await ask(`${base}/metrics`, { method: 'HEAD' })).status).toBe(401);
  expect((await ask(`${base}/livez`)).status).toBe(200);
  expect(app.authFailures()).toBe(0);
});

test.each([
  `Bearer ${token}x`,
  `Bearer ${token.slice(0, -1)}`,
  `Bearer ${token} x`,
  `Bearer ${token.toUpperCase()}`,
  'Bearer dev-boss',
  `Bearer ${hashToken(token)}`,
  'Bearer ',
  token,
  `Basic ${Buffer.from(`x:${token}`).toString('base64')}`,
])('%s opens nothing', async (value) => {
  const { base, app } = await startHttpApp([], { metricsToken });
  const answer = await ask(`${base}/metrics`, bearing(value));
  expect([answer.status, answer.text]).toEqual([401, 'The token is wrong\n']);
  expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="postern", error="invalid_token"');
  expect(app.authFailures()).toBe(1);
});

test('a token that is named but not there opens nothing to anybody', async () => {
  const { base } = await startHttpApp([], { metricsToken: { sha256: undefined } });
  for (const value of ['Bearer undefined', 'Bearer x', `Bearer ${token}`]) {
    expect((await ask(`${base}/metrics`, bearing(value))).status).toBe(401);
  }
});

test('wrong ones are answered later and later, and turned away; the right one passes (D92)', async () => {
  const guessing = new Guessing({ firstDelayMs: 3_600_000, maxDelayMs: 3_600_000, pauseMs: 1 });
  const { base } = await startHttpApp([], { metricsToken, guessing });
  const guesses = Array.from({ length: 14 }, () => ask(`${base}/metrics`, bearing('Bearer guess')));
  await expect.poll(() => guessing.waiting).toBe(8);
  expect((await ask(`${base}/metrics`, bearing(`Bearer ${token}`))).status).toBe(200);
  const refused = await ask(`${base}/metrics`, bearing('Bearer guess'));
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '3600']);
  guessing.close();
  const statuses = (await Promise.all(guesses)).map(({ status }) => status);
  expect([401, 429].map((wanted) => statuses.filter((status) => status === wanted).length)).toEqual([13, 1]);
});
