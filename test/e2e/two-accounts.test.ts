// Two accounts of one running gateway, whose credentials have the same names: what one of them is told, and whom its tokens
// stand for.

import { request } from 'node:http';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import type { PosternHere } from '../support/postern-here.ts';
import { testToken } from '../support/postern-process.ts';
import { type Reloadable, startReloadableHere } from '../support/reloadable.ts';
import { plainResponse, RawClient } from '../support/smtp-peers.ts';

let gateway: Reloadable<PosternHere>;
let postern: PosternHere;
let base = '';
beforeAll(async () => {
  gateway = await startReloadableHere(({ accounts, routes, zones }) => {
    zones.push({ name: 'shop.example', id: '4'.repeat(32), account: 'dev' });
    // A next hop that is not there, so that what is sent waits.
    const hop = { type: 'smarthost', url: 'smtp://127.0.0.1:1', tls: 'none' };
    const theirs = { ...hop, name: 'theirs', match: { accounts: ['payg'] } };
    routes.splice(0, routes.length, theirs, { ...hop, name: 'default' });
    accounts[0]?.credentials.push(
      { name: 'second', scopes: ['email:send', 'console:read'] },
      { name: 'watcher', scopes: ['console:edit'] },
      { name: 'stripping', scopes: ['email:send'], strip: ['X-Mailer'] },
    );
    // What another credential, the first one, strips cures nothing of theirs.
    Object.assign(accounts[0]?.credentials[0] ?? {}, { strip: ['User-Agent'] });
    for (const [at, account] of accounts.entries()) {
      const id = `7d6f0c1e-0000-4000-8000-00000000000${at}`;
      const network = { id, name: account.name, routes: [`10.0.${at}.0/24`], sourceAddress: '127.0.0.9' };
      Object.assign(account, { virtualNetworks: [network] });
    }
  });
  ({ postern } = gateway);
  base = `http://127.0.0.1:${postern.ports['http']}/client/v4`;
}, 60_000);
afterAll(async () => postern.cleanUp());

interface Answer {
  readonly status: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- answers are of many shapes here
  readonly result: any;
}

async function ask(token: string, method: string, path: string, body?: object): Promise<Answer> {
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
  const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
  const answer = await fetch(`${base}${path}`, init);
  const { result } = (await answer.json()) as { result: unknown };
  return { status: answer.status, result };
}

const senders: Readonly<Record<string, string>> = { dev: 'shop@example.com', payg: 'shop@payg.example' };

/** Makes a token of a credential, narrowed to these scopes. */
async function makeToken(account: string, credential: string, scopes: readonly string[]): Promise<string> {
  const made = await ask(testToken, 'POST', `/accounts/${account}/tokens`, { credential, scopes });
  expect(made.status).toBe(200);
  return made.result.token;
}

async function send(token: string, account: string, subject: string): Promise<number> {
  const body = { from: senders[account], to: 'a@partner.test', subject, text: 'x' };
  return (await ask(token, 'POST', `/accounts/${account}/email/sending/send`, body)).status;
}

async function refuse(token: string, account: string, subject: string): Promise<void> {
  const body = { from: senders[account], to: 'a@partner.test', subject, text: 'x', headers: { Bcc: 'x' } };
  expect((await ask(token, 'POST', `/accounts/${account}/email/sending/send`, body)).status).toBe(400);
}

/** A stream that is open: the subjects of its rows, and the number of its last event. */
interface Stream {
  readonly accounts: Set<string>;
  readonly subjects: Set<string>;
  last: string;
}

async function watch(token: string, path: string, after?: string): Promise<Stream> {
  const ended = new AbortController();
  onTestFinished(() => ended.abort());
  const headers = { Authorization: `Bearer ${token}`, ...(after === undefined ? {} : { 'Last-Event-ID': after }) };
  const answer = await fetch(`${base}${path}`, { headers, signal: ended.signal });
  expect(answer.status).toBe(200);
  const stream: Stream = { accounts: new Set(), subjects: new Set(), last: '0' };
  const read = async (): Promise<void> => {
    let text = '';
    for await (const chunk of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk;
      const told = text.split('\n\n');
      text = told.pop() ?? '';
      for (const [, id = '', row = ''] of told.map((each) => /^id: (\d+)\nevent: row\ndata: (.*)$/.exec(each) ?? [])) {
        if (row === '') continue;
        const { account, subject } = JSON.parse(row) as { readonly account: string; readonly subject: string };
        stream.accounts.add(account);
        stream.subjects.add(subject);
        stream.last = id;
      }
    }
  };
  void read().catch(() => undefined);
  return stream;
}

const liveOf = (account: string): string => `/accounts/${account}/email/sending/live`;

test('a live stream tells of the own account’s rows alone, the operator’s of all', async () => {
  const scopes = ['email:send', 'console:read'];
  const [dev, payg] = await Promise.all([makeToken('dev', 'default', scopes), makeToken('payg', 'default', scopes)]);
  const [ofDev, ofPayg, ofAll] = await Promise.all([
    watch(dev, liveOf('dev')),
    watch(payg, liveOf('payg')),
    watch(testToken, '/email/sending/live'),
  ]);
  // All are told in one order, so that who is told of the last has been told of the others.
  for (const round of ['one', 'two', 'last']) {
    expect(await send(payg, 'payg', `payg ${round}`)).toBe(200);
    await refuse(payg, 'payg', `payg refused ${round}`);
    expect(await send(dev, 'dev', `dev ${round}`)).toBe(200);
    await refuse(dev, 'dev', `dev refused ${round}`);
  }
  const of = (account: string): readonly string[] =>
    ['one', 'two', 'last'].flatMap((round) => [`${account} ${round}`, `${account} refused ${round}`]);
  await vi.waitFor(() => expect(ofAll.subjects).toEqual(new Set([...of('payg'), ...of('dev')])), 20_000);
  await vi.waitFor(() => expect(ofDev.subjects).toEqual(new Set(of('dev'))), 20_000);
  await vi.waitFor(() => expect(ofPayg.subjects).toEqual(new Set(of('payg'))), 20_000);
  expect([...ofDev.accounts, ...ofPayg.accounts]).toEqual(['dev', 'payg']);
  // What was missed is told by the same rule.
  const resumed = await Promise.all([watch(dev, liveOf('dev'), '0'), watch(payg, liveOf('payg'), '0')]);
  await vi.waitFor(() => expect(resumed.map(({ subjects }) => subjects.size)).toEqual([6, 6]), 20_000);
  expect(resumed.map(({ accounts }) => [...accounts])).toEqual([['dev'], ['payg']]);
  // A token opens the stream of its own account alone.
  for (const [token, path] of [
    [dev, liveOf('payg')],
    [payg, liveOf('dev')],
    [payg, liveOf('a1'.repeat(16))],
  ] as const)
    expect((await ask(token, 'GET', path)).status).toBe(404);
  expect((await ask(dev, 'GET', '/email/sending/live')).status).toBe(403);
});

test('a narrowed token stands for its own account and credential, whichever was used before', {
  timeout: 60_000,
}, async () => {
  const scopes = ['email:send', 'console:read'];
  const tokens = {
    dev: await makeToken('dev', 'default', scopes),
    second: await makeToken('dev', 'second', scopes),
    payg: await makeToken('payg', 'default', scopes),
  };
  const own = { dev: ['dev', 'default'], second: ['dev', 'second'], payg: ['payg', 'default'] } as const;
  for (const [who, token] of Object.entries(tokens)) {
    const [account] = own[who as keyof typeof own];
    const subject = `narrowed ${who}`;
    expect([who, await send(token, account, subject)]).toEqual([who, 200]);
    const journal = await ask(token, 'GET', `/accounts/${account}/email/sending/journal`);
    expect([who, journal.status]).toEqual([who, 200]);
    const row = journal.result.find((each: { readonly subject: string }) => each.subject === subject);
    expect([row?.account, row?.credential]).toEqual(own[who as keyof typeof own]);
    const other = account === 'dev' ? 'payg' : 'dev';
    expect([who, await send(token, other, 'no')]).toEqual([who, 404]);
    expect((await ask(token, 'GET', `/accounts/${other}/email/sending/journal`)).status).toBe(404);
    // SMTP asks who sends in a way of its own.
    const client = RawClient.openTls(postern.ports['submissions'] ?? 0);
    onTestFinished(() => client.destroy());
    await client.reply();
    await client.ask('EHLO client.example');
    expect(await client.ask(`AUTH PLAIN ${plainResponse('api_token', token)}`)).toMatch(/^235 /);
    expect(await client.ask(`MAIL FROM:<${senders[other]}>`)).toMatch(/^550 5\.7\.1 /);
    expect(await client.ask(`MAIL FROM:<${senders[account]}>`)).toMatch(/^250 /);
  }
});

test('an Idempotency-Key is its account’s alone', async () => {
  const tokens = { dev: testToken, payg: await makeToken('payg', 'default', ['email:send']) };
  const ids = new Set<string>();
  for (const [account, token] of Object.entries(tokens)) {
    const headers = {
      Authorization: `Bearer ${token}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': 'order-1',
    };
    const body = JSON.stringify({ from: senders[account], to: 'a@partner.test', subject: account, text: 'x' });
    for (const replayed of [null, 'true']) {
      const url = `${base}/accounts/${account}/email/sending/send`;
      const answer = await fetch(url, { method: 'POST', headers, body });
      expect([account, answer.status, answer.headers.get('idempotent-replayed')]).toEqual([account, 200, replayed]);
      ids.add(((await answer.json()) as { result: { message_id: string } }).result.message_id);
    }
  }
  expect(ids.size).toBe(2);
});

/** Asks a zone for a page. It has no origin, so that it answers with an error. */
async function visit(host: string): Promise<number | undefined> {
  return await new Promise((resolve, reject) => {
    const asked = request({ port: postern.ports['http'], host: '127.0.0.1', headers: { Host: host } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    asked.on('error', reject).end();
  });
}

test('figures, zones and networks are told of the own account’s', { timeout: 60_000 }, async () => {
  const scopes = ['console:read'];
  const tokens = { dev: await makeToken('dev', 'default', scopes), payg: await makeToken('payg', 'default', scopes) };
  const visits = { dev: 3, payg: 5 };
  const zones = { dev: 'example.com', payg: 'payg.example' };
  const accounts = ['dev', 'payg'] as const;
  expect(await visit('shop.example')).toBeGreaterThanOrEqual(400);
  const ofShop = { dev: [['shop.example', 1]], payg: [] };
  for (const account of accounts)
    for (let count = 0; count < visits[account]; count += 1)
      expect(await visit(zones[account])).toBeGreaterThanOrEqual(400);
  for (const account of accounts) {
    const read = (path: string) => ask(tokens[account], 'GET', `/accounts/${account}/${path}`);
    const told = async () =>
      (await read('edge/failures')).result.zones.map((zone: Record<string, unknown>) => [
        zone['zone'],
        zone['requests'],
      ]);
    await expect.poll(told, { timeout: 20_000 }).toEqual([[zones[account], visits[account]], ...ofShop[account]]);
    const routesShown = (await read('email/sending/overview')).result.routes;
    expect([account, routesShown.some((route: Record<string, unknown>) => route['name'] === 'theirs')]).toEqual([
      account,
      account === 'payg',
    ]);
    const networks = (await read('networks/virtual_networks')).result;
    expect(networks.map((network: Record<string, unknown>) => network['name'])).toEqual([account]);
    const routes = (await read('networks/routes')).result;
    expect(routes.map((route: Record<string, unknown>) => route['virtual_network_name'])).toEqual([account]);
  }
});

test('what waits, what was counted and what applications carry is told of the own account’s', {
  timeout: 60_000,
}, async () => {
  const scopes = ['email:send', 'console:edit', 'proxy:read'];
  const tokens = { dev: await makeToken('dev', 'default', scopes), payg: await makeToken('payg', 'default', scopes) };
  const zones = { dev: '1'.repeat(32), payg: '2'.repeat(32) };
  const names = { dev: 'example.com', payg: 'payg.example' };
  // The other account's mail waits first, here and in the tests before.
  for (const account of ['payg', 'payg', 'dev'] as const)
    expect(await send(tokens[account], account, 'waits')).toBe(200);
  const overview = async (path: string) => (await ask(testToken, 'GET', `${path}/email/sending/overview`)).result;
  const queueOf = async (path: string) => (await overview(path)).queue;
  const [ofDev, ofPayg] = ['/accounts/dev', '/accounts/payg'];
  const messages = await Promise.all([ofDev, ofPayg, ''].map(async (path) => (await queueOf(path)).messages as number));
  const [devWaits = 0, paygWaits = 0, allWait = 0] = messages;
  expect([devWaits > 0, paygWaits > 0, devWaits + paygWaits]).toEqual([true, true, allWait]);
  // What waits is looked at every few seconds.
  const oldest = async () => {
    const [dev, payg, all] = await Promise.all(
      [ofDev, ofPayg, ''].map(async (path) => (await queueOf(path)).oldest_at),
    );
    return [dev > payg, payg === all];
  };
  await expect.poll(oldest, { timeout: 20_000 }).toEqual([true, true]);
  for (const account of ['dev', 'payg'] as const) {
    const application = {
      protocol: account === 'dev' ? 'tcp/4022' : 'tcp/22',
      dns: { type: 'CNAME', name: `ssh.${names[account]}` },
      origin_direct: ['tcp://127.0.0.1:1'],
    };
    const made = await ask(testToken, 'POST', `/zones/${zones[account]}/proxy/apps`, application);
    expect([account, made.status]).toEqual([account, 200]);
  }
  const accepted = async () =>
    Promise.all([ofDev, ofPayg, ''].map(async (path) => (await overview(path)).totals.accepted as number));
  const [dev = 0, payg = 0, all = 0] = await accepted();
  expect([dev > 0, payg > 0, dev + payg === all]).toEqual([true, true, true]);
  for (const account of ['dev', 'payg'] as const) {
    const traffic = (await ask(tokens[account], 'GET', `/accounts/${account}/proxy/traffic`)).result;
    expect(traffic.map((one: Record<string, unknown>) => one['zone'])).toEqual([names[account]]);
  }
  // A zone that is not there is another one's.
  for (const zone of ['3'.repeat(32), 'x', zones.payg])
    expect([zone, (await ask(tokens.dev, 'GET', `/zones/${zone}/proxy/apps`)).status]).toEqual([zone, 404]);
});

test('the cure of a refusal is of the credential that the message came with, and with what that has', async () => {
  const token = await makeToken('dev', 'stripping', ['email:send']);
  const body = { from: senders['dev'], to: 'a@partner.test', subject: 'to be cured', text: 'x' };
  const path = '/accounts/dev/email/sending';
  const headers = { 'User-Agent': 'x' };
  expect((await ask(token, 'POST', `${path}/send`, { ...body, headers })).status).toBe(400);
  const cure = { kind: 'config', yaml: 'strip: [User-Agent, X-Mailer]' };
  const told = async () => (await ask(testToken, 'GET', `${path}/refusals?credential=stripping`)).result;
  await expect.poll(told, { timeout: 10_000 }).toMatchObject([{ field: 'User-Agent', cured: false, cure }]);
  const [row] = (await ask(testToken, 'GET', `${path}/journal?credential=stripping`)).result;
  const { verdicts } = (await ask(testToken, 'GET', `${path}/journal/${row.id}`)).result;
  expect(verdicts.filter((one: Record<string, unknown>) => one['cure'])).toMatchObject([{ name: 'User-Agent', cure }]);
});

test('a message is sent again by its own credential, to nobody who is suppressed, and by none that may not send', async () => {
  const [second, watcher, payg] = await Promise.all([
    makeToken('dev', 'second', ['email:send']),
    makeToken('dev', 'watcher', ['console:edit']),
    makeToken('payg', 'default', ['console:edit', 'console:read']),
  ]);
  expect(await send(second, 'dev', 'to be sent again')).toBe(200);
  const rows = async () =>
    (await ask(testToken, 'GET', '/accounts/dev/email/sending/journal?search=again')).result as Record<
      string,
      unknown
    >[];
  const [entry] = await rows();
  const again = (token: string, account = 'dev') =>
    ask(token, 'POST', `/accounts/${account}/email/sending/journal/${String(entry?.['id'])}/resend`);
  expect((await again(watcher)).status).toBe(200);
  expect((await rows()).map((row) => row['credential'])).toEqual(['second', 'second']);
  expect((await again(payg, 'payg')).status).toBe(404);
  const address = { address: 'a@partner.test' };
  const suppressed = await ask(testToken, 'POST', '/accounts/dev/email/sending/suppressions', address);
  expect((await again(watcher)).status).toBe(400);
  await ask(testToken, 'DELETE', `/accounts/dev/email/sending/suppressions/${suppressed.result.id}`);
  // Its credential is gone: then it is sent by the caller's, which has to have the scope.
  gateway.change(({ accounts }) => {
    const credentials = accounts[0]?.credentials ?? [];
    credentials.splice(
      credentials.findIndex((one) => one['name'] === 'second'),
      1,
    );
  });
  expect((await gateway.reload()).code).toBe(0);
  expect([(await again(watcher)).status, (await again(testToken)).status]).toEqual([403, 200]);
});
