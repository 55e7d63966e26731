// Mail clients from Debian (and nodemailer), each handing over one real message through TLS with AUTH: it must come out
// signed, with its content as it went in. Where a client's own habit is refused: what its user reads, and what helps.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTransport } from 'nodemailer';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ClientGateway, startClientGateway } from '../support/client-gateway.ts';
import { requirePrograms, runProgram } from './programs.ts';

let gateway: ClientGateway;

beforeAll(async () => {
  requirePrograms('swaks', 'msmtp', 's-nail', 'curl', 'python3');
  gateway = await startClientGateway();
});
afterAll(() => gateway?.postern.cleanUp());

function swaks(subject: string, ...extra: readonly string[]) {
  const server = ['--server', '127.0.0.1', '--port', `${gateway.port}`, '--tls', '--tls-verify'];
  const login = ['--auth', 'PLAIN', '--auth-user', 'api_token', '--auth-password', gateway.tokens.default];
  const envelope = ['--from', 'shop@example.com', '--to', 'a@partner.test'];
  const message = ['--header', `Subject: ${subject}`, '--body', 'Sent by swaks.'];
  const trust = ['--tls-ca-path', gateway.trust];
  return runProgram('swaks', [...server, ...trust, ...login, ...envelope, ...message, ...extra]);
}

test('swaks', async () => {
  const { code, output } = await swaks('from swaks', '--header', 'X-Campaign-ID: spring');
  expect([code, output]).toEqual([0, expect.stringMatching(/<~ +250 2\.0\.0 Ok <[0-9a-f-]{36}@platform\.example>/)]);
  const { head, parsed } = await gateway.arrived('from swaks');
  expect(parsed.text).toContain('Sent by swaks.');
  expect(head).toContain('\r\nFeedback-ID: spring:dev:smtp:platform.example\r\n');
  expect(head).toContain('\r\nX-Mailer: swaks ');
});

test('swaks by implicit TLS and AUTH LOGIN, with the account’s name as the user', async () => {
  const { code, output } = await runProgram('swaks', [
    ...['--server', '127.0.0.1', '--port', `${gateway.postern.ports['submissions']}`, '--tls-on-connect'],
    ...['--auth', 'LOGIN', '--auth-user', 'dev', '--auth-password', gateway.tokens.default],
    ...['--from', 'shop@example.com', '--to', 'a@partner.test'],
    ...['--header', 'Subject: from swaks on 465', '--body', 'x'],
  ]);
  expect([code, output]).toEqual([0, expect.stringContaining('250 2.0.0 Ok')]);
  await gateway.arrived('from swaks on 465');
});

test('swaks is told every reason at once, line by line, and nothing leaves', async () => {
  const { code, output } = await swaks(
    'refused',
    ...['--header', 'User-Agent: Old/1.0', '--header', 'Precedence: first-class', '--header', 'X-Empty: '],
    ...['--header', 'List-Unsubscribe: <http://example.com/u>', '--header', 'Feedback-ID: mine'],
  );
  expect(code).toBe(26); // swaks: the server refused the message after DATA
  const replies = output.split('\n').filter((line) => line.startsWith('<~* 554'));
  expect(replies.map((line) => line.slice(4))).toEqual([
    '554-5.7.1 E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist',
    '554-5.7.1 E_HEADER_VALUE_INVALID: Precedence must be one of bulk, list, junk; got "first-class"',
    '554-5.7.1 E_HEADER_VALUE_INVALID: X-Empty is empty',
    '554-5.7.1 E_HEADER_VALUE_INVALID: List-Unsubscribe may hold only <https://...> and <mailto:...>; got <http://example.com/u>',
    '554 5.7.1 E_HEADER_NOT_ALLOWED: Feedback-ID is set by the platform and cannot be given',
  ]);
  expect(gateway.postern.captured().some((message) => message.includes('Subject: refused'))).toBe(false);
});

test('msmtp, a message without Date and Message-ID, with Bcc', async () => {
  const file = gateway.msmtprc('plain', { token: gateway.tokens.default, lines: ['from cron@example.com'] });
  const input =
    'From: Ops <cron@example.com>\nTo: ops@partner.test\nBcc: b@partner.test\nSubject: from msmtp\n\nSent by msmtp.\n';
  const { code, output } = await runProgram('msmtp', ['-C', file, '--set-date-header=off', '-t'], { input });
  expect([code, output]).toEqual([0, '']);
  const { head, parsed } = await gateway.arrived('from msmtp');
  expect(parsed.text).toContain('Sent by msmtp.');
  expect(head).not.toMatch(/^Bcc:|b@partner\.test/im);
});

test('curl', async () => {
  const file = join(gateway.postern.folder, 'curl.eml');
  const message = 'From: Shop <shop@example.com>\r\nTo: a@partner.test\r\nSubject: from curl\r\n\r\nSent by curl.\r\n';
  writeFileSync(file, message);
  const { code, output } = await runProgram('curl', [
    ...['--silent', '--show-error', '--ssl-reqd', '--cacert', gateway.trust],
    ...['--url', `smtp://127.0.0.1:${gateway.port}`, '--user', `api_token:${gateway.tokens.default}`],
    ...['--mail-from', 'shop@example.com', '--mail-rcpt', 'a@partner.test', '--upload-file', file],
  ]);
  expect([code, output]).toEqual([0, '']);
  expect((await gateway.arrived('from curl')).parsed.text).toContain('Sent by curl.');
});

function nail(subject: string, token: string, ...extra: readonly string[]) {
  const settings = {
    mta: `smtp://api_token:${token}@localhost:${gateway.port}`,
    'smtp-auth': 'plain',
    'tls-ca-file': gateway.trust,
    'tls-verify': 'strict',
    hostname: 'client.example.com',
    from: 'nail@example.com',
    DEAD: '/dev/null',
  };
  const switches = ['v15-compat', 'smtp-use-starttls', 'tls-ca-no-defaults', 'sendwait', ...extra];
  const assignments = [...switches, ...Object.entries(settings).map(([name, value]) => `${name}=${value}`)];
  const args = ['-:/', ...assignments.flatMap((assignment) => ['-S', assignment]), '-s', subject, 'a@partner.test'];
  const env = { HOME: gateway.postern.folder, LC_ALL: 'C.UTF-8' };
  return runProgram('s-nail', args, { input: 'Grüße from s-nail.\n', env });
}

test('s-nail adds User-Agent: refused; taken once the operator strips it, or its user turns it off', async () => {
  const refused = await nail('refused s-nail', gateway.tokens.default);
  expect(refused.code).toBe(4);
  expect(refused.output).toContain(
    's-nail: SMTP server: 554 5.7.1 E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist',
  );

  const stripped = await nail('from s-nail', gateway.tokens.cron);
  expect([stripped.code, stripped.output]).toEqual([0, '']);
  const { head, parsed } = await gateway.arrived('from s-nail');
  expect(parsed.text).toContain('Grüße from s-nail.');
  expect(head).not.toMatch(/^User-Agent:/im);
  const { stripped: names } = await gateway.logged('accepted', { credential: 'cron' });
  expect(names).toEqual(['User-Agent']);

  const quiet = await nail('from quiet s-nail', gateway.tokens.default, 'stealthmua=noagent');
  expect([quiet.code, quiet.output]).toEqual([0, '']);
  await gateway.arrived('from quiet s-nail');
});

const smtplib = `
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
    m['Sender'] = 'robot@example.com'
    try:
        s.send_message(m)
    except smtplib.SMTPDataError as e:
        print(e.smtp_code, e.smtp_error.decode())
`;

test('Python smtplib with its email package: non-ASCII text, an attachment, and a refusal', async () => {
  const { code, output } = await runProgram('python3', [
    ...['-c', smtplib, `${gateway.port}`, gateway.tokens.default, gateway.trust],
  ]);
  expect([code, output]).toEqual([0, '{}\n554 5.7.1 E_HEADER_NOT_ALLOWED: Sender is not on the allowlist\n']);
  const { head, parsed } = await gateway.arrived('from smtplib');
  expect(parsed.text).toContain('Grüße aus Python: 日本語');
  expect(parsed.from?.value[0]).toEqual({ name: 'Jürgen Müller', address: 'j@example.com' });
  expect(parsed.attachments[0]?.filename).toBe('données.bin');
  expect(parsed.attachments[0]?.content).toEqual(Buffer.from('\x00\x01\xff'.repeat(1000), 'latin1'));
  expect(head).toContain('\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n');
});

function nodemailer() {
  return createTransport({
    host: 'localhost',
    port: gateway.port,
    requireTLS: true,
    tls: { ca: [gateway.certificate] },
    auth: { user: 'api_token', pass: gateway.tokens.default },
  });
}

test('nodemailer composes: text, HTML, an inline picture', async () => {
  const sent = await nodemailer().sendMail({
    from: 'Café <cafe@example.com>',
    to: 'a@partner.test',
    subject: 'from nodemailer',
    text: 'Grüße',
    html: '<p>Grüße <img src="cid:dot"></p>',
    attachments: [{ filename: 'dot.gif', content: Buffer.from('GIF89a'), cid: 'dot' }],
    inReplyTo: '<1@partner.test>',
    list: { unsubscribe: 'https://example.com/u' },
  });
  expect(sent.response).toMatch(/^250 2\.0\.0 Ok </);
  const { parsed } = await gateway.arrived('from nodemailer');
  expect([parsed.text, parsed.inReplyTo]).toEqual([expect.stringContaining('Grüße'), '<1@partner.test>']);
  expect(parsed.attachments.map(({ cid, content }) => [cid, content.toString()])).toEqual([['dot', 'GIF89a']]);
});

test('nodemailer writes List-Unsubscribe twice for a flat array of URIs, once for a nested one', async () => {
  const uris = ['mailto:u@example.com', 'https://example.com/u'];
  const message = { from: 'a@example.com', to: 'a@partner.test', subject: 'nodemailer list', text: 'x' };
  await expect(nodemailer().sendMail({ ...message, list: { unsubscribe: uris } })).rejects.toThrow(
    '554 5.6.0 E_HEADER_VALUE_INVALID: List-Unsubscribe appears 2 times, at most once is allowed',
  );
  await nodemailer().sendMail({ ...message, list: { unsubscribe: [uris] } });
  const { head } = await gateway.arrived('nodemailer list');
  expect(head).toContain('\r\nList-Unsubscribe: <mailto:u@example.com>, <https://example.com/u>\r\n');
});
