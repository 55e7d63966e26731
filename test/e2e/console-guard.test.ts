// Every endpoint that takes a session of the console, found in the OpenAPI document of a running gateway: what another account, a
// session that has ended, another site's page and a session that may only read are answered.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { PosternHere } from '../support/postern-here.ts';
import { projectRoot, testToken } from '../support/postern-process.ts';
import { startReloadableHere } from '../support/reloadable.ts';

interface Operation {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly scope: string;
}

interface Documented {
  readonly operationId: string;
  readonly description?: string;
}

/** Read from the project's file, which a test holds to what the gateway serves; the test below holds it once more. */
const document = JSON.parse(readFileSync(join(projectRoot, 'docs/openapi.json'), 'utf8')) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Documented>>>>;
};

const operations: readonly Operation[] = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, { operationId, description }]) => ({
    name: operationId,
    method: method.toUpperCase(),
    path,
    scope: /Scope: (.*)\.$/.exec(description ?? '')?.[1] ?? '',
  })),
);
const ofConsole = operations.filter(({ scope }) => scope.includes('console:'));
const ofAdmin = operations.filter(({ scope }) => scope === '`admin`');
const writes = [...ofConsole, ...ofAdmin].filter(({ method }) => method !== 'GET');

let postern: PosternHere;
let base = '';
const sessions = new Map<string, string>();
/** What belongs to the other account, by the name of the parameter; `canary` stands in everything of its mail. */
const theirs = { zone_id: '2'.repeat(32), id: [] as string[], app_id: 'f'.repeat(32), name: 'payg.example' };
const canary = 'zebrafinch';

type Headers = Readonly<Record<string, string>>;

async function call(method: string, path: string, headers: Headers, body?: unknown) {
  const answer = await fetch(`${base}${path}`, {
    method,
    headers: { ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(20_000),
  });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

async function asAdmin(method: string, path: string, body?: unknown) {
  const { status, text } = await call(method, `/client/v4${path}`, { Authorization: `Bearer ${testToken}` }, body);
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
  // oxlint-disable-next-line typescript/no-unsafe-return -- of many shapes
  return JSON.parse(text).result;
}

/** The headers of a page of the console with a session. */
function asPage(who: string): Headers {
  return { Cookie: sessions.get(who) ?? '', 'X-Postern-Console': '1', Origin: base };
}

async function signIn(who: string, token: string): Promise<void> {
  const { headers } = await call('POST', '/console/session', asPage(''), { token });
  sessions.set(who, headers.getSetCookie()[0]?.split(';')[0] ?? '');
}

/** The path of an operation. */
function pathTo({ path }: Operation, values: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => values[name] ?? 'x');
}

const own = { account_id: 'dev', zone_id: '1'.repeat(32), app_id: 'e'.repeat(32), name: 'example.com', id: 'none' };

beforeAll(async () => {
  // A next hop that is not there, so that what is sent stays in the queue.
  ({ postern } = await startReloadableHere(({ routes }) => {
    routes.splice(0, routes.length, { name: 'hop', type: 'smarthost', url: 'smtp://127.0.0.1:1', tls: 'none' });
  }));
  base = `http://127.0.0.1:${postern.ports['http']}`;
  const made = async (account: string, scopes?: readonly string[]) =>
    await asAdmin('POST', `/accounts/${account}/tokens`, { credential: 'default', ...(scopes ? { scopes } : {}) });
  for (const [who, scopes] of [
    ['reader', ['console:read']],
    ['editor', ['console:edit']],
    ['ended', ['console:edit']],
  ] as const)
    await signIn(who, (await made('dev', scopes)).token);
  await signIn('admin', testToken);
  await call('DELETE', '/console/session', asPage('ended'));
  const token = await made('payg');
  const sending = '/accounts/payg/email/sending';
  const suppression = await asAdmin('POST', `${sending}/suppressions`, { address: `${canary}@partner.test` });
  const webhook = await asAdmin('POST', `${sending}/webhooks`, { url: `https://hooks.test/${canary}` });
  const from = `${canary}@payg.example`;
  const theirToken = { Authorization: `Bearer ${token.token}` };
  for (const headers of [{}, { Bcc: canary }]) {
    const body = { from, to: `${canary}@next.test`, subject: canary, text: canary, headers };
    const sent = await call('POST', `/client/v4${sending}/send`, theirToken, body);
    expect([sent.status, sent.text]).toEqual(['Bcc' in headers ? 400 : 200, sent.text]);
  }
  const journal = await vi.waitFor(async () => {
    const rows = await asAdmin('GET', `${sending}/journal`);
    expect(rows).toHaveLength(2);
    return rows;
  }, 10_000);
  theirs.id.push(...[...journal, suppression, webhook, token].map(({ id }: { readonly id: string }) => id));
  await vi.waitFor(async () => {
    const rows = await asAdmin('GET', `${sending}/queue/messages`);
    expect(rows).toHaveLength(1);
  }, 10_000);
}, 60_000);

afterAll(async () => postern.cleanUp());

test('the document names the endpoints of the console and their scopes', async () => {
  expect(JSON.parse((await call('GET', '/openapi.json', {})).text).paths).toEqual(document.paths);
  expect(operations.filter(({ scope }) => scope === '')).toEqual([]);
  expect([ofConsole.length > 35, ofAdmin.length > 10, writes.length > 10]).toEqual([true, true, true]);
});

describe('an account sees and changes nothing of another', () => {
  test.each(ofConsole)('$method $path ($name)', async (operation) => {
    const { method, path } = operation;
    const body = method === 'GET' || method === 'DELETE' ? undefined : {};
    const editor = asPage('editor');
    for (const account_id of ['payg', 'c1'.repeat(16)]) {
      for (const id of theirs.id) {
        const { status, text } = await call(method, pathTo(operation, { account_id, ...theirs, id }), editor, body);
        expect([status, text.includes(canary)]).toEqual([404, false]);
        if (!path.includes('{id}')) break;
      }
    }
    if (!/\{(?:id|app_id|name)\}/.test(path)) return;
    for (const id of theirs.id) {
      const { status, text } = await call(
        method,
        pathTo(operation, { ...own, ...theirs, zone_id: own.zone_id, id }),
        editor,
        body,
      );
      // A body that is none is refused before the thing is looked for; so is an id of another kind.
      expect([400, 404]).toContain(status);
      expect(text).not.toContain(canary);
    }
  });

  test.each(ofAdmin)('$method $path ($name) is for admin', async (operation) => {
    const { method } = operation;
    const body = method === 'GET' || method === 'DELETE' ? undefined : {};
    for (const id of theirs.id) {
      const path = pathTo(operation, { ...own, id });
      const { status, text } = await call(method, path, asPage('editor'), body);
      expect([status, text.includes(canary)]).toEqual([403, false]);
    }
  });

  test('no filter, cursor or list of an account tells of another one’s', async () => {
    const sending = '/client/v4/accounts/dev/email/sending';
    const [refused = '', accepted = ''] = theirs.id;
    const asked = [
      `journal?search=${canary}`,
      'journal?cursor=999999999999999',
      'journal?outcome=refused&field=Bcc',
      'journal?code=E_HEADER_NOT_ALLOWED',
      'journal?client=127.0.0.1',
      'refusals',
      'overview',
      'queue',
      'queue/messages',
      `queue/messages?search=${canary}`,
      `queue/messages?cursor=00000000-0000-0000-0000-000000000000`,
      `queue/messages?cursor=${accepted}`,
      `queue/messages?destination=next.test`,
      'events',
      'events?order=oldest',
      `events?message_id=${accepted}`,
      `events?recipient=${canary}@next.test`,
      'messages',
      `messages?recipient=${canary}@next.test`,
      'suppressions',
      'webhooks',
    ];
    for (const one of asked) {
      const { status, text } = await call('GET', `${sending}/${one}`, asPage('editor'));
      expect([one, status < 500, text.includes(canary), text.includes(refused), text.includes('payg')]).toEqual([
        one,
        true,
        false,
        false,
        false,
      ]);
    }
    for (const action of ['drop', 'release', 'retry', 'hold']) {
      for (const chosen of [{ ids: theirs.id }, { filter: { destination: 'next.test' } }]) {
        const { text } = await call('POST', `${sending}/queue/actions`, asPage('editor'), { action, ...chosen });
        expect([text, /"done":[1-9]/.test(text)]).toEqual([text, false]);
      }
    }
    expect(await asAdmin('GET', '/accounts/payg/email/sending/queue/messages')).toMatchObject([{ id: accepted }]);
  });
});

describe('a session that is none', () => {
  test.each([...ofConsole, ...ofAdmin])('$method $path ($name)', async (operation) => {
    const { method } = operation;
    const path = pathTo(operation, own);
    const body = method === 'GET' || method === 'DELETE' ? undefined : {};
    const ended = await call(method, path, asPage('ended'), body);
    expect([ended.status, ended.text]).toEqual([401, expect.stringContaining('The session has ended')]);
    const two = { ...asPage('admin'), Cookie: `${sessions.get('admin')}; ${sessions.get('editor')}` };
    expect((await call(method, path, two, body)).status).toBe(401);
    expect((await call(method, path, {}, body)).status).toBe(401);
  });
});

describe('another site', () => {
  test.each([...ofConsole, ...ofAdmin])('$method $path ($name)', async (operation) => {
    const { method } = operation;
    const path = pathTo(operation, own);
    const body = method === 'GET' || method === 'DELETE' ? undefined : {};
    const { Cookie = '', ...page } = asPage('admin');
    const forged: Headers[] = [
      { ...page, 'Sec-Fetch-Site': 'cross-site' },
      { ...page, 'Sec-Fetch-Site': 'same-site' },
    ];
    if (method !== 'GET') {
      for (const Origin of ['https://evil.test', 'null', `${base}.evil.test`, base.replace('http:', 'https:'), ''])
        forged.push({ ...page, Origin });
      forged.push({ Origin: base }, { 'X-Postern-Console': '1' }, {}, { ...page, 'Sec-Fetch-Site': 'none' });
    }
    for (const headers of forged) {
      const { status } = await call(method, path, { Cookie, ...headers }, body);
      expect([headers, status]).toEqual([headers, 403]);
    }
  });
});

describe('a session that may only read changes nothing', () => {
  test.each(writes.filter(({ scope }) => !scope.includes('console:read')))(
    '$method $path ($name)',
    async (operation) => {
      const body = operation.method === 'DELETE' ? undefined : {};
      for (const id of ['none', ...theirs.id]) {
        const { status } = await call(operation.method, pathTo(operation, { ...own, id }), asPage('reader'), body);
        expect(status).toBe(403);
      }
    },
  );
});
