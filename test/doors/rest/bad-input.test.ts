// Input of the worst kind: each a clear 4xx with its place, never a 500, nothing queued.

import { expect, test } from 'vitest';
import fc, { anyCharacter } from '../../support/properties.ts';
import { goodMessage, type RestGateway, startRest } from '../../support/rest-gateway.ts';

const good = goodMessage;

async function refused(rest: RestGateway, body: unknown, endpoint = 'send'): Promise<string[]> {
  const answer = await rest.post(endpoint, body);
  expect(answer.status, answer.text.slice(0, 300)).toBeGreaterThanOrEqual(400);
  expect(answer.status, answer.text.slice(0, 300)).toBeLessThan(500);
  expect(answer.json).toMatchObject({ success: false, messages: [], result: null });
  for (const { message } of answer.json.errors) expect(message).toMatch(/^E_[A-Z_]+: \S/);
  return answer.json.errors.map(({ message, source }) => `${message.split(':', 1)[0]} ${source?.pointer ?? ''}`);
}

test('bodies that are no JSON, or JSON that is no message', async () => {
  const rest = await startRest();
  const bodies = [
    '',
    ' ',
    '{',
    '}',
    '{"from":}',
    '{"from":"a",}',
    '[',
    'nul',
    'tru',
    '01',
    '-',
    '1.',
    '1e',
    '"',
    '"\\x"',
    '"\\u12"',
    '{"a":1}}',
    "{'a':1}",
    '\u0000',
    '{"a":"\u0001"}',
    '{"a"\n:\t1 , "b" : "\r"}',
    'NaN',
    'Infinity',
    '// x\n{}',
    '{"a":1 "b":2}',
    '{a:1}',
    '\ufeff\ufeff{}',
    '1'.repeat(5000),
    '['.repeat(100_000),
    '{"a":'.repeat(100_000),
    `${'['.repeat(17)}${']'.repeat(17)}`,
    `[${'1,'.repeat(20_000)}1]`,
    '"x"',
    '5',
    'null',
    '[]',
    'true',
  ];
  for (const body of bodies)
    expect((await refused(rest, body))[0], body.slice(0, 40)).toMatch(/^E_(VALIDATION_ERROR|UNSUPPORTED_MEDIA_TYPE)/);
  expect(await rest.queued()).toBe(0);
});

test('octets that are no UTF-8', async () => {
  const rest = await startRest();
  const answer = await fetch(`${rest.base}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { Authorization: 'Bearer dev-default', 'Content-Type': 'application/json' },
    body: Buffer.from('{"subject":"\xff"}', 'latin1'),
  });
  expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('is not UTF-8')]);
});

test('repeated names: in headers of the header, elsewhere of the field', async () => {
  const rest = await startRest();
  const body = `{"from":"shop@example.com","to":"a@b.test","to":"c@d.test","subject":"x","text":"x","headers":{"X-A":"1","x-a":"1","X-B":"1","X-B":"2"},"attachments":[{"content":"","content":""}]}`;
  expect(await refused(rest, body)).toEqual([
    'E_VALIDATION_ERROR /to',
    'E_VALIDATION_ERROR /attachments/0/content',
    'E_HEADER_VALUE_INVALID /headers/X-A',
    'E_HEADER_VALUE_INVALID /headers/X-B',
  ]);
});

test('names of the prototype are ordinary names', async () => {
  const rest = await startRest();
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    const member = `"${name}":{"polluted":"yes"}`;
    expect(
      await refused(rest, `{"from":"shop@example.com","to":"a@b.test","subject":"x","text":"x",${member}}`),
    ).toEqual([`E_VALIDATION_ERROR /${name}`]);
    expect(
      await refused(rest, `{"from":"shop@example.com","to":{"address":"a@b.test",${member}},"subject":"x","text":"x"}`),
    ).toEqual([`E_VALIDATION_ERROR /to/${name}`]);
    const headers = await refused(
      rest,
      `{"from":"shop@example.com","to":"a@b.test","subject":"x","text":"x","headers":{${member}}}`,
    );
    expect(headers).toHaveLength(1);
    expect(headers[0]).toMatch(/^E_HEADER_(NAME_INVALID|NOT_ALLOWED) /);
  }
  expect(Reflect.get({}, 'polluted')).toBeUndefined();
});

test('lone surrogates, wherever text can stand', async () => {
  const rest = await startRest();
  const lone = '\\ud800';
  const at = (member: string): string =>
    `{"from":"shop@example.com","to":"a@b.test","subject":"x","text":"x",${member}}`;
  for (const field of ['subject', 'text']) {
    const body = at(`"html":"x"`).replace(`"${field}":"x"`, `"${field}":"${lone}"`);
    expect(await refused(rest, body)).toEqual([`E_VALIDATION_ERROR /${field}`]);
  }
  expect(await refused(rest, at(`"html":"${lone}"`))).toEqual(['E_VALIDATION_ERROR /html']);
  expect(await refused(rest, at(`"cc":{"address":"a@b.test","name":"${lone}"}`))).toEqual([
    'E_VALIDATION_ERROR /cc/name',
  ]);
  expect(await refused(rest, at(`"attachments":[{"content":"","filename":"${lone}"}]`))).toEqual([
    'E_VALIDATION_ERROR /attachments/0/filename',
  ]);
  expect(await refused(rest, at(`"headers":{"X-A":"${lone}"}`))).toEqual(['E_HEADER_VALUE_INVALID /headers/X-A']);
  expect((await refused(rest, at(`"headers":{"X-${lone}":"x"}`)))[0]).toMatch(/^E_HEADER_NAME_INVALID /);
});

test.each(['\r\n', '\n', '\r', '\r\nBcc: x@y.test', '\u0000', '\u2028', '\u0085'])(
  'a line break %j in every text field',
  async (bad) => {
    const rest = await startRest();
    const named = (address: string, name: string): object => ({ address, name });
    const cases: readonly (readonly [object, string])[] = [
      [{ from: `Shop${bad} <shop@example.com>` }, '/from'],
      [{ from: `shop@example.com${bad}` }, '/from'],
      [{ from: named(`shop@example.com${bad}`, 'x') }, '/from/address'],
      [{ from: named('shop@example.com', `x${bad}y`) }, '/from/name'],
      [{ to: `a${bad}@b.test` }, '/to'],
      [{ to: [`"a${bad}" <a@b.test>`] }, '/to/0'],
      [{ cc: named('a@b.test', `x${bad}y`) }, '/cc/name'],
      [{ bcc: `a@b.test${bad}` }, '/bcc'],
      [{ reply_to: named(`a@b${bad}.test`, 'x') }, '/reply_to/address'],
      [{ subject: `x${bad}y` }, '/subject'],
      [{ attachments: [{ content: '', filename: `x${bad}y` }] }, '/attachments/0/filename'],
      [{ attachments: [{ content: '', type: `text/plain${bad}` }] }, '/attachments/0/type'],
      [{ attachments: [{ content: '', disposition: `inline${bad}` }] }, '/attachments/0/disposition'],
      [{ attachments: [{ content: '', content_id: `x${bad}y` }] }, '/attachments/0/content_id'],
      [{ attachments: [{ content: `AAAA${bad}` }] }, '/attachments/0/content'],
    ];
    for (const [member, pointer] of cases) {
      expect(await refused(rest, { ...good, ...member }), JSON.stringify(member)).toEqual([
        `E_VALIDATION_ERROR ${pointer}`,
      ]);
    }
    // D11: of header values only CR, LF, NUL and the other C0 controls.
    if (bad < '\u0020')
      expect(await refused(rest, { ...good, headers: { 'X-A': `x${bad}y` } })).toEqual([
        'E_HEADER_VALUE_INVALID /headers/X-A',
      ]);
    expect((await refused(rest, { ...good, headers: { [`X-A${bad}`]: 'x' } }))[0]).toMatch(/^E_HEADER_NAME_INVALID /);
    const raw = { from: 'shop@example.com', recipients: ['a@b.test'], mime_message: 'From: shop@example.com\r\n\r\nx' };
    expect(await refused(rest, { ...raw, from: `shop@example.com${bad}` }, 'send_raw')).toEqual([
      'E_VALIDATION_ERROR /from',
    ]);
    expect(await refused(rest, { ...raw, recipients: [`a@b.test${bad}`] }, 'send_raw')).toEqual([
      'E_VALIDATION_ERROR /recipients/0',
    ]);
    expect(await rest.queued()).toBe(0);
  },
);

test('base64 that is not', async () => {
  const rest = await startRest();
  for (const content of [
    'A',
    'AA',
    'AAA',
    'AAAAA',
    'AA==A',
    'A===',
    '====',
    '=',
    'AA=A',
    'AAA-',
    'AAA_',
    'AAAA\nAAAA',
    'ÄAAA',
    'data:text/plain;base64,AAAA',
    'AAAA ',
  ]) {
    expect(await refused(rest, { ...good, attachments: [{ content }] }), content).toEqual([
      'E_VALIDATION_ERROR /attachments/0/content',
    ]);
  }
  for (const content of [5, null, [], {}]) {
    expect(await refused(rest, { ...good, attachments: [{ content }] })).toEqual([
      'E_VALIDATION_ERROR /attachments/0/content',
    ]);
  }
  expect(await refused(rest, { ...good, attachments: [{ filename: 'x' }, 'x', null] })).toEqual([
    'E_FIELD_MISSING /attachments/0/content',
    'E_VALIDATION_ERROR /attachments/1',
    'E_VALIDATION_ERROR /attachments/2',
  ]);
});

test('attachments that cannot be attached', async () => {
  const rest = await startRest();
  const attached = (more: object): object => ({ ...good, attachments: [{ content: 'AAAA', ...more }] });
  expect(await refused(rest, attached({ type: 'text' }))).toEqual(['E_VALIDATION_ERROR /attachments/0/type']);
  expect(await refused(rest, attached({ type: 'multipart/mixed' }))).toEqual([
    'E_VALIDATION_ERROR /attachments/0/type',
  ]);
  expect(await refused(rest, attached({ content_id: 'a b' }))).toEqual([
    'E_VALIDATION_ERROR /attachments/0/content_id',
  ]);
  expect(await refused(rest, attached({ contentId: 'ab' }))).toEqual(['E_VALIDATION_ERROR /attachments/0/contentId']);
  expect(await refused(rest, attached({ filename: 'x'.repeat(256) }))).toEqual([
    'E_VALIDATION_ERROR /attachments/0/filename',
  ]);
});

test('unknown fields are named, the binding’s own spelling too', async () => {
  const rest = await startRest();
  const answer = await rest.post('send', { ...good, replyTo: 'a@b.test', Subject: 'x' });
  expect(answer.json.errors.map(({ message, source }) => [message, source?.pointer])).toEqual([
    ['E_VALIDATION_ERROR: "replyTo" is no field; did you mean "reply_to"?', '/replyTo'],
    ['E_VALIDATION_ERROR: "Subject" is no field; did you mean "subject"?', '/Subject'],
  ]);
});

test('addresses that are none', async () => {
  const rest = await startRest();
  const long = `${'a'.repeat(390)}@b.test`;
  const bad = [
    long,
    `Name <${long}>`,
    `a@${'b'.repeat(64)}.test`,
    `a@${'b.'.repeat(200)}test`,
    'a',
    '@',
    'a@',
    '@b.test',
    'a@b..test',
    'a@-b.test',
    'a b@c.test',
    'a@b@c.test',
    'a@b.test, c@d.test',
    'Doe, Jo <a@b.test>',
    'group: a@b.test;',
    '<a@b.test',
    'a@b.test>',
    '"a@b.test',
    'a@b.test\u0000',
    '',
    ' ',
    '<>',
    'a@[1.2.3]',
    '(comment)',
    `a@${'('.repeat(500)}`,
  ];
  for (const to of bad) {
    expect(await refused(rest, { ...good, to }), to.slice(0, 40)).toEqual(['E_VALIDATION_ERROR /to']);
    expect(await refused(rest, { ...good, to: [{ address: to }] }), to.slice(0, 40)).toEqual([
      'E_VALIDATION_ERROR /to/0/address',
    ]);
  }
  for (const to of [
    5,
    true,
    null,
    [[]],
    [['a@b.test']],
    {},
    { address: 5 },
    { address: 'a@b.test', name: 5 },
    { email: 'a@b.test' },
  ]) {
    expect((await refused(rest, { ...good, to }))[0], JSON.stringify(to)).toMatch(/^E_VALIDATION_ERROR \/to/);
  }
  expect(await refused(rest, { ...good, from: ['a@example.com', 'b@example.com'] })).toEqual([
    'E_VALIDATION_ERROR /from',
  ]);
  expect(await rest.queued()).toBe(0);
});

test('headers of another shape', async () => {
  const rest = await startRest();
  for (const headers of [['X-A'], [[]], 'X-A: b', 5, true])
    expect(await refused(rest, { ...good, headers })).toEqual(['E_VALIDATION_ERROR /headers']);
  for (const value of [5, null, true, ['x'], { a: 'b' }]) {
    expect(await refused(rest, { ...good, headers: { 'X-A': value } })).toEqual([
      'E_HEADER_VALUE_INVALID /headers/X-A',
    ]);
  }
});

test('a 100 MB body is refused before it is read', async () => {
  const rest = await startRest();
  let pulled = 0;
  const stream = new ReadableStream({
    pull(controller) {
      pulled += 1;
      if (pulled > 100) controller.close();
      else controller.enqueue(new Uint8Array(1_000_000).fill(0x20));
    },
  });
  const answer = await fetch(`${rest.base}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { Authorization: 'Bearer dev-default', 'Content-Type': 'application/json' },
    body: stream,
    duplex: 'half',
  });
  expect([answer.status, await answer.text()]).toEqual([413, expect.stringContaining('E_CONTENT_TOO_LARGE')]);
});

test('a broken spool is a 500 that tells nothing', async () => {
  const rest = await startRest();
  await rest.breakSpool();
  const answer = await rest.post('send', good);
  expect(answer.status).toBe(500);
  expect(answer.json.errors).toEqual([
    { code: 10002, message: `E_INTERNAL_SERVER_ERROR: Internal error, Ray ID ${answer.headers.get('ray-id')}` },
  ]);
});

test('whatever JSON comes, the answer is 200, 400 or 403, and only 200 queues', { timeout: 60_000 }, async () => {
  const rest = await startRest();
  const leaf = fc.oneof(
    fc.string({ unit: anyCharacter }),
    fc.integer(),
    fc.constant(null),
    fc.constantFrom('shop@example.com', 'a@b.test'),
  );
  const value = fc.oneof(
    leaf,
    fc.array(leaf, { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('address', 'name', 'content', 'type', 'X-A'), leaf),
  );
  const names = fc.constantFrom(
    'from',
    'to',
    'cc',
    'subject',
    'text',
    'html',
    'attachments',
    'headers',
    'x',
    '__proto__',
  );
  let accepted = 0;
  await fc.assert(
    fc.asyncProperty(fc.dictionary(names, value), fc.boolean(), async (random, based) => {
      const answer = await rest.post('send', based ? { ...good, ...random } : random);
      expect([200, 400, 403]).toContain(answer.status);
      if (answer.status === 200) accepted += 1;
    }),
    { numRuns: 200 },
  );
  expect(await rest.queued()).toBe(accepted);
});
