// Real clients from Debian, each handing over one real message through STARTTLS with AUTH; the message must be in the
// capture folder with a signature that another implementation accepts.

import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { simpleParser } from 'mailparser';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { type PosternProcess, projectRoot, startPostern, testToken } from '../support/postern-process.ts';
import { type Postfix, startPostfix } from '../support/postfix.ts';
import { requirePrograms, runProgram } from './programs.ts';

let postern: PosternProcess;
let trust: string;
const tokens: Record<string, string> = {};

beforeAll(async () => {
  requirePrograms('swaks', 'msmtp', 's-nail', 'curl', 'python3', 'postfix');
  postern = await startPostern();
  trust = join(postern.certsDir, 'tls/mx.platform.example/fullchain.pem');
  for (const credential of ['cron', 'oldbox']) tokens[credential] = await createToken(credential);
});
afterAll(() => postern?.cleanUp());

async function createToken(credential: string): Promise<string> {
  const args = [
    join(projectRoot, 'src/main.ts'),
    'token',
    'create',
    '--account',
    'dev',
    '--credential',
    credential,
    '--json',
  ];
  const { code, output } = await runProgram(process.execPath, args, { env: postern.env, cwd: postern.folder });
  expect([code, output]).toEqual([0, expect.stringContaining('"token"')]);
  return (JSON.parse(output) as { token: string }).token;
}

/** Waits for the message with this subject and checks what every message must have. */
async function arrived(subject: string): Promise<{ readonly raw: Buffer; readonly text: string }> {
  const raw = await postern.until(() =>
    postern.captured().find((message) => message.includes(`Subject: ${subject}\r\n`)),
  );
  const verdicts = await verifySignatures(raw, dkimRecords(postern.certsDir));
  expect(verdicts.map(({ domain, result }) => [domain, result])).toEqual(
    expect.arrayContaining([
      ['example.com', 'pass'],
      ['platform.example', 'pass'],
    ]),
  );
  expect(verdicts.every(({ result }) => result === 'pass')).toBe(true);
  const head = raw.subarray(0, raw.indexOf('\r\n\r\n')).toString('latin1');
  expect(head).toMatch(/^Return-Path: <b\+[a-z2-7]+@bounces\.platform\.example>\r\nReceived: from /);
  expect(head).toMatch(/ESMTPSA/);
  expect(head).toMatch(/\r\nMessage-ID: <[0-9a-f-]{36}@platform\.example>/);
  return { raw, text: (await simpleParser(raw)).text ?? '' };
}

test('swaks', async () => {
  const { code, output } = await runProgram('swaks', [
    ...['--server', '127.0.0.1', '--port', `${postern.ports['submission']}`, '--tls', '--auth', 'PLAIN'],
    ...[
      '--auth-user',
      'api_token',
      '--auth-password',
      testToken,
      '--from',
      'shop@example.com',
      '--to',
      'a@partner.test',
    ],
    ...['--header', 'Subject: from swaks', '--header', 'X-Campaign-ID: spring', '--body', 'Sent by swaks.'],
  ]);
  expect([code, output]).toEqual([0, expect.stringMatching(/<[~*]* +250 2\.0\.0 Ok </)]);
  const { raw, text } = await arrived('from swaks');
  expect(text).toContain('Sent by swaks.');
  expect(raw.toString('latin1')).toMatch(/\r\nFeedback-ID: spring:dev:smtp:platform\.example\r\n/);
});

test('swaks by implicit TLS and AUTH LOGIN', async () => {
  const { code, output } = await runProgram('swaks', [
    ...['--server', '127.0.0.1', '--port', `${postern.ports['submissions']}`, '--tls-on-connect', '--auth', 'LOGIN'],
    ...['--auth-user', 'dev', '--auth-password', testToken, '--from', 'shop@example.com', '--to', 'a@partner.test'],
    ...['--header', 'Subject: from swaks on 465', '--body', 'x'],
  ]);
  expect([code, output]).toEqual([0, expect.stringContaining('250 2.0.0 Ok')]);
  await arrived('from swaks on 465');
});

test('swaks is told every reason at once when headers are refused', async () => {
  const { code, output } = await runProgram('swaks', [
    ...['--server', '127.0.0.1', '--port', `${postern.ports['submission']}`, '--tls', '--auth', 'PLAIN'],
    ...[
      '--auth-user',
      'api_token',
      '--auth-password',
      testToken,
      '--from',
      'shop@example.com',
      '--to',
      'a@partner.test',
    ],
    ...[
      '--header',
      'User-Agent: Old/1.0',
      '--header',
      'Precedence: first-class',
      '--header',
      'Subject: refused',
      '--body',
      'x',
    ],
  ]);
  expect(code).not.toBe(0);
  expect(output).toMatch(/554-5\.\d\.\d E_HEADER_NOT_ALLOWED: User-Agent/);
  expect(output).toMatch(/554[ -]5\.\d\.\d E_HEADER_VALUE_INVALID: Precedence/);
  expect(postern.captured().some((message) => message.includes('Subject: refused'))).toBe(false);
});

test('msmtp, a message without Date and Message-ID', async () => {
  const configFile = join(postern.folder, 'msmtprc');
  writeFileSync(
    configFile,
    `account default
host 127.0.0.1
port ${postern.ports['submission']}
tls on
tls_starttls on
tls_trust_file ${trust}
auth plain
user api_token
password ${testToken}
from cron@example.com
`,
  );
  chmodSync(configFile, 0o600);
  const input = 'From: cron@example.com\nTo: ops@partner.test\nSubject: from msmtp\n\nSent by msmtp.\n';
  const { code, output } = await runProgram('msmtp', ['-C', configFile, 'ops@partner.test'], { input });
  expect([code, output]).toEqual([0, '']);
  expect((await arrived('from msmtp')).text).toContain('Sent by msmtp.');
});

test('curl', async () => {
  const file = join(postern.folder, 'curl.eml');
  writeFileSync(
    file,
    'From: Shop <shop@example.com>\r\nTo: a@partner.test\r\nSubject: from curl\r\n\r\nSent by curl.\r\n',
  );
  const { code, output } = await runProgram('curl', [
    ...[
      '--silent',
      '--show-error',
      '--ssl-reqd',
      '--cacert',
      trust,
      '--url',
      `smtp://127.0.0.1:${postern.ports['submission']}`,
    ],
    ...[
      '--user',
      `api_token:${testToken}`,
      '--mail-from',
      'shop@example.com',
      '--mail-rcpt',
      'a@partner.test',
      '-T',
      file,
    ],
  ]);
  expect([code, output]).toEqual([0, '']);
  expect((await arrived('from curl')).text).toContain('Sent by curl.');
});

function nailArguments(subject: string, token: string, extra: readonly string[] = []): string[] {
  return [
    ...['-:/', '-S', 'v15-compat', '-S', `mta=smtp://api_token:${token}@127.0.0.1:${postern.ports['submission']}`],
    ...['-S', 'smtp-use-starttls', '-S', 'smtp-auth=plain', '-S', `tls-ca-file=${trust}`, '-S', 'tls-ca-no-defaults'],
    ...[
      '-S',
      'tls-verify=strict',
      '-S',
      'hostname=client.example.com',
      '-S',
      'from=nail@example.com',
      '-S',
      'sendwait',
      ...extra,
    ],
    ...['-s', subject, 'a@partner.test'],
  ];
}

test('s-nail adds User-Agent: refused with the reason, admitted once the operator strips it for that credential', async () => {
  const options = { input: 'Sent by s-nail.\n', env: { HOME: postern.folder, LC_ALL: 'C.UTF-8' } };
  const refused = await runProgram('s-nail', nailArguments('from s-nail', testToken), options);
  expect(refused.code).not.toBe(0);
  expect(refused.output).toContain('E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist');

  const stripped = await runProgram('s-nail', nailArguments('from s-nail', tokens['cron'] ?? ''), options);
  expect([stripped.code, stripped.output]).toEqual([0, '']);
  const { raw, text } = await arrived('from s-nail');
  expect(text).toContain('Sent by s-nail.');
  expect(raw.toString('latin1')).not.toMatch(/^User-Agent:/im);
  const accepted = postern.log().find((line) => line['msg'] === 'accepted' && line['credential'] === 'cron');
  expect(accepted?.['stripped']).toEqual(['User-Agent']);

  const stealth = await runProgram(
    's-nail',
    nailArguments('from quiet s-nail', testToken, ['-S', 'stealthmua=noagent']),
    options,
  );
  expect([stealth.code, stealth.output]).toEqual([0, '']);
  await arrived('from quiet s-nail');
});

test('Python smtplib with its email package, non-ASCII text and an attachment', async () => {
  const script = `
import smtplib, ssl, sys
from email.message import EmailMessage
port, token, trust = int(sys.argv[1]), sys.argv[2], sys.argv[3]
m = EmailMessage()
m['From'] = 'Jürgen Müller <j@example.com>'
m['To'] = 'Zoë <z@partner.test>'
m['Subject'] = 'from smtplib'
m['List-Unsubscribe'] = '<https://example.com/u?id=1>, <mailto:u@example.com>'
m['List-Unsubscribe-Post'] = 'List-Unsubscribe=One-Click'
m.set_content('Grüße aus Python: 日本語\\n')
m.add_attachment(b'\\x00\\x01\\xff' * 1000, maintype='application', subtype='octet-stream', filename='données.bin')
with smtplib.SMTP('127.0.0.1', port) as s:
    s.starttls(context=ssl.create_default_context(cafile=trust))
    s.login('api_token', token)
    print(s.send_message(m))
`;
  const { code, output } = await runProgram('python3', [
    '-c',
    script,
    `${postern.ports['submission']}`,
    testToken,
    trust,
  ]);
  expect([code, output]).toEqual([0, '{}\n']);
  const { raw } = await arrived('from smtplib');
  const parsed = await simpleParser(raw);
  expect(parsed.text).toContain('Grüße aus Python: 日本語');
  expect(parsed.from?.value[0]).toEqual({ name: 'Jürgen Müller', address: 'j@example.com' });
  expect(parsed.attachments[0]?.filename).toBe('données.bin');
  expect(parsed.attachments[0]?.content).toEqual(Buffer.from('\x00\x01\xff'.repeat(1000), 'latin1'));
  expect(raw.toString('latin1')).toContain('\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n');
  expect(raw.every((octet) => octet < 0x80)).toBe(true);
});

test('a Postfix uses Postern as its relayhost', async () => {
  let postfix: Postfix | undefined;
  try {
    postfix = await startPostfix({
      mainCf: [
        `relayhost = [127.0.0.1]:${postern.ports['submission']}`,
        'smtp_tls_security_level = encrypt',
        'smtp_sasl_auth_enable = yes',
        'smtp_sasl_security_options = noanonymous',
        `smtp_sasl_password_maps = inline:{ { [127.0.0.1]:${postern.ports['submission']} = api_token:${tokens['oldbox']} } }`,
      ],
    });
    const { code, output } = await runProgram('swaks', [
      ...['--server', '127.0.0.1', '--port', `${postfix.port}`, '--from', 'root@example.com', '--to', 'a@partner.test'],
      ...['--header', 'Subject: through Postfix', '--body', 'Sent through Postfix.'],
    ]);
    expect([code, output]).toEqual([0, expect.stringContaining('250 2.0.0 Ok: queued')]);
    const { raw, text } = await arrived('through Postfix').catch((error: unknown) => {
      throw new Error(`${String(error)}\n${postfix?.mailLog()}`);
    });
    expect(text).toContain('Sent through Postfix.');
    expect(raw.toString('latin1').match(/^Received: /gm)?.length).toBe(2);
    expect(postfix.mailLog()).toMatch(/status=sent \(250 2\.0\.0 Ok </);
  } finally {
    postfix?.stop();
  }
});
