// Mailers that add something of their own, and programs that hand mail to a `sendmail` command: what is refused and how
// it reads, then the setting that makes it pass (docs/mailers.md).

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addressesOf, type ClientGateway, startClientGateway } from '../support/client-gateway.ts';
import { requirePrograms, runProgram } from './programs.ts';

let gateway: ClientGateway;

beforeAll(async () => {
  requirePrograms('mutt', 'mail.mailutils', 'msmtp', 'php', 'ruby');
  gateway = await startClientGateway();
});
afterAll(() => gateway?.postern.cleanUp());

function inHome() {
  return { HOME: gateway.postern.folder, LC_ALL: 'C.UTF-8' };
}

function mutt(subject: string, ...extra: readonly string[]) {
  const file = join(gateway.postern.folder, 'muttrc');
  const lines = [
    'set from = "mutt@example.com"',
    'set realname = "Mütt"',
    'set hostname = "client.example.com"',
    `set smtp_url = "smtp://api_token@localhost:${gateway.port}"`,
    `set smtp_pass = "${gateway.tokens.default}"`,
    'set smtp_authenticators = "plain"',
    'set ssl_starttls = yes',
    'set ssl_force_tls = yes',
    `set certificate_file = "${gateway.trust}"`,
    'set copy = no',
    '',
  ];
  writeFileSync(file, lines.join('\n'));
  const args = ['-F', file, ...extra, '-s', subject, '--', 'a@partner.test'];
  return runProgram('mutt', args, { input: 'Grüße aus mutt.\n', env: inHome() });
}

test('mutt by smtp_url: Content-Disposition on a single part is taken', async () => {
  const { code, output } = await mutt('from mutt');
  expect([code, output]).toEqual([0, '']);
  const { head, parsed } = await gateway.arrived('from mutt');
  expect(head).toContain('\r\nContent-Disposition: inline\r\n');
  expect([parsed.text, parsed.from?.value[0]?.name]).toEqual([expect.stringContaining('Grüße aus mutt.'), 'Mütt']);
});

test('mutt with an attachment', async () => {
  const file = join(gateway.postern.folder, 'données.bin');
  writeFileSync(file, Buffer.from([0, 255, 10, 13, 0]));
  const { code, output } = await mutt('from mutt with a file', '-a', file);
  expect([code, output]).toEqual([0, '']);
  const { parsed } = await gateway.arrived('from mutt with a file');
  expect(parsed.attachments.map(({ content }) => [...content])).toEqual([[0, 255, 10, 13, 0]]);
});

test('mutt with user_agent set is refused, and says why', async () => {
  const { code, output } = await mutt('refused mutt', '-e', 'set user_agent = yes');
  expect(code).toBe(1);
  expect(output).toContain('SMTP session failed: 554 5.7.1 E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist');
});

test('mutt writing to a list it knows adds Mail-Followup-To; followup_to=no ends that', async () => {
  const list = ['-e', 'subscribe a@partner.test'];
  const { code, output } = await mutt('refused list', ...list);
  expect([code, output]).toEqual([1, expect.stringContaining('Mail-Followup-To is not on the allowlist')]);
  const quiet = await mutt('to a list', ...list, '-e', 'set followup_to=no');
  expect([quiet.code, quiet.output]).toEqual([0, '']);
  await gateway.arrived('to a list');
});

function mailutils(subject: string, token: string, ...extra: readonly string[]) {
  const url = `smtp://api_token:${token};auth=plain@localhost:${gateway.port}`;
  const args = [...extra, '--exec', `set sendmail="${url}"`, '-s', subject, '-r', 'mu@example.com', 'a@partner.test'];
  return runProgram('mail.mailutils', args, { input: 'Sent by GNU mailutils.\n', env: inHome() });
}

test('GNU mailutils adds User-Agent and no From: each has its remedy', async () => {
  const bare = await mailutils('refused mailutils', gateway.tokens.default);
  expect(bare.code).toBe(1);
  // It keeps the server's words to itself: the gateway's log has the reasons.
  expect(bare.output).toContain('cannot send message: Operation rejected by remote party');
  const { codes } = await gateway.logged('refused', { credential: 'default', from: 'mu@example.com' });
  expect(codes).toEqual(['E_FIELD_MISSING', 'E_HEADER_NOT_ALLOWED']);

  const from = ['-a', 'From: Mu <mu@example.com>'];
  const stripped = await mailutils('from mailutils', gateway.tokens.cron, ...from);
  expect(stripped.code).toBe(0);
  expect((await gateway.arrived('from mailutils')).parsed.text).toContain('Sent by GNU mailutils.');
  expect((await gateway.logged('accepted', { credential: 'cron' }))['stripped']).toEqual(['User-Agent']);

  const quiet = await mailutils('from quiet mailutils', gateway.tokens.default, ...from, '--exec', 'unset xmailer');
  expect(quiet.code).toBe(0);
  await gateway.arrived('from quiet mailutils');
});

/** As Debian's cron writes it, to `sendmail -FCronDaemon -i -B8BITMIME -oem root`. */
const cronMail = `From: root (Cron Daemon)
To: root
Subject: Cron <root@oldbox> /usr/local/bin/backup
MIME-Version: 1.0
Content-Type: text/plain; charset=UTF-8
Content-Transfer-Encoding: 8bit
X-Cron-Env: <SHELL=/bin/sh>
X-Cron-Env: <HOME=/root>
X-Cron-Env: <LOGNAME=root>

3 Dateien übertragen
.
Ende
`;

function cron(file: string) {
  const aliases = join(gateway.postern.folder, 'aliases');
  writeFileSync(aliases, 'root: ops@partner.test\n');
  const sendmail = ['-FCronDaemon', '-i', '-B8BITMIME', '-oem', 'root'];
  return runProgram('msmtp', ['-C', file, `--aliases=${aliases}`, ...sendmail], { input: cronMail, env: inHome() });
}

test('cron through msmtp: refused by default; the credential with strip and defaultDomain takes it as it is', async () => {
  const noDomain = await cron(
    gateway.msmtprc('no-domain', { token: gateway.tokens.default, lines: ['from root', 'set_from_header off'] }),
  );
  expect(noDomain.code).toBe(65);
  expect(noDomain.output).toContain('msmtp: server message: 553 5.1.7 The reverse-path has no domain');

  const repeated = await cron(
    gateway.msmtprc('repeated', { token: gateway.tokens.default, lines: ['from cron@example.com'] }),
  );
  expect(repeated.code).toBe(69);
  expect(repeated.output).toContain('E_VALIDATION_ERROR: ');
  expect(repeated.output).toContain(
    'msmtp: server message: 554 5.6.0 E_HEADER_VALUE_INVALID: X-Cron-Env appears 3 times, at most once is allowed',
  );

  const taken = await cron(gateway.msmtprc('cron', { token: gateway.tokens.cron, lines: ['from root'] }));
  expect([taken.code, taken.output]).toEqual([0, '']);
  const { head, parsed } = await gateway.arrived('Cron <root@oldbox> /usr/local/bin/backup');
  expect(addressesOf(parsed.from)).toEqual(['root@example.com']);
  expect(parsed.from?.value[0]?.name).toBe('Cron Daemon');
  expect(parsed.text).toBe('3 Dateien übertragen\n.\nEnde\n');
  expect(head).not.toMatch(/^X-Cron-Env:/im);
});

const phpScript = `<?php
var_dump(mail('a@partner.test', 'from PHP', "Grüße\\n.\\nzweiter Absatz\\r\\n", [
  'From' => 'Shop <shop@example.com>',
  'X-Mailer' => 'PHP/8',
  'Content-Type' => 'text/plain; charset=utf-8',
  ...array_slice($argv, 1) ? [$argv[1] => $argv[2]] : [],
]));
`;

test('PHP mail() through msmtp as sendmail_path', async () => {
  const rc = gateway.msmtprc('php', { token: gateway.tokens.default, lines: ['from shop@example.com'] });
  const script = join(gateway.postern.folder, 'mail.php');
  writeFileSync(script, phpScript);
  const settings = ['-d', `sendmail_path=/usr/bin/msmtp -C ${rc} -t`, '-d', 'mail.add_x_header=On'];
  const { code, output } = await runProgram('php', [...settings, script]);
  expect([code, output]).toEqual([0, 'bool(true)\n']);
  const { head, parsed } = await gateway.arrived('from PHP');
  expect(parsed.text).toContain('Grüße\n.\nzweiter Absatz\n');
  expect(head).toMatch(/\r\nX-PHP-Originating-Script: \d+:mail\.php\r\n/);

  const refused = await runProgram('php', [...settings, script, 'Sender', 'robot@example.com']);
  expect(refused.output).toContain('554 5.7.1 E_HEADER_NOT_ALLOWED: Sender is not on the allowlist');
  expect(refused.output).toContain('bool(false)');
});

const rubyScript = `
require 'mail'
port, token, trust = ARGV
Mail.defaults do
  delivery_method :smtp, address: 'localhost', port: port.to_i, user_name: 'api_token', password: token,
    authentication: 'plain', enable_starttls: true, openssl_verify_mode: 'peer', ca_file: trust
end
m = Mail.new do
  from 'Ruby <ruby@example.com>'
  to 'Zoë <z@partner.test>'
  subject 'from Ruby'
  text_part { content_type 'text/plain; charset=UTF-8'; body "Grüße aus Ruby\\n" }
  html_part { content_type 'text/html; charset=UTF-8'; body '<p>Grüße aus Ruby</p>' }
end
m.deliver!
m['Sender'] = 'robot@example.com'
begin
  m.deliver!
rescue Net::SMTPFatalError => e
  puts e.message
end
`;

test('Ruby’s mail gem, which Rails’ ActionMailer sends with', async () => {
  const args = ['-e', rubyScript, `${gateway.port}`, gateway.tokens.default, gateway.trust];
  const { code, output } = await runProgram('ruby', args, { env: { LC_ALL: 'C.UTF-8' } });
  expect([code, output]).toEqual([0, '554 5.7.1 E_HEADER_NOT_ALLOWED: Sender is not on the allowlist\n']);
  const { parsed } = await gateway.arrived('from Ruby');
  expect(parsed.text).toContain('Grüße aus Ruby');
  expect(parsed.html).toContain('<p>Grüße aus Ruby</p>');
});
