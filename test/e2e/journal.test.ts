// The journal of a running gateway: what was said and decided about each message, by SMTP and by REST.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTransport } from 'nodemailer';
import { afterAll, afterEach, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { projectRoot, testToken } from '../support/postern-process.ts';

let postern: PosternHere | undefined;
afterEach(async () => {
  await postern?.cleanUp();
  postern = undefined;
});

let kept: Promise<PosternHere> | undefined;
afterAll(async () => (await kept)?.cleanUp());

/** A gateway with the shipped configuration for the tests that look at their own messages alone. */
const shared = (): Promise<PosternHere> => (kept ??= startHere());

/** Answers are of many shapes here; what a test reads of one it also compares. */
// oxlint-disable-next-line typescript/no-explicit-any -- see above
type Json = any;

interface Answer {
  readonly status: number;
  readonly body: { readonly result: Json; readonly errors: Json; readonly result_info?: Json; readonly messages: Json };
}

async function ask(
  running: PosternHere,
  path: string,
  init: { readonly method?: string; readonly body?: string } = {},
): Promise<Answer> {
  const answer = await fetch(`http://127.0.0.1:${running.ports['http']}/client/v4${path}`, {
    ...init,
    headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
  });
  return { status: answer.status, body: (await answer.json()) as Answer['body'] };
}

const journal = '/accounts/dev/email/sending/journal';

function send(running: PosternHere, raw: string, to = 'a@partner.test'): Promise<{ readonly response: string }> {
  const transport = createTransport({
    host: '127.0.0.1',
    port: running.ports['submission'] ?? 0,
    requireTLS: true,
    name: 'client.example',
    tls: { rejectUnauthorized: false },
    auth: { user: 'api_token', pass: testToken },
  });
  return transport.sendMail({ envelope: { from: 'shop@example.com', to: [to] }, raw });
}

const good =
  'From: Shop <shop@example.com>\r\nTo: a@partner.test\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?= one\r\nX-Campaign: spring\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nHi.\r\n';
const bad =
  'From: Shop <shop@example.com>\r\nTo: a@partner.test\r\nSubject: two\r\nUser-Agent: s-nail v14.9.24\r\n\r\nHi.\r\n';

test('tells of accepted and refused messages what was said, decided and kept', async () => {
  const running = (postern = await startHere());
  await send(running, good);
  await expect(send(running, bad)).rejects.toThrow('E_HEADER_NOT_ALLOWED');
  const body = {
    from: 'shop@example.com',
    to: 'b@partner.test',
    subject: 'three',
    text: 'x',
    headers: { Bcc: 'x@y.example' },
  };
  const sent = await ask(running, '/accounts/dev/email/sending/send', { method: 'POST', body: JSON.stringify(body) });
  expect(sent.status, `${JSON.stringify(sent.body)}\n${running.output()}`).toBe(400);
  const rows = await vi.waitFor(
    async () => {
      const { result } = (await ask(running, journal)).body;
      expect(result).toHaveLength(3);
      expect(result[2].outcome).toBe('delivered');
      return result;
    },
    { timeout: 10_000, interval: 50 },
  );
  const [byRest, refused, accepted] = rows;
  const metrics = await (await fetch(`http://127.0.0.1:${running.ports['http']}/metrics`)).text();
  expect(metrics).toContain('postern_journal_rows_total{outcome="accepted"} 1\n');
  expect(metrics).toContain('postern_journal_rows_total{outcome="refused"} 2\n');
  expect(metrics).toMatch(/^postern_journal_content_bytes [1-9]/m);
  expect(byRest).toMatchObject({ outcome: 'refused', via: 'rest', subject: 'three', fields: ['Bcc'] });
  expect(refused).toMatchObject({
    account: 'dev',
    credential: 'default',
    outcome: 'refused',
    via: 'smtp',
    client: '127.0.0.1',
    helo: 'client.example',
    mailer: 'User-Agent: s-nail v14.9.24',
    sender: 'shop@example.com',
    recipients: ['a@partner.test'],
    recipient_count: 1,
    subject: 'two',
    codes: ['E_HEADER_NOT_ALLOWED'],
    fields: ['User-Agent'],
    message_id: null,
  });
  expect(accepted).toMatchObject({ subject: 'Grüße one', codes: [], fields: [], size: good.length });

  const one = (await ask(running, `${journal}/${refused.id}`)).body.result;
  expect(one.verdicts.map(({ name, verdict }: { name: string; verdict: string }) => `${name} ${verdict}`)).toEqual([
    'From lifted',
    'To lifted',
    'Subject lifted',
    'User-Agent refused',
  ]);
  expect(one.verdicts[3]).toMatchObject({
    value: 's-nail v14.9.24',
    code: 'E_HEADER_NOT_ALLOWED',
    cure: { kind: 'config', yaml: 'strip: [User-Agent]' },
  });
  const said = one.dialogue.map(({ from, line }: { from: string; line: string }) => `${from[0]} ${line}`);
  expect(said).toContain('c MAIL FROM:<shop@example.com>');
  expect(said).toContain('c AUTH PLAIN [not kept]');
  expect(said.at(-1)).toMatch(/^s 554 5\.7\.1 E_HEADER_NOT_ALLOWED: /);
  expect(JSON.stringify(one)).not.toContain(Buffer.from(`\0api_token\0${testToken}`).toString('base64'));
  expect(one).toMatchObject({ tls: { version: 'TLSv1.3' }, content: 'full', stage: 'message', reply: { code: 554 } });

  const delivered = (await ask(running, `${journal}/${accepted.id}`)).body.result;
  const verdicts = delivered.verdicts.map(
    ({ name, verdict, added }: { name: string; verdict: string; added?: boolean }) =>
      `${added ? '+' : ''}${name} ${verdict}`,
  );
  expect(verdicts).toEqual(
    expect.arrayContaining([
      'Date replaced',
      'X-Campaign kept',
      'Content-Type read',
      '+Message-ID kept',
      '+Date kept',
      '+DKIM-Signature kept',
    ]),
  );
  expect(delivered.recipient_states).toMatchObject([{ address: 'a@partner.test', state: 'delivered' }]);
  expect(delivered.timings.map(({ stage }: { stage: string }) => stage)).toEqual([
    'read',
    'check',
    'compose',
    'sign',
    'first attempt',
    'delivered',
  ]);
  expect((await ask(running, `/accounts/payg/email/sending/journal/${accepted.id}`)).status).toBe(404);
  const all = await ask(running, '/email/sending/journal?per_page=1');
  expect(all.body.result).toMatchObject([{ id: byRest.id }]);
  const next = await ask(running, `/email/sending/journal?per_page=1&cursor=${all.body.result_info.cursor}`);
  expect(next.body.result).toMatchObject([{ id: refused.id }]);
  for (const [query, ids] of [
    ['search=gr%C3%BCsse', []],
    ['search=grusse', []],
    ['search=gru%C3%9Fe', [accepted.id]],
    ['search=partner+tes', [byRest.id, refused.id, accepted.id]],
    ['outcome=refused&code=E_HEADER_NOT_ALLOWED', [refused.id]],
    ['outcome=refused', [byRest.id, refused.id]],
    ['field=user-agent', [refused.id]],
    ['client=127.0.0.1&outcome=delivered', [accepted.id]],
    ['credential=nobody', []],
  ] as const) {
    const found = (await ask(running, `${journal}?${query}`)).body.result.map(({ id }: { id: string }) => id);
    expect([query, found]).toEqual([query, ids]);
  }
});

test('names the entry in the answer, shows its content, groups, sends again and tells of it as it comes', async () => {
  const config = { ...(parse(readFileSync(join(projectRoot, 'config/postern.yaml'), 'utf8')) as object) };
  const listen = {
    smtp: {
      hostname: 'mx.platform.example',
      listeners: [{ name: 'submission', listen: '127.0.0.1:0', tls: 'starttls' }],
    },
    http: { listen: '127.0.0.1:0', tlsListen: '' },
    console: { publicUrl: 'https://gateway.test' },
  };
  const running = (postern = await startHere({ config: { ...config, ...listen } }));
  const watched = await fetch(`http://127.0.0.1:${running.ports['http']}/client/v4/accounts/dev/email/sending/live`, {
    headers: { Authorization: `Bearer ${testToken}` },
  });
  expect(watched.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  const watch = () =>
    fetch(`http://127.0.0.1:${running.ports['http']}/client/v4/accounts/dev/email/sending/live`, {
      headers: { Authorization: `Bearer ${testToken}` },
    });
  const others = await Promise.all(Array.from({ length: 19 }, watch));
  expect((await watch()).status).toBe(429);
  for (const other of others) await other.body?.cancel();
  const reader = watched.body?.pipeThrough(new TextDecoderStream()).getReader();

  const refusal = await send(running, bad).then(
    () => 'accepted',
    (error: { response: string }) => error.response,
  );
  const id = /\n554 5\.7\.1 See https:\/\/gateway\.test\/m\/([0-9a-f-]{36})$/.exec(refusal)?.[1];
  expect(id).toBeDefined();
  const body = JSON.stringify({
    from: 'shop@example.com',
    to: 'b@partner.test',
    subject: 'three',
    text: 'x',
    headers: { Bcc: 'x' },
  });
  const { errors } = (await ask(running, '/accounts/dev/email/sending/send', { method: 'POST', body })).body;
  expect(errors[0].documentation_url).toMatch(/^https:\/\/gateway\.test\/m\/[0-9a-f-]{36}$/);
  expect(errors[0].rule_url).toBe('https://gateway.test/headers/Bcc');
  let told = '';
  while (!told.includes('"via":"rest"')) told += (await reader?.read())?.value ?? '';
  expect(told).toContain(`"id":"${id}"`);
  await reader?.cancel();

  const entry = `${journal}/${id}`;
  const raw = await fetch(`http://127.0.0.1:${running.ports['http']}/client/v4${entry}/received`, {
    headers: { Authorization: `Bearer ${testToken}` },
  });
  expect([raw.headers.get('content-type'), await raw.text()]).toEqual(['message/rfc822', bad]);
  expect((await ask(running, `${entry}/sent`)).body.errors[0].message).toMatch('nothing has left');
  expect((await ask(running, `${entry}/preview`)).body.result).toMatchObject({
    received: { text: 'Hi.\n', html: null, attachments: [], truncated: false },
    sent: null,
  });
  expect((await ask(running, `${entry}/resend`, { method: 'POST' })).body.errors[0].message).toMatch(
    'E_HEADER_NOT_ALLOWED',
  );
  await vi.waitFor(async () => {
    const groups = (await ask(running, '/accounts/dev/email/sending/refusals')).body.result;
    expect(groups).toMatchObject([
      {
        credential: 'default',
        mailer: 'User-Agent: s-nail v14.9.24',
        field: 'User-Agent',
        count: 2,
        cure: { yaml: 'strip: [User-Agent]' },
      },
      { code: 'E_HEADER_USE_API_FIELD', field: 'Bcc', count: 1 },
    ]);
  }, 10_000);

  await send(running, good);
  const [row] = (await ask(running, `${journal}?per_page=1`)).body.result;
  const again = await ask(running, `${journal}/${row.id}/resend`, { method: 'POST' });
  expect([again.status, again.body.result.id === row.id]).toEqual([200, false]);
  const verdicts = (await ask(running, `${journal}/${again.body.result.id}/dkim`)).body.result;
  expect(verdicts.map(({ domain, result }: Json) => `${domain} ${result}`)).toEqual(
    expect.arrayContaining(['example.com pass', 'platform.example pass']),
  );
});

test('refusals: one cure for each credential, and suppressed recipients as the overview counts them', async () => {
  const running = (postern = await startHere());
  for (const address of ['gone@partner.test', 'left@partner.test']) {
    const body = JSON.stringify({ address });
    expect((await ask(running, '/accounts/dev/email/sending/suppressions', { method: 'POST', body })).status).toBe(200);
    await expect(send(running, good, address)).rejects.toThrow('is on the suppression list');
  }
  await expect(send(running, bad)).rejects.toThrow('User-Agent');
  await expect(send(running, good.replace('Subject', 'Precedence: urgent\r\nSubject'))).rejects.toThrow('Precedence');

  const groups = await vi.waitFor(async () => {
    const { result } = (await ask(running, '/accounts/dev/email/sending/refusals')).body;
    expect(result).toHaveLength(3);
    return result;
  }, 10_000);
  expect(groups[0]).toMatchObject({ code: 'E_RECIPIENT_SUPPRESSED', field: null, count: 2, cure: { kind: 'program' } });
  expect((await ask(running, `${journal}/${groups[0].example}`)).body.result.recipients).toEqual(['left@partner.test']);
  // The lines of both groups are the same, so whoever puts in those of one has cured the other too.
  const yaml = 'strip: [User-Agent]\nstripInvalid: [Precedence]';
  expect(groups.slice(1).map(({ cure }: Json) => cure.yaml)).toEqual([yaml, yaml]);
  const needs = groups.map(({ cure }: Json) => /this one needs (.*?\])\./.exec(cure.text)?.[1]).toSorted();
  expect(needs).toEqual(['strip: [User-Agent]', 'stripInvalid: [Precedence]', undefined]);

  const { reasons } = (await ask(running, '/accounts/dev/email/sending/overview')).body.result;
  const told = ({ code, field, count }: Json) => `${code} ${field} ${count}`;
  expect(groups.map(told).toSorted()).toEqual(reasons.map(told).toSorted());
});

test('keeps no row where the journal is off, says so, and still shows the rows of before', async () => {
  const shipped = parse(readFileSync(join(projectRoot, 'config/postern.yaml'), 'utf8')) as Record<string, object>;
  const config = (enabled: boolean) => ({
    ...shipped,
    smtp: {
      hostname: 'mx.platform.example',
      listeners: [{ name: 'submission', listen: '127.0.0.1:0', tls: 'starttls' }],
    },
    http: { listen: '127.0.0.1:0', tlsListen: '' },
    console: { publicUrl: 'https://gateway.test' },
    journal: { ...shipped['journal'], enabled },
  });
  const before = (postern = await startHere({ config: config(true) }));
  await send(before, good);
  const [old] = (await ask(before, journal)).body.result;
  await before.stop();

  const running = (postern = await startHere({ config: config(false), folder: before.folder }));
  const refusal = await send(running, bad).then(
    () => 'accepted',
    (error: { response: string }) => error.response,
  );
  expect(refusal).toMatch('E_HEADER_NOT_ALLOWED');
  expect(refusal).not.toMatch('gateway.test');
  const body = { from: 'shop@example.com', to: 'b@partner.test', subject: 'x', text: 'x', headers: { Bcc: 'x' } };
  const byRest = await ask(running, '/accounts/dev/email/sending/send', { method: 'POST', body: JSON.stringify(body) });
  expect([byRest.status, Object.keys(byRest.body.errors[0])]).toEqual([400, ['code', 'message', 'rule_url', 'source']]);
  const { response } = await send(running, good);
  await vi.waitFor(() => expect(running.captured()).toHaveLength(2), { timeout: 10_000 });

  const off = [{ message: expect.stringMatching('The journal is off.*journal.enabled: true') }];
  await vi.waitFor(async () => {
    const refusals = (await ask(running, '/accounts/dev/email/sending/refusals')).body;
    expect(refusals).toMatchObject({ messages: off, result: [{ count: 1 }, { count: 1 }] });
    expect(refusals.result.map(({ example }: Json) => example)).toEqual([null, null]);
  }, 10_000);
  for (const path of [journal, '/email/sending/journal'])
    expect((await ask(running, path)).body).toMatchObject({ messages: off, result: [{ id: old.id }] });
  expect((await ask(running, `${journal}/${old.id}`)).body.result).toMatchObject({
    subject: 'Grüße one',
    content: 'full',
  });
  const id = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(response)?.[0];
  expect(id).toBeDefined();
  for (const path of [`${journal}/${id}`, '/accounts/dev/email/sending/live', '/email/sending/live']) {
    const answer = await ask(running, path);
    expect([answer.status, answer.body.errors[0].message]).toEqual([404, expect.stringMatching('The journal is off')]);
  }
});

test('the search finds what names a message: its id, its Message-ID, the client’s own, the id of a refusal', async () => {
  const running = await shared();
  const { response } = await send(
    running,
    good.replace('X-Campaign', 'Message-ID: <own.1@client.example>\r\nX-Campaign'),
  );
  await send(running, good.replace('one', 'another'));
  await expect(send(running, bad)).rejects.toThrow('E_HEADER_NOT_ALLOWED');
  const rows = async (query: string, path = journal): Promise<Json[]> =>
    (await ask(running, `${path}?${query}`)).body.result as Json[];
  // Refusals are written some at a time.
  const all = await vi.waitFor(async () => {
    const listed = await rows('per_page=10');
    expect(listed).toHaveLength(3);
    return listed;
  }, 10_000);
  const first = all.find(({ subject }) => subject === 'Grüße one');
  const refused = all.find(({ outcome }) => outcome === 'refused');
  expect(response).toContain(first.id);
  const found = async (q: string, more = '', path = journal): Promise<unknown> =>
    (await rows(`search=${encodeURIComponent(q)}${more}`, path)).map(({ id }) => id);
  for (const q of [
    first.id,
    first.id.toUpperCase(),
    first.message_id,
    `<${first.message_id}>`,
    '<own.1@client.example>',
  ])
    expect([q, await found(q)]).toEqual([q, [first.id]]);
  expect(await found('own.1@client.example', '&per_page=1')).toEqual([first.id]);
  expect(await found(refused.id)).toEqual([refused.id]);
  // What else is asked holds as well, and another account's message is not found.
  expect(await found(first.id, '&outcome=refused')).toEqual([]);
  expect(await found(first.id, '&credential=other')).toEqual([]);
  expect(await found(first.id, '&since=2099-01-01T00:00:00Z')).toEqual([]);
  for (const q of [first.id, first.message_id, 'own.1@client.example', refused.id])
    expect([q, await found(q, '', journal.replace('dev', 'payg'))]).toEqual([q, []]);
  expect(await found(first.id, '', '/email/sending/journal')).toEqual([first.id]);
  expect(await found('a@partner.test')).toHaveLength(3);
});

test('a preview says that the body was not kept, and does not take it for a message without text', async () => {
  const running = await shared();
  await send(running, good.replace('Hi.', 'x'.repeat(70).concat('\r\n').repeat(4000)));
  await send(running, good.replace('Hi.\r\n', ''));
  const [empty, large] = (await ask(running, `${journal}?per_page=2`)).body.result as Json[];
  const sides = async ({ id }: Json): Promise<Json> => (await ask(running, `${journal}/${id}/preview`)).body.result;
  expect((await ask(running, `${journal}/${large.id}`)).body.result.content_note).toMatch(
    /^the body has 288002 octets, and bodies over 262144 \(journal\.maxBodyOctets\) are not kept$/,
  );
  expect(await sides(large)).toMatchObject({ received: { body_kept: false, text: null }, sent: { body_kept: false } });
  expect(await sides(empty)).toMatchObject({ received: { body_kept: true }, sent: { body_kept: true } });
});

test('keeps a body over 256 KiB where the configuration says so', async () => {
  const shipped = parse(readFileSync(join(projectRoot, 'config/postern.yaml'), 'utf8')) as {
    smtp: object;
    http: object;
  };
  const running = (postern = await startHere({
    config: {
      ...shipped,
      smtp: {
        hostname: 'mx.platform.example',
        listeners: [{ name: 'submission', listen: '127.0.0.1:0', tls: 'starttls' }],
      },
      http: { listen: '127.0.0.1:0', tlsListen: '' },
      journal: { content: 'full', maxBodyOctets: 400_000 },
    },
  }));
  await send(running, good.replace('Hi.', 'x'.repeat(70).concat('\r\n').repeat(4000)));
  const [row] = (await ask(running, `${journal}?per_page=1`)).body.result as Json[];
  const { body } = await ask(running, `${journal}/${row.id}/preview`);
  expect(body.result).toMatchObject({ received: { body_kept: true }, sent: { body_kept: true } });
  expect([body.result.received.text.length, body.result.sent.text.length]).toEqual([284_001, 284_001]);
});
