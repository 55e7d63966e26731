// Signing in to the console, staying signed in, and what a session may not do: every way by which another site, another account or
// somebody in between could use it.

import { Type } from 'typebox';
import { describe, expect, test } from 'vitest';
import { Guessing } from '../../../src/accounts/guessing.ts';
import { succeed } from '../../../src/web/http/envelope.ts';
import { submitterOf, type V4Plugin } from '../../../src/web/http/v4-app.ts';
import { type ConsoleApp, cookieOf, type PageRequest, startConsole } from '../../support/console-app.ts';
import { ask } from '../../support/http-app.ts';
import { logLines } from '../../support/log-lines.ts';

/** An endpoint to read and one to change something. */
const things: V4Plugin = (app) => {
  const schema = { params: Type.Object({ account_id: Type.String() }), response: { 200: Type.Object({}) } };
  const told = { operationId: 'getThing', summary: 'Get', tags: ['Things'] };
  const url = '/accounts/:account_id/thing';
  app.get(url, { config: { scope: 'console:read' }, schema: { ...schema, ...told } }, async (request, reply) => {
    const { account, credential } = submitterOf(request);
    return succeed(reply, { account: account.name, credential: credential.name });
  });
  const config = { scope: ['email:events', 'console:edit'] } as const;
  app.post(url, { config, schema: { ...schema, ...told, operationId: 'postThing' } }, async (_request, reply) =>
    succeed(reply, 'done'),
  );
};
const thing = '/client/v4/accounts/dev/thing';
const start = (options: Parameters<typeof startConsole>[0] = {}): Promise<ConsoleApp> =>
  startConsole({ plugins: [things], ...options });

const json = { 'Content-Type': 'application/json' };
const signIn = (token: string): PageRequest => ({ method: 'POST', headers: json, body: JSON.stringify({ token }) });

describe('signing in with a token', () => {
  test('sets a cookie that no script reads and no other site sends, and tells who one is', async () => {
    const app = await start();
    const answer = await app.ask('/console/session', signIn('dev-reader'));
    expect(answer.status).toBe(200);
    expect(answer.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^postern_session=[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/),
    ]);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    const told = {
      account: { id: 'a1'.repeat(16), name: 'dev' },
      credential: 'reader',
      scopes: ['console:read'],
      expires_at: '2026-11-22T12:00:00.000Z',
      accounts: [{ id: 'a1'.repeat(16), name: 'dev' }],
      judged_as: {
        account: 'dev',
        sendingDomains: [{ name: 'dev.example', subdomains: true }],
        ...{ strip: [], stripInvalid: [], stripEmpty: false, keepFirst: [], trustedHop: false },
      },
    };
    expect(answer.json.result).toEqual(told);
    const Cookie = cookieOf(answer);
    expect((await app.ask('/console/session', { headers: { Cookie } })).json.result).toEqual(told);
    expect((await app.ask('/console/session')).json.result).toBeNull();
    expect((await app.ask(thing, { headers: { Cookie } })).json.result).toEqual({
      account: 'dev',
      credential: 'reader',
    });
  });

  test.each([
    ['a token that is none', 'nonsense', 401],
    ['a token without a scope of the console', 'dev-sender', 403],
  ])('%s', async (_what, token, status) => {
    const app = await start();
    const answer = await app.ask('/console/session', signIn(token));
    expect([answer.status, answer.headers.getSetCookie()]).toEqual([status, []]);
    expect(await app.database.query('SELECT * FROM console_sessions')).toEqual([]);
  });

  test('a body that is no sign-in is refused', async () => {
    const app = await start();
    const bodies = ['{}', '[]', 'null', '{"token":""}', '{"token":5}', '{"token":"a b"}', '{"token":"a","b":1}', '{'];
    for (const body of bodies) {
      expect([body, (await app.ask('/console/session', { method: 'POST', headers: json, body })).status]).toEqual([
        body,
        400,
      ]);
    }
    const large = await app.ask('/console/session', signIn('x'.repeat(5000)));
    expect(large.status).toBe(413);
    const form = { method: 'POST', headers: { 'Content-Type': 'text/plain' }, body: '{"token":"dev-reader"}' };
    expect((await app.ask('/console/session', form)).status).toBe(415);
  });

  test('wrong tokens of an address are answered later and later, then turned away', async () => {
    const guessing = new Guessing({
      freeFailures: 0,
      firstDelayMs: 60_000,
      maxDelayMs: 60_000,
      waitingPerAddress: 1,
    });
    const app = await start({ guessing });
    const first = app.ask('/console/session', signIn('wrong-1'));
    await expect.poll(() => guessing.waiting).toBe(1);
    const second = await app.ask('/console/session', { ...signIn('wrong-2') });
    expect([second.status, second.headers.get('retry-after')]).toEqual([429, '60']);
    guessing.close();
    expect((await first).status).toBe(401);
  });

  test('an account that signs in all the time is put off, others are not', async () => {
    const app = await start();
    const statuses: number[] = [];
    for (let turn = 0; turn < 61; turn += 1) {
      statuses.push((await app.ask('/console/session', signIn('dev-reader'))).status);
    }
    expect(statuses.filter((status) => status === 429)).toHaveLength(1);
    expect((await app.ask('/console/session', signIn('other-reader'))).status).toBe(200);
    app.pass(60_000);
    expect((await app.ask('/console/session', signIn('dev-reader'))).status).toBe(200);
    expect((await app.database.query('SELECT * FROM console_sessions')).length).toBeLessThanOrEqual(101);
  });
});

describe('a session ends', () => {
  test('after 12 hours', async () => {
    const app = await start();
    const Cookie = await app.signIn('dev-reader');
    app.pass(12 * 3_600_000 - 1);
    expect((await app.ask(thing, { headers: { Cookie } })).status).toBe(200);
    app.pass(1);
    const late = await app.ask(thing, { headers: { Cookie } });
    expect([late.status, late.json.errors[0]?.message]).toEqual([
      401,
      'E_UNAUTHORIZED: The session has ended; sign in again',
    ]);
  });

  test('at once when its token is revoked, and when it expires', async () => {
    const app = await start();
    const now = app.clock.now();
    const wanted = { account: 'a1'.repeat(16), credential: 'editor', createdAt: now };
    const revoked = await app.tokens.create(wanted);
    const expiring = await app.tokens.create({ ...wanted, expiresAt: now + 1000 });
    const one = { headers: { Cookie: await app.signIn(revoked.token) } };
    const other = { headers: { Cookie: await app.signIn(expiring.token) } };
    expect([(await app.ask(thing, one)).status, (await app.ask(thing, other)).status]).toEqual([200, 200]);
    await app.tokens.revoke({ id: revoked.record.id, now });
    expect([(await app.ask(thing, one)).status, (await app.ask(thing, other)).status]).toEqual([401, 200]);
    app.pass(1000);
    expect((await app.ask(thing, other)).status).toBe(401);
  });

  test('when one signs out, and the browser forgets it', async () => {
    const app = await start();
    const Cookie = await app.signIn('dev-reader');
    const out = await app.ask('/console/session', { method: 'DELETE', headers: { Cookie } });
    expect([out.status, out.headers.getSetCookie()]).toEqual([
      200,
      [
        'postern_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict',
        '__Host-postern_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure',
      ],
    ]);
    expect((await app.ask(thing, { headers: { Cookie } })).status).toBe(401);
    expect((await app.ask('/console/session', { method: 'DELETE', headers: { Cookie } })).status).toBe(200);
  });

  test('when one signs in again with it, so that a session somebody else planted leads nowhere', async () => {
    const app = await start();
    const planted = await app.signIn('other-reader');
    const answer = await app.ask('/console/session', {
      ...signIn('dev-reader'),
      headers: { ...json, Cookie: planted },
    });
    expect(cookieOf(answer)).not.toBe(planted);
    expect((await app.ask(thing, { headers: { Cookie: planted } })).status).toBe(401);
  });
});

describe('what a session may not do', () => {
  test('read or change another account, but for admin', async () => {
    const app = await start();
    const path = '/client/v4/accounts/other/thing';
    const editor = { headers: { Cookie: await app.signIn('dev-editor') } };
    const boss = { headers: { Cookie: await app.signIn('dev-boss') } };
    expect((await app.ask(path, editor)).status).toBe(404);
    expect((await app.ask(path, { ...editor, method: 'POST' })).status).toBe(404);
    expect((await app.ask(path, boss)).json.result).toEqual({ account: 'other', credential: 'boss' });
  });

  test('change anything with console:read', async () => {
    const app = await start();
    const reader = { method: 'POST', headers: { Cookie: await app.signIn('dev-reader') } };
    const editor = { method: 'POST', headers: { Cookie: await app.signIn('dev-editor') } };
    const refused = await app.ask(thing, reader);
    expect([refused.status, refused.json.errors[0]?.message]).toEqual([
      403,
      'E_FORBIDDEN: The token lacks the scope email:events or console:edit',
    ]);
    expect((await app.ask(thing, editor)).status).toBe(200);
  });

  const forgeries: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ['the origin of another site', { Origin: 'https://evil.example', 'X-Postern-Console': '1' }],
    ['an origin that begins like ours', { Origin: 'OWN.evil.example', 'X-Postern-Console': '1' }],
    ['another port of this host', { Origin: 'http://127.0.0.1:1', 'X-Postern-Console': '1' }],
    ['another scheme', { Origin: 'SECURE', 'X-Postern-Console': '1' }],
    ['no origin', { 'X-Postern-Console': '1' }],
    ['the origin "null"', { Origin: 'null', 'X-Postern-Console': '1' }],
    ['several origins', { Origin: 'OWN https://evil.example', 'X-Postern-Console': '1' }],
    ['no header of the console', { Origin: 'OWN' }],
    ['another value of it', { Origin: 'OWN', 'X-Postern-Console': '0' }],
    [
      'a browser that tells of another site',
      { Origin: 'OWN', 'X-Postern-Console': '1', 'Sec-Fetch-Site': 'cross-site' },
    ],
    ['a browser that tells of the same domain', { 'X-Postern-Console': '1', 'Sec-Fetch-Site': 'same-site' }],
    ['a browser that tells of no page', { 'X-Postern-Console': '1', 'Sec-Fetch-Site': 'none' }],
  ];
  test.each(forgeries)('change or sign in: %s', async (_what, given) => {
    const app = await start();
    const own = Object.entries(given).map(([name, value]): [string, string] => [
      name,
      value.replace('OWN', app.base).replace('SECURE', app.base.replace('http', 'https')),
    ]);
    const headers = Object.fromEntries(own);
    const Cookie = await app.signIn('dev-editor');
    for (const [path, init] of [
      [thing, { method: 'POST', headers: { ...headers, Cookie } }],
      ['/console/session', { ...signIn('dev-reader'), headers: { ...headers, ...json } }],
      ['/console/session', { method: 'DELETE', headers: { ...headers, Cookie } }],
    ] as const) {
      const answer = await ask(`${app.base}${path}`, init);
      expect([path, answer.status, answer.headers.getSetCookie()]).toEqual([path, 403, []]);
    }
    expect((await app.ask(thing, { headers: { Cookie } })).status).toBe(200);
  });

  test('be read by a page of another origin, though its browser sends the cookie', async () => {
    const app = await start();
    const Cookie = await app.signIn('dev-reader');
    const from = async (site: string): Promise<number> =>
      (await ask(`${app.base}${thing}`, { headers: { Cookie, 'Sec-Fetch-Site': site } })).status;
    expect([await from('same-origin'), await from('none')]).toEqual([200, 200]);
    expect([await from('same-site'), await from('cross-site')]).toEqual([403, 403]);
  });

  test('change without Origin where the browser says that the page is of the same origin', async () => {
    const app = await start();
    const headers = {
      'X-Postern-Console': '1',
      'Sec-Fetch-Site': 'same-origin',
      Cookie: await app.signIn('dev-editor'),
    };
    expect((await ask(`${app.base}${thing}`, { method: 'POST', headers })).status).toBe(200);
  });
});

describe('cookies', () => {
  test('a token or key beside one counts alone', async () => {
    const app = await start();
    const Cookie = await app.signIn('dev-editor');
    const plain = (headers: Readonly<Record<string, string>>, method = 'GET') =>
      ask(`${app.base}${thing}`, { method, headers: { Cookie, ...headers } });
    expect((await plain({ Authorization: 'Bearer dev-reader' })).json.result).toMatchObject({ credential: 'reader' });
    expect((await plain({ Authorization: 'Bearer dev-reader' }, 'POST')).status).toBe(403);
    expect((await plain({ Authorization: 'Bearer nonsense' })).status).toBe(401);
    expect((await plain({ Authorization: 'Bearer other-reader' })).status).toBe(404);
    expect((await plain({ 'X-Auth-Email': 'dev@example.com', 'X-Auth-Key': 'wrong' })).status).toBe(401);
    // A program with a token needs neither Origin nor header.
    expect((await plain({ Authorization: 'Bearer dev-editor' }, 'POST')).status).toBe(200);
  });

  test('two of one name, or one that can be no secret, are no session', async () => {
    const app = await start();
    const own = await app.signIn('dev-reader');
    const planted = await app.signIn('other-reader');
    const ask1 = async (Cookie: string): Promise<number> => (await app.ask(thing, { headers: { Cookie } })).status;
    expect(await ask1(own)).toBe(200);
    expect(await ask1(`a=b; ${own}; c="d; e"`)).toBe(200);
    expect(await ask1(`${own}; ${planted}`)).toBe(401);
    expect(await ask1(`${planted}; ${own}`)).toBe(401);
    for (const value of ['', 'x', 'x'.repeat(43), `${'x'.repeat(42)}'`, '%27', 'a'.repeat(8000)]) {
      expect([value, await ask1(`postern_session=${value}`)]).toEqual([value, 401]);
    }
    expect(await ask1('postern_sessions=1; POSTERN_SESSION=1')).toBe(401);
  });

  test('a bomb of them is refused with the head, quickly forgotten', async () => {
    const app = await start();
    const many = Array.from({ length: 3000 }, (_, index) => `postern_session=${index}`).join('; ');
    expect((await app.ask(thing, { headers: { Cookie: many } })).status).toBe(431);
    const fewer = Array.from({ length: 1000 }, () => `postern_session=1`).join('; ');
    expect((await app.ask(thing, { headers: { Cookie: fewer } })).status).toBe(401);
  });

  test('over HTTPS, which a trusted proxy speaks, the cookie is of this host alone', async () => {
    const app = await start({ more: { trustedProxies: ['127.0.0.1'] } });
    const proxied = {
      'X-Forwarded-Proto': 'https',
      'X-Forwarded-Host': 'gateway.example',
      'X-Forwarded-For': '192.0.2.1',
    };
    const Origin = 'https://gateway.example';
    const opened = await app.ask('/console/session', {
      ...signIn('dev-editor'),
      headers: { ...json, ...proxied, Origin },
    });
    expect(opened.headers.getSetCookie()).toEqual([
      expect.stringMatching(
        /^__Host-postern_session=[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure$/,
      ),
    ]);
    const Cookie = cookieOf(opened);
    expect((await app.ask(thing, { method: 'POST', headers: { ...proxied, Origin, Cookie } })).status).toBe(200);
    // The plain name could have been set by any host of the domain.
    const plain = Cookie.replace('__Host-', '');
    expect((await app.ask(thing, { headers: { ...proxied, Cookie: plain } })).status).toBe(401);
    expect((await app.ask(thing, { headers: { ...proxied, Cookie: `${plain}x; ${Cookie}` } })).status).toBe(200);
  });

  test('a proxy that is not trusted speaks HTTPS: the public URL and the origin tell so', async () => {
    const publicUrl = 'https://gateway.example';
    const app = await start({ settings: { publicUrl } });
    const opened = await app.ask('/console/session', {
      ...signIn('dev-editor'),
      headers: { ...json, Origin: publicUrl },
    });
    expect(opened.headers.getSetCookie()[0]).toMatch(/^__Host-.*; Secure$/);
    const foreign = { ...json, Origin: 'https://elsewhere.example' };
    const refused = await app.ask('/console/session', { ...signIn('dev-editor'), headers: foreign });
    expect(refused.json.errors[0]?.message).toBe(
      'E_FORBIDDEN: Origin "https://elsewhere.example" is not the console\'s own; set console.publicUrl if people reach it there',
    );
  });
});

test('a session ends where its token may use the console no more', async () => {
  const app = await start();
  const { token } = await app.tokens.create({
    account: 'a1'.repeat(16),
    credential: 'editor',
    createdAt: 1,
    scopes: ['console:edit'],
  });
  const headers = { Cookie: await app.signIn(token) };
  expect((await app.ask(thing, { headers })).status).toBe(200);
  await app.database.run("UPDATE tokens SET scopes = 'email:send'");
  expect((await app.ask(thing, { headers })).status).toBe(401);
  expect((await app.ask('/console/session', { headers })).json.result).toBeNull();
});

describe('a link that signs in once', () => {
  const linked = { account: 'a1'.repeat(16), credential: 'boss' };
  const offer = async ({ store, clock }: ConsoleApp): Promise<string> =>
    `/console/sign-in/${await store.offerLink({ ...linked, now: clock.now(), expiresAt: clock.now() + 1000 })}`;

  test('leads to the first page with a session, the second time without', async () => {
    const { log, lines } = logLines();
    const app = await start({ settings: { linked }, log });
    const link = await offer(app);
    const code = link.slice(-43);
    const head = await ask(`${app.base}${link}`, { method: 'HEAD' });
    expect([head.status, head.headers.getSetCookie()]).toEqual([200, []]);
    const noVisits: readonly Record<string, string>[] = [
      { 'Sec-Purpose': 'prefetch' },
      { 'Sec-Purpose': 'prefetch;prerender' },
      { Purpose: 'prefetch' },
      { 'X-Purpose': 'preview' },
      { 'X-Moz': 'prefetch' },
      { 'Sec-Fetch-Dest': 'image' },
    ];
    for (const headers of noVisits) {
      expect((await ask(`${app.base}${link}`, { headers })).status).toBe(403);
    }
    const hostile = { 'X-Forwarded-Host': 'evil.example', 'Sec-Fetch-Dest': 'document', 'Sec-Fetch-Site': 'none' };
    const once = await ask(`${app.base}${link}`, { headers: hostile, redirect: 'manual' });
    expect([once.status, once.headers.get('location'), once.headers.get('referrer-policy')]).toEqual([
      303,
      '/console',
      'no-referrer',
    ]);
    const Cookie = cookieOf(once);
    expect((await app.ask(thing, { headers: { Cookie } })).json.result).toEqual({ account: 'dev', credential: 'boss' });
    const twice = await ask(`${app.base}${link}`, { redirect: 'manual' });
    expect([twice.status, twice.headers.get('location'), twice.headers.getSetCookie()]).toEqual([
      303,
      '/console?notice=link',
      [],
    ]);
    const logged = JSON.stringify(lines);
    expect(logged).toContain('/console/sign-in/...');
    expect(logged).not.toContain(code);
    expect(logged).not.toContain(Cookie.slice(-43));
  });

  test('lets in nobody any more where links sign in another account, another credential or none', async () => {
    const first = await start({ settings: { linked } });
    const { database } = first;
    const Cookie = cookieOf(await ask(`${first.base}${await offer(first)}`, { redirect: 'manual' }));
    for (const [settings, status] of [
      [{ linked }, 200],
      [{ linked: { ...linked, account: 'b2'.repeat(16) } }, 401],
      [{ linked: { ...linked, credential: 'editor' } }, 401],
      [{}, 401],
    ] as const) {
      const app = await start({ settings, database });
      expect([settings, (await app.ask(thing, { headers: { Cookie } })).status]).toEqual([settings, status]);
    }
  });

  test('lets in one of many who use it at once', async () => {
    const app = await start({ settings: { linked } });
    const link = await offer(app);
    const visits = await Promise.all(
      Array.from({ length: 6 }, () => ask(`${app.base}${link}`, { redirect: 'manual' })),
    );
    const found = visits.map((visit) => [visit.headers.get('location'), visit.headers.getSetCookie().length]);
    expect(found.toSorted(([one], [two]) => String(one).localeCompare(String(two)))).toEqual([
      ['/console', 1],
      ...Array.from({ length: 5 }, () => ['/console?notice=link', 0]),
    ]);
    expect(await app.database.query('SELECT count(*) AS n FROM console_sessions')).toEqual([{ n: 1 }]);
  });

  test('expires, and wrong ones count as wrong tokens do', async () => {
    const guessing = new Guessing({});
    const app = await start({ settings: { linked }, guessing });
    const link = await offer(app);
    app.pass(1000);
    const locations = await Promise.all(
      [link, `/console/sign-in/${'x'.repeat(43)}`, '/console/sign-in/x'].map(async (path) =>
        (await ask(`${app.base}${path}`, { redirect: 'manual' })).headers.get('location'),
      ),
    );
    expect(locations).toEqual(Array.from({ length: 3 }, () => '/console?notice=link'));
    expect(guessing.addresses).toBe(1);
  });

  test('signs in nobody where the configuration no longer has development', async () => {
    const app = await start({ settings: {} });
    const Cookie = cookieOf(await ask(`${app.base}${await offer(app)}`, { redirect: 'manual' }));
    expect((await app.ask(thing, { headers: { Cookie } })).status).toBe(401);
  });
});
