// Webhooks of a running server: of the file and by command, through kill -9, a reload and a restart (D54).

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook as Verifier } from 'standardwebhooks';
import { afterEach, expect, test } from 'vitest';
import { makeSecret } from '../../src/delivery/webhooks/secret.ts';
import { startHookEndpoint } from '../support/hook-endpoint.ts';
import { ask } from '../support/http-app.ts';
import { startHere } from '../support/postern-here.ts';
import { type RunningPostern, startPostern, testToken } from '../support/postern-process.ts';
import { runCli, runHere } from '../support/run-cli.ts';
import { soonTakenOver } from '../support/store.ts';

const running: RunningPostern[] = [];
afterEach(async () => {
  for (const postern of running.splice(0).toReversed()) await postern.cleanUp();
});

const waiting = { timeout: 30_000, interval: 50 };
const scopes = ['email:send', 'email:events', 'email:webhooks', 'admin'];

function configOf(webhooks: readonly object[]) {
  return {
    ...soonTakenOver,
    webhooks: { allowHttp: true, allowNetworks: ['127.0.0.0/8'] },
    development: { account: 'dev', credential: 'default' },
    smtp: { listeners: [] },
    http: { listen: '127.0.0.1:0', tlsListen: '' },
    accounts: [
      {
        name: 'dev',
        id: 'a1'.repeat(16),
        sendingDomains: [{ name: 'example.com' }],
        credentials: [{ name: 'default', scopes }],
        webhooks,
      },
      { name: 'other', id: 'b2'.repeat(16) },
    ],
  };
}

async function start(config: object, { folder, env = {} }: { folder?: string; env?: NodeJS.ProcessEnv } = {}) {
  const postern = await startPostern({ config, env, ...(folder === undefined ? {} : { folder }) });
  running.push(postern);
  return postern;
}

function call(postern: RunningPostern, method: string, path: string, body?: object) {
  return ask(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${testToken}`,
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** Sends a message. @returns its Message-ID; undefined where the server was gone */
async function send(postern: RunningPostern, to: string): Promise<string | undefined> {
  const body = { from: 'shop@example.com', to, subject: 'Hello', text: 'Hi.' };
  const answer = await call(postern, 'POST', '/send', body).catch(() => undefined);
  return (answer?.json.result as { message_id?: string } | undefined)?.message_id;
}

test('no event is lost by kill -9, and no more come twice than were under way', { timeout: 120_000 }, async () => {
  const endpoint = await startHookEndpoint(() => (_request, response) => {
    setTimeout(() => response.writeHead(200).end(), 20);
  });
  const secret = makeSecret();
  const env = { HOOK_SECRET: secret };
  const config = configOf([{ name: 'shop', url: endpoint.url, secretEnv: 'HOOK_SECRET' }]);
  const sent: string[] = [];
  let folder: string | undefined;
  for (let round = 0; round < 2; round += 1) {
    const postern = await start(config, { env, ...(folder === undefined ? {} : { folder }) });
    ({ folder } = postern);
    const before = endpoint.requests.length;
    const sending = Array.from({ length: 60 }, async (_, at) => {
      const id = await send(postern, `you-${round}-${at}@example.net`);
      if (id !== undefined) sent.push(id);
    });
    await expect.poll(() => endpoint.requests.length, waiting).toBeGreaterThan(before + 20);
    await expect.poll(() => sent.length, waiting).toBeGreaterThan(10 * (round + 1));
    await postern.end('SIGKILL');
    await Promise.all(sending);
  }
  const last = await start(config, { env, ...(folder === undefined ? {} : { folder }) });
  const told = (kind: string) =>
    new Set(
      endpoint.requests.filter(({ json }) => json.type === kind).map(({ json }) => String(json.data['message_id'])),
    );
  expect(sent.length).toBeGreaterThan(20);
  for (const kind of ['accepted', 'delivered']) {
    await expect.poll(() => sent.filter((id) => !told(kind).has(id)), waiting).toEqual([]);
  }
  for (const { body, headers } of endpoint.requests) new Verifier(secret).verify(body, headers);
  const ids = endpoint.requests.map(({ headers }) => headers['webhook-id']);
  const twice = ids.length - new Set(ids).size;
  expect(twice).toBeLessThanOrEqual(2 * 64);
  // Events of one message come in the order in which they happened.
  for (const id of sent) {
    const own = endpoint.requests.filter(({ json }) => json.data['message_id'] === id).map(({ json }) => json.type);
    expect(own.indexOf('accepted'), id).toBeLessThan(own.indexOf('delivered'));
  }
  expect(last.output()).not.toContain(secret);
});

test('a webhook of the file leaves with it at a reload; commands work beside the server, and a restart goes on', {
  timeout: 60_000,
}, async () => {
  const [first, second] = [await startHookEndpoint(), await startHookEndpoint()];
  const env = { HOOK_SECRET: makeSecret() };
  const hook = { name: 'shop', url: first.url, kinds: ['accepted'], secretEnv: 'HOOK_SECRET' };
  const postern = await start(configOf([hook]), { env });
  await send(postern, 'one@example.net');
  await expect.poll(() => first.requests.length, waiting).toBe(1);

  const place = { env: postern.env, cwd: postern.folder };
  const run = (...args: string[]) => runHere(['webhook', ...args], place);
  const added = await runCli(['webhook', 'add', '--account', 'dev', '--kinds', 'accepted', second.url], place);
  expect([added.exitCode, added.stdout]).toEqual([0, expect.stringMatching(/^whsec_\S+\n$/)]);
  const id = /Webhook (\w+)/.exec(added.stderr)?.[1] ?? '';
  expect((await run('add', '-a', 'dev', 'https://192.168.0.1/')).exitCode).toBe(64);
  expect((await run('list', '--account', 'dev')).stdout).toMatch(
    /of the api; enabled\n[\s\S]*of the file; enabled[^\n]*shop\n/,
  );

  writeFileSync(join(postern.folder, 'postern.yaml'), JSON.stringify(configOf([])));
  const reloaded = await runHere(['reload'], place);
  expect([reloaded.exitCode, reloaded.stderr]).toEqual([0, '']);
  await send(postern, 'two@example.net');
  await expect.poll(() => second.requests.length, waiting).toBe(1);
  expect(first.requests).toHaveLength(1);
  const [request] = second.requests;
  expect(new Verifier(added.stdout.trim()).verify(request?.body ?? '', request?.headers ?? {})).toMatchObject({
    type: 'accepted',
    data: { recipients: ['two@example.net'] },
  });

  expect((await run('replay', '--account', 'dev', '--event', String(request?.json.data.id), id)).exitCode).toBe(0);
  await expect.poll(() => second.requests.length, waiting).toBe(2);
  expect(second.requests[1]?.headers['webhook-id']).toBe(request?.headers['webhook-id']);
  const delivered = /^(?:\S+ {2}event \d+ accepted, attempt 1: delivered, 200, \d+ ms\n){2}$/;
  await expect.poll(async () => (await run('log', '--account', 'dev', id)).stdout, waiting).toMatch(delivered);
  const another = await run('log', '--account', 'other', id);
  expect([another.exitCode, another.stdout]).toEqual([1, '']);

  await postern.end('SIGTERM');
  const again = await start(configOf([]), { env, folder: postern.folder });
  await send(again, 'three@example.net');
  await expect.poll(() => second.requests.length, waiting).toBe(3);
  expect((await run('remove', '--account', 'dev', id)).exitCode).toBe(0);
  expect((await run('remove', '--account', 'dev', id)).exitCode).toBe(1);
});

test('Postern’s own listeners are no endpoints, though loopback is allowed', async () => {
  const postern = await startHere({ config: configOf([]) });
  running.push(postern);
  const url = `http://127.0.0.1:${postern.ports['http']}/`;
  const answer = await call(postern, 'POST', '/webhooks', { url });
  expect(answer.json.errors).toMatchObject([{ message: expect.stringContaining('Postern itself listens') }]);
  const byName = await call(postern, 'POST', '/webhooks', { url: url.replace('127.0.0.1', 'localhost') });
  const { id } = byName.json.result as { id: string };
  await send(postern, 'one@example.net');
  const log = async () => JSON.parse((await call(postern, 'GET', `/webhooks/${id}/deliveries`)).text).result;
  await expect
    .poll(log, waiting)
    .toMatchObject([{ result: 'failed', error: expect.stringContaining('no address that may be called') }]);
});
