// The binding by environment: `env.EMAIL.send(...)` for programs that expect a binding object.

import { afterEach, expect, test, vi } from 'vitest';
import { bindEmail, type EmailBinding, emailFromEnv, type MessageFields } from '../packages/binding/src/index.ts';
import { accepted, type ScriptedApi, startScriptedApi } from './support/scripted-api.ts';

const message: MessageFields = { from: 'me@example.com', to: 'you@example.net', subject: 'Hi', text: 'Hello' };
const token = 'secret-token-0123456789';

let api: ScriptedApi | undefined;
afterEach(async () => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
  await api?.close();
  api = undefined;
});

async function start() {
  api = await startScriptedApi([accepted]);
  return { POSTERN_ENDPOINT: api.endpoint, POSTERN_TOKEN: token, POSTERN_ACCOUNT: 'dev' };
}

/** A program as it is written for a runtime that binds: it knows nothing of this package. */
const program = async (env: { readonly EMAIL: Pick<EmailBinding, 'send'>; readonly GREETING: string }) =>
  (await env.EMAIL.send({ ...message, text: env.GREETING })).messageId;

test('a program that expects a binding object gets one, beside what else it is given', async () => {
  const variables = { ...(await start()), GREETING: 'Good morning' };
  expect(await program(bindEmail(variables))).toBe('id-1@platform.example');
  expect(api?.seen[0]?.url).toBe('/client/v4/accounts/dev/email/sending/send');
  expect(api?.seen[0]?.headers.authorization).toBe(`Bearer ${token}`);
  expect(api?.seen[0]?.body.toString()).toContain('Good morning');
  expect(variables).not.toHaveProperty('EMAIL');
});

test('the binding may have another name and options', async () => {
  const urls: string[] = [];
  const fetch: typeof globalThis.fetch = (input, init) => {
    if (typeof input === 'string') urls.push(input);
    return globalThis.fetch(input, init);
  };
  const env = bindEmail(await start(), { name: 'MAIL', fetch });
  expect(env).not.toHaveProperty('EMAIL');
  expect(await env.MAIL.send(message)).toEqual({ messageId: 'id-1@platform.example' });
  expect(urls.length).toBe(1);
});

test('without an environment it is the process’s', async () => {
  for (const [name, value] of Object.entries(await start())) vi.stubEnv(name, value);
  await emailFromEnv().send(message);
  const env = bindEmail();
  await env.EMAIL.send(message);
  expect(api?.seen.length).toBe(2);
  expect(env['POSTERN_ACCOUNT']).toBe('dev');
});

test('an environment that is given is not completed from the process’s', async () => {
  for (const [name, value] of Object.entries(await start())) vi.stubEnv(name, value);
  expect(() => emailFromEnv({})).toThrow(/^POSTERN_ENDPOINT must be/);
});

test('in a runtime without processes an environment must be given', async () => {
  const variables = await start();
  vi.stubGlobal('process', undefined);
  expect(() => emailFromEnv()).toThrow(new TypeError('env must be given: this runtime has no process.env'));
  expect(() => emailFromEnv(variables)).not.toThrow();
});

test.each([
  ['POSTERN_ENDPOINT', undefined],
  ['POSTERN_ENDPOINT', 'mail.example'],
  ['POSTERN_TOKEN', undefined],
  ['POSTERN_TOKEN', ''],
  ['POSTERN_TOKEN', 'hunter2\n'],
  ['POSTERN_ACCOUNT', undefined],
  ['POSTERN_ACCOUNT', 'a/b'],
])('%s as %j is refused by its own name, without quoting secrets', async (name, value) => {
  const env = { ...(await start()), [name]: value };
  for (const make of [() => emailFromEnv(env), () => bindEmail(env)]) {
    expect(make).toThrow(TypeError);
    expect(make).toThrow(new RegExp(`^(?!.*hunter2)${name} must`));
  }
});

test('bad options are refused by name', async () => {
  const env = await start();
  expect(() => bindEmail(env, { name: '' })).toThrow(/^name must/);
  expect(() => bindEmail(env, { timeoutMs: 0 })).toThrow(/^timeoutMs must/);
  expect(() => bindEmail(5 as never)).toThrow(/^env must/);
});
