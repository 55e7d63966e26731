// The shipped configuration, end to end: start, banner, a first message through TLS and AUTH into the capture folder,
// refusals, restart, drain.

import { createTransport } from 'nodemailer';
import { afterAll, afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';

const running: PosternProcess[] = [];
afterEach(async () => {
  for (const postern of running.splice(0).toReversed()) await postern.cleanUp();
});

async function start(options: Parameters<typeof startPostern>[0] = {}): Promise<PosternProcess> {
  const postern = await startPostern(options);
  running.push(postern);
  return postern;
}

let kept: Promise<PosternProcess> | undefined;
afterAll(async () => (await kept)?.cleanUp());

/** The gateway of the tests that look at no start or end of it; it has made its keys itself. */
const shared = (): Promise<PosternProcess> => (kept ??= startPostern({ makesKeys: true }));

function transport(postern: PosternProcess, password = testToken) {
  return createTransport({
    host: '127.0.0.1',
    port: postern.ports['submission'] ?? 0,
    requireTLS: true,
    tls: { rejectUnauthorized: false },
    auth: { user: 'api_token', pass: password },
  });
}

test('a first message goes through: signed, captured, logged under one id', async () => {
  const postern = await shared();
  const sent = await transport(postern).sendMail({
    envelope: { from: 'shop@example.com', to: ['a@partner.test'] },
    raw: 'From: Shop <shop@example.com>\r\nTo: a@partner.test\r\nsubject: Hello\r\nx-campaign-id: spring\r\nreferences: <1@example.com>\r\n\r\nHi.\r\n',
  });
  const messageId = /^250 2\.0\.0 Ok (<[0-9a-f-]{36}@platform\.example>)$/.exec(sent.response)?.[1];
  expect(messageId).toBeDefined();

  const [raw] = await postern.until(() => (postern.captured().length > 0 ? postern.captured() : undefined));
  const text = raw?.toString('latin1') ?? '';
  expect(text).toContain(`\r\nMessage-ID: ${messageId}\r\n`);
  expect(text).toContain('\r\nSubject: Hello\r\n');
  expect(text).toContain('\r\nReferences: <1@example.com>\r\n');
  expect(text).toContain('\r\nx-campaign-id: spring\r\n');
  expect(text.endsWith('\r\n\r\nHi.\r\n')).toBe(true);

  const verdicts = await verifySignatures(raw ?? Buffer.alloc(0), dkimRecords(postern.certsDir));
  expect(verdicts.map(({ domain, selector, result }) => `${domain} ${selector} ${result}`).sort()).toEqual([
    'example.com e1 pass',
    'example.com s1 pass',
    'platform.example p1 pass',
  ]);

  const accepted = await postern.until(() => postern.log().find((line) => line['msg'] === 'accepted'));
  const delivered = await postern.until(() => postern.log().find((line) => line['msg'] === 'delivered'));
  expect(delivered['id']).toBe(accepted['id']);
  expect(delivered['session']).toBe(accepted['session']);
  expect(accepted['messageId']).toBe(messageId);
  expect(postern.output()).not.toContain(testToken);
  expect(postern.output()).not.toContain('Hi.');
});

test('a refused message gets every reason at once and leaves no trace', async () => {
  const postern = await start();
  const refusal = await transport(postern)
    .sendMail({
      envelope: { from: 'shop@example.com', to: ['a@partner.test'] },
      raw: 'From: shop@example.com\r\nUser-Agent: x\r\nPrecedence: urgent\r\nX-Empty:\r\n\r\nHi.\r\n',
    })
    .then(
      () => undefined,
      (error: { response?: string }) => error.response,
    );
  expect(refusal?.split('\n')).toEqual([
    expect.stringMatching(/^554-5\.7\.1 E_HEADER_NOT_ALLOWED: User-Agent /),
    expect.stringMatching(/^554-5\.7\.1 E_HEADER_VALUE_INVALID: Precedence /),
    expect.stringMatching(/^554 5\.7\.1 E_HEADER_VALUE_INVALID: X-Empty /),
  ]);
  const refused = await postern.until(() => postern.log().find((line) => line['msg'] === 'refused'));
  expect(refused['codes']).toEqual(['E_HEADER_NOT_ALLOWED', 'E_HEADER_VALUE_INVALID', 'E_HEADER_VALUE_INVALID']);
  expect(postern.captured()).toEqual([]);
  expect(await postern.end('SIGTERM')).toBe(0);
});

test('the banner with token and commands comes at the first start only, and never through the log', async () => {
  const first = await start({ env: { POSTERN_TOKEN: undefined } });
  // The banner comes behind the lines of the log, once those are written.
  await first.until(() => first.output().includes('--ssl-reqd'));
  const token = /--auth-password '?([A-Za-z0-9_-]{43,60})/.exec(first.output())?.[1];
  expect(token).toBeDefined();
  expect(first.output()).toMatch(/swaks .*--server 127\.0\.0\.1/);
  expect(first.output()).toMatch(/curl .*--ssl-reqd/);
  const [, url = '', given = '', body = ''] =
    /curl '(http:[^']+)' \\\n\s+-H 'Authorization: Bearer ([^']+)'[^]*?-d '([^']+)'/.exec(first.output()) ?? [];
  const byRest = await fetch(url, {
    method: 'POST',
    headers: { Authorization: `Bearer ${given}`, 'Content-Type': 'application/json' },
    body,
  });
  expect([byRest.status, given]).toEqual([200, token]);
  expect(JSON.stringify(first.log())).not.toContain(token);
  const sent = await transport(first, token).sendMail({
    envelope: { from: 'shop@example.org', to: ['a@partner.test'] },
    raw: 'From: shop@example.org\r\n\r\nHi.\r\n',
  });
  expect(sent.response).toMatch(/^250 /);
  expect(await first.end('SIGTERM')).toBe(0);

  const second = await start({ env: { POSTERN_TOKEN: undefined }, folder: first.folder });
  expect(second.output()).not.toMatch(/--auth-password/);
  const again = await transport(second, token).sendMail({
    envelope: { from: 'shop@example.org', to: ['a@partner.test'] },
    raw: 'From: shop@example.org\r\n\r\nHi.\r\n',
  });
  expect(again.response).toMatch(/^250 /);
});

test('every start says which token counts, what became of an earlier one, and how to get another', {
  timeout: 90_000,
}, async () => {
  const another = 'For another: postern token create --account dev --credential default';
  let folder: string | undefined;
  const told = async (env: Record<string, string | undefined>, text: string): Promise<PosternProcess> => {
    const postern = await start({ env, ...(folder === undefined ? {} : { folder }) });
    folder = postern.folder;
    await postern.until(() => postern.output().includes(text));
    expect(await postern.end('SIGTERM')).toBe(0);
    return postern;
  };
  const first = await told({ POSTERN_TOKEN: undefined }, 'shown this once:');
  const four = /--auth-password '?([A-Za-z0-9_-]{43,60})/.exec(first.output())?.[1]?.slice(-4);
  const kept = await told({ POSTERN_TOKEN: undefined }, 'No token is shown: credential dev/default has the token ...');
  expect(kept.output()).toContain(`the token ...${four}, shown when made.\n${another}\n`);
  const given = await told({}, 'The token of credential dev/default is the value of POSTERN_TOKEN');
  expect(given.output()).toContain(`It replaces the token ...${four} of an earlier start, revoked from now on`);
  expect(given.output()).toContain(another);
  expect(given.log()).toContainEqual(
    expect.objectContaining({ msg: expect.stringMatching(/: revoked$/), lastFour: [four] }),
  );
  await told({ POSTERN_TOKEN: undefined }, 'shown this once:');
});

test('a wrong token is 535, a foreign sender domain 550', async () => {
  const postern = await shared();
  const wrong = await transport(postern, 'no-such-token')
    .verify()
    .catch((error: { response?: string }) => error.response);
  expect(wrong).toMatch(/^535 5\.7\.8 /);
  const foreign = await transport(postern)
    .sendMail({
      envelope: { from: 'a@elsewhere.test', to: ['b@partner.test'] },
      raw: 'From: a@elsewhere.test\r\n\r\nx\r\n',
    })
    .catch((error: { response?: string }) => ({ response: error.response }));
  expect(foreign.response).toMatch(/^550 5\.7\.1 /);
});

test('health: ready while serving, metrics count messages', async () => {
  const postern = await shared();
  const base = `http://127.0.0.1:${postern.ports['http']}`;
  expect((await fetch(`${base}/readyz`)).status).toBe(200);
  const accepted = async (what: string): Promise<number> => {
    const text = await (await fetch(`${base}/metrics`)).text();
    return Number(new RegExp(`^postern_${what}_accepted_total (\\d+)$`, 'm').exec(text)?.[1]);
  };
  const before = [await accepted('messages'), await accepted('recipients')] as const;
  await transport(postern).sendMail({
    envelope: { from: 'shop@example.net', to: ['a@partner.test', 'b@partner.test'] },
    raw: 'From: shop@example.net\r\n\r\nHi.\r\n',
  });
  await expect
    .poll(async () => [await accepted('messages'), await accepted('recipients')])
    .toEqual([before[0] + 1, before[1] + 2]);
});

test('SIGTERM lets DATA in flight finish, then exits 0', async () => {
  const config = deviceConfiguration({ routes: [captureRoute] });
  const postern = await start({ config });
  const client = await connectSmtp(postern.ports['devices'] ?? 0);
  expect((await client.reply()).code).toBe(220);
  await client.command('EHLO drain.example.com');
  await client.command('MAIL FROM:<a@example.com>');
  await client.command('RCPT TO:<b@partner.test>');
  expect((await client.command('DATA')).code).toBe(354);
  client.write('From: a@example.com\r\nSubject: in flight\r\n\r\nfirst half\r\n');
  const ended = postern.end('SIGTERM');
  await postern.until(() => postern.log().some((line) => line['msg'] === 'draining'));
  client.write('second half\r\n.\r\n');
  expect((await client.reply()).code).toBe(250);
  expect(await ended).toBe(0);

  // What was accepted while draining is delivered at the latest after the next start.
  const second = await start({ config, folder: postern.folder });
  const [raw] = await second.until(() => (second.captured().length > 0 ? second.captured() : undefined));
  expect(raw?.toString('latin1')).toContain('first half\r\nsecond half\r\n');
});
