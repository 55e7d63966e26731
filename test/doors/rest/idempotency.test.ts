// Idempotency-Key: one message a key, with two requests at once, after a restart, and after a crash (D48).

import { expect, test } from 'vitest';
import { clockOf } from '../../support/manual-clock.ts';
import { goodMessage, startRest } from '../../support/rest-gateway.ts';
import { scratchFolder } from '../../support/scratch.ts';

const key = { headers: { 'Idempotency-Key': 'order-4711' } };

test('the same body gets the same answer and makes one message; another body is 422', async () => {
  const rest = await startRest();
  const first = await rest.post('send', goodMessage, key);
  const again = await rest.post('send', goodMessage, key);
  expect([first.status, again.status, again.text]).toEqual([200, 200, first.text]);
  expect([first.headers.get('idempotent-replayed'), again.headers.get('idempotent-replayed')]).toEqual([null, 'true']);
  const other = await rest.post('send', { ...goodMessage, text: 'Another.' }, key);
  expect([other.status, other.json.errors[0]?.code]).toEqual([422, 10001]);
  expect(other.json.errors[0]?.message).toMatch(/^E_IDEMPOTENCY_CONFLICT: /);
  const elsewhere = await rest.post('send_raw', goodMessage, key);
  expect(elsewhere.status).toBe(422);
  expect(await rest.queued()).toBe(1);
});

test('of many requests at once one sends; the others are 409 or get its answer', async () => {
  const rest = await startRest();
  const answers = await Promise.all(Array.from({ length: 8 }, () => rest.post('send', goodMessage, key)));
  const sent = answers.filter(({ status }) => status === 200);
  expect(new Set(sent.map(({ text }) => text)).size).toBe(1);
  for (const { status, json } of answers) {
    if (status === 200) continue;
    expect([status, json.errors[0]?.code]).toEqual([409, 10001]);
    expect(json.errors[0]?.message).toMatch(/^E_IDEMPOTENCY_CONFLICT: /);
  }
  expect(await rest.queued()).toBe(1);
});

test('many repetitions at once of what was sent already all get its answer, and one of another body is 422', async () => {
  const rest = await startRest();
  const first = await rest.post('send', goodMessage, key);
  const other = { ...goodMessage, text: 'Another.' };
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, index) => rest.post('send', index === 5 ? other : goodMessage, key)),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 12 }, (_, at) => (at === 5 ? 422 : 200)));
  expect(new Set(answers.filter((_, at) => at !== 5).map(({ text }) => text))).toEqual(new Set([first.text]));
  expect(await rest.queued()).toBe(1);
});

test('a refused request does not use its key up', async () => {
  const rest = await startRest();
  expect((await rest.post('send', { ...goodMessage, headers: { Date: 'x' } }, key)).status).toBe(400);
  expect((await rest.post('send', goodMessage, key)).status).toBe(200);
});

test('a key is an account’s own', async () => {
  const rest = await startRest();
  const other = { ...goodMessage, from: 'a@slow.example' };
  expect((await rest.post('send', goodMessage, key)).status).toBe(200);
  expect((await rest.post('send', other, { ...key, account: 'slow' })).status).toBe(200);
  // The answer is repeated without being charged: the account may send one message a minute.
  expect((await rest.post('send', other, { ...key, account: 'slow' })).status).toBe(200);
  expect(await rest.queued()).toBe(2);
});

test('requests of two accounts with the same key do not wait for each other, nor get each other’s answer', async () => {
  const rest = await startRest();
  const other = { ...goodMessage, from: 'a@slow.example' };
  const answers = await Promise.all([
    rest.post('send', goodMessage, key),
    rest.post('send', other, { ...key, account: 'slow' }),
  ]);
  expect(answers.map(({ status, headers }) => [status, headers.get('idempotent-replayed')])).toEqual([
    [200, null],
    [200, null],
  ]);
  const again = await Promise.all([
    rest.post('send', goodMessage, key),
    rest.post('send', other, { ...key, account: 'slow' }),
  ]);
  expect(again.map(({ status, text }) => [status, text])).toEqual(answers.map(({ text }) => [200, text]));
  expect(answers[0]?.text).not.toBe(answers[1]?.text);
  expect(await rest.queued()).toBe(2);
});

test('it holds for 24 hours', async () => {
  let now = Date.UTC(2026, 0, 1);
  const rest = await startRest({ clock: clockOf(() => now) });
  const first = await rest.post('send', goodMessage, key);
  now += 24 * 3600 * 1000 - 1;
  expect((await rest.post('send', goodMessage, key)).text).toBe(first.text);
  now += 1;
  const later = await rest.post('send', { ...goodMessage, text: 'Another.' }, key);
  expect(later.status).toBe(200);
  expect((await rest.post('send', { ...goodMessage, text: 'Another.' }, key)).text).toBe(later.text);
  expect(await rest.queued()).toBe(2);
});

test('it holds over a restart, also when nobody has heard the answer', async () => {
  const folder = scratchFolder();
  const before = await startRest({ folder });
  const first = await before.post('send', goodMessage, key);
  const after = await startRest({ folder });
  const again = await after.post('send', goodMessage, key);
  expect(again.text).toBe(first.text);
  expect(await after.queued()).toBe(1);
});

test('what was told of the recipients is told again', async () => {
  const rest = await startRest({
    onAccepted: ({ sessionId, recipients }, outcomes) => {
      for (const recipient of recipients) setImmediate(() => outcomes.tell(sessionId, recipient, 'delivered'));
    },
  });
  const waiting = { headers: { ...key.headers, Prefer: 'wait=30' } };
  const first = await rest.post('send', goodMessage, waiting);
  expect(first.json.result).toMatchObject({ delivered: ['you@example.net'], queued: [] });
  expect((await rest.post('send', goodMessage, waiting)).text).toBe(first.text);
  expect((await rest.post('send', goodMessage, key)).text).toBe(first.text);
});
