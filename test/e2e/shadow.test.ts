// A gateway with a shadow listener (D4f): copies are judged, told and kept in the journal, and nothing of them is sent.

import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { testToken } from '../support/postern-process.ts';
import { runHere } from '../support/run-cli.ts';
import { RawClient } from '../support/smtp-peers.ts';

const device = {
  ...{ listen: '127.0.0.1:0', tls: 'none', trustedHop: true },
  ...{ credential: 'dev/box', allowFrom: ['127.0.0.1/32'] },
};
/** What the webhook was told. */
const told: { readonly type: string }[] = [];
const endpoint = createServer((request, response) => {
  let body = '';
  request.on('data', (octets: Buffer) => (body += octets.toString()));
  request.on('end', () => {
    told.push(JSON.parse(body) as { type: string });
    response.end();
  });
});

const configuration = (port: number, box: object = {}) => ({
  development: { account: 'dev', credential: 'box' },
  http: { listen: '127.0.0.1:0' },
  smtp: {
    listeners: [
      { ...device, name: 'shadow', shadow: true },
      { ...device, name: 'real' },
    ],
  },
  journal: { content: 'full' },
  webhooks: { allowHttp: true, allowNetworks: ['127.0.0.0/8'] },
  routes: [{ name: 'keep', type: 'capture' }],
  accounts: [
    {
      ...{ name: 'dev', id: 'a1'.repeat(16), limits: { recipientsPerDay: 1 } },
      sendingDomains: [{ name: 'example.com', dkim: [{ selector: 'e1', algorithm: 'ed25519' }] }],
      credentials: [{ ...box, name: 'box', scopes: ['email:send', 'email:events', 'console:read', 'console:edit'] }],
      webhooks: [{ name: 'hook', url: `http://127.0.0.1:${port}/`, secretEnv: 'HOOK_SECRET' }],
    },
  ],
});

let postern: PosternHere;
beforeAll(async () => {
  await new Promise<void>((done) => endpoint.listen(0, '127.0.0.1', done));
  const { port } = endpoint.address() as AddressInfo;
  postern = await startHere({
    config: configuration(port),
    env: { HOOK_SECRET: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' },
  });
}, 60_000);
afterAll(async () => {
  await postern?.cleanUp();
  endpoint.close();
});

async function hand(listener: string, from: string, lines: readonly string[]): Promise<string> {
  const client = RawClient.open(postern.ports[listener] ?? 0);
  try {
    await client.reply();
    await client.ask('EHLO old.example');
    await client.ask(`MAIL FROM:<${from}>`);
    await client.ask('RCPT TO:<copies@shadow.invalid>');
    await client.ask('DATA');
    client.send(`${lines.join('\r\n')}\r\n\r\nHi\r\n.\r\n`);
    return await client.reply();
  } finally {
    client.destroy();
  }
}

interface Row {
  readonly id: string;
  readonly outcome: string;
  readonly shadow: boolean;
  readonly subject: string;
  readonly codes: readonly string[];
  readonly recipients: readonly string[];
  readonly links: Readonly<Record<string, string>>;
}

const base = () => `http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending`;
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- whoever asks knows the shape of the answer
async function api<T>(path: string, method = 'GET'): Promise<{ readonly status: number; readonly result: T }> {
  const headers = { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' };
  const answer = await fetch(`${base()}${path}`, { method, headers, ...(method === 'POST' ? { body: '{}' } : {}) });
  return { status: answer.status, result: ((await answer.json()) as { result: T }).result };
}

const good = (subject: string) => ['From: app@example.com', 'To: a@partner.test', `Subject: ${subject}`];

test('copies are answered 250, judged and marked, and nothing of them leaves', async () => {
  expect(await hand('shadow', 'app@example.com', good('in order'))).toMatch(/^250 2\.0\.0 Ok, judged/);
  expect(await hand('shadow', 'app@example.com', [...good('not in order'), 'User-Agent: old/1'])).toMatch(/^250 /);
  expect(await hand('shadow', 'root@box.internal', ['From: root@box.internal', 'Subject: nobody'])).toMatch(/^250 /);
  // The one message that is sent for real: no copy before it has been charged to the account's one recipient a day.
  expect(await hand('real', 'app@example.com', good('for real'))).toMatch(/^250 2\.0\.0 Ok </);
  const rows = async () => (await api<Row[]>('/journal')).result;
  await expect.poll(async () => (await rows()).length, { timeout: 20_000 }).toBe(4);
  const found = Object.fromEntries((await rows()).map((row) => [row.subject, row]));
  expect(found['in order']).toMatchObject({
    shadow: true,
    outcome: 'accepted',
    codes: [],
    recipients: ['a@partner.test'],
  });
  expect(found['not in order']).toMatchObject({ shadow: true, outcome: 'refused', codes: ['E_HEADER_NOT_ALLOWED'] });
  expect(found['nobody']).toMatchObject({ shadow: true, outcome: 'refused', codes: ['E_SENDER_NOT_VERIFIED'] });
  expect(found['for real']).toMatchObject({ shadow: false });
  const subjects = async (query: string) =>
    (await api<Row[]>(`/journal?${query}`)).result.map(({ subject }) => subject);
  for (let round = 0; round < 2; round += 1) {
    expect(await subjects('shadow=true')).toEqual(['nobody', 'not in order', 'in order']);
    expect(await subjects('shadow=false')).toEqual(['for real']);
    expect(await subjects('shadow=true&outcome=refused')).toEqual(['nobody', 'not in order']);
  }
  await expect.poll(() => postern.captured().length, { timeout: 20_000 }).toBe(1);
  expect(postern.captured()[0]?.includes('\r\nSubject: for real\r\n')).toBe(true);
});

test('the event has the mark, the log tells it, and the webhook hears of what was sent alone', async () => {
  const { result } = await api<{ kind: string; shadow?: boolean }[]>('/events?per_page=50');
  expect(result.filter(({ kind }) => kind === 'shadowed')).toMatchObject([
    { shadow: true },
    { shadow: true },
    { shadow: true },
  ]);
  expect(postern.log().filter(({ msg }) => msg === 'shadowed')).toMatchObject([
    { shadow: true, wouldPass: true, listener: 'shadow' },
    { shadow: true, wouldPass: false, codes: ['E_HEADER_NOT_ALLOWED'] },
    { shadow: true, wouldPass: false },
  ]);
  // The acceptance and the delivery of the real message come after all copies.
  await expect
    .poll(() => told.map(({ type }) => type).toSorted(), { timeout: 20_000 })
    .toEqual([expect.stringContaining('accepted'), expect.stringContaining('delivered')]);
});

test('a copy cannot be sent again from the journal', async () => {
  const { result } = await api<Row[]>('/journal?shadow=true&search=in%20order&outcome=accepted');
  const id = result[0]?.id ?? '';
  const entry = await api<Row>(`/journal/${id}`);
  expect([entry.status, entry.result.shadow, Object.keys(entry.result.links)]).toEqual([
    200,
    true,
    expect.not.arrayContaining(['resend', 'message']),
  ]);
  expect((await api(`/journal/${id}/resend`, 'POST')).status).toBe(400);
});

test('the report marks what was judged in the shadow, and can leave it out', async () => {
  const report = async (...more: string[]) =>
    (await runHere(['report', '--since', '1h', ...more], { env: postern.env })).stdout;
  const all = await report();
  expect(all).toContain('dev/box: 2 of 4 messages accepted');
  expect(all).toContain('  User-Agent: old/1 (shadow): 1 message refused');
  expect(await report('--shadow', 'only')).toContain('dev/box: 1 of 3 messages accepted');
  expect(await report('--shadow', 'without')).toContain('dev/box: 1 of 1 message accepted');
});

test('another configuration judges again what the journal has kept, and an archive', async () => {
  const write = (name: string, box: object, domain = 'example.com'): string => {
    const file = join(postern.folder, name);
    writeFileSync(file, JSON.stringify(configuration(1, box)).replaceAll('"example.com"', JSON.stringify(domain)));
    return file;
  };
  const report = async (...more: string[]) => await runHere(['report', '--since', '1h', ...more], { env: postern.env });
  const cured = await report('--with', write('cured.yaml', { strip: ['User-Agent'] }));
  expect(cured.stdout).toContain('Of 2 refused messages 1 would pass\nOf 2 accepted messages 0 would not\n');
  expect(cured.stdout).toContain(
    'dev/box, User-Agent: old/1 (shadow): 1 of 1 refused would pass, 0 of 0 accepted would not',
  );
  const worse = await report('--with', write('worse.yaml', {}, 'example.net'), '--json');
  expect(JSON.parse(worse.stdout)).toMatchObject({
    mailers: expect.arrayContaining([
      expect.objectContaining({ wouldNot: 1, examples: [expect.stringContaining('E_SENDER_NOT_VERIFIED')] }),
    ]),
    notKept: 0,
  });
  const archive = join(postern.folder, 'old.eml');
  writeFileSync(archive, `${[...good('old'), 'User-Agent: old/1'].join('\r\n')}\r\n\r\nHi\r\n`);
  const named = ['--account', 'dev', '--credential', 'box', '--with', join(postern.folder, 'cured.yaml'), archive];
  expect((await report(...named)).stdout).toContain(
    'Of 1 refused message 1 would pass\nOf 0 accepted messages 0 would not',
  );
  expect((await report(archive)).stderr).toContain('ARCHIVE stands with --with');
});
