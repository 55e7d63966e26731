// What the binding refuses before anything is sent: options that cannot work, by their name and rule.

import { afterEach, expect, test } from 'vitest';
import { createEmailBinding, type MessageFields, type SendOptions } from '../packages/binding/src/index.ts';
import { accepted, type ScriptedApi, startScriptedApi } from './support/scripted-api.ts';

const token = 'secret-token-0123456789';
const account = 'dev';
const message: MessageFields = { from: 'me@example.com', to: 'you@example.net', subject: 'Hi', text: 'Hello' };

let api: ScriptedApi | undefined;
afterEach(async () => {
  await api?.close();
  api = undefined;
});

/** Sends through a peer that would accept. */
async function sendTo(given: MessageFields, options?: SendOptions): Promise<void> {
  api = await startScriptedApi([accepted]);
  await createEmailBinding({ endpoint: api.endpoint, token, account }).send(given, options);
}

test.each([
  ['endpoint', { endpoint: 'mail.example' }],
  ['endpoint', { endpoint: 'smtp://mail.example' }],
  ['endpoint', { endpoint: 'http://user:hunter2@mail.example' }],
  ['token', { token: '' }],
  ['token', { token: 'hunter2\n' }],
  ['token', { token: 'hunter2 €' }],
  ['account', { account: '..' }],
  ['account', { account: 'a/b' }],
  ['account', { account: '' }],
  ['endpoint', { endpoint: undefined }],
  ['endpoint', { endpoint: 8080 }],
  ['endpoint', { endpoint: 'http://mail.example/?key=hunter2' }],
  ['endpoint', { endpoint: 'http://mail.example/#hunter2' }],
  ['token', { token: undefined }],
  ['token', { token: null }],
  ['token', { token: 12_345 }],
  ['token', { token: ['hunter2'] }],
  ['account', { account: undefined }],
  ['account', { account: 7 }],
  ['fetch', { fetch: 'fetch' }],
  ['fetch', { fetch: null }],
  ['timeoutMs', { timeoutMs: '5' }],
  ['timeoutMs', { timeoutMs: 0 }],
  ['timeoutMs', { timeoutMs: 0.5 }],
  ['timeoutMs', { timeoutMs: Number.NaN }],
  ['timeoutMs', { timeoutMs: Number.POSITIVE_INFINITY }],
  ['timeoutMs', { timeoutMs: 2_147_483_648 }],
])('%s that cannot work is refused at once, without quoting secrets', (name, options) => {
  const make = () => createEmailBinding({ endpoint: 'http://127.0.0.1:1', token, account, ...options } as never);
  expect(make).toThrow(TypeError);
  expect(make).toThrow(new RegExp(`^(?!.*hunter2)${name} must`));
});

test.each([[undefined], [null], ['http://127.0.0.1:1']])('%s in place of options is refused', (options) => {
  expect(() => createEmailBinding(options as never)).toThrow(new TypeError('options must be an object'));
});

test.each([[undefined], [null], ['text']])('%s in place of a message is refused', async (given) => {
  await expect(sendTo(given as never)).rejects.toThrow(new TypeError('message must be an object'));
  expect(api?.seen).toEqual([]);
});

test.each([
  [{ idempotencyKey: 4711 }],
  [{ signal: new AbortController() }],
  [null],
  [{ idempotencyKey: '' }],
  [{ idempotencyKey: 'a b' }],
  [{ idempotencyKey: 'k'.repeat(256) }],
  [{ wait: 31 }],
  [{ wait: -1 }],
  [{ wait: 1.5 }],
])('%o is refused before anything is sent', async (options) => {
  await expect(sendTo(message, options as never)).rejects.toThrow(TypeError);
  expect(api?.seen).toEqual([]);
});
