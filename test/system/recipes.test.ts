// The recipes of docs/mailers.md: each is run as it stands there, with host, port and token of a gateway and the file to
// trust, or is named here as one that only a program outside of .ci/packages can run.

import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ClientGateway, startClientGateway } from '../support/client-gateway.ts';
import { fencedBlocks, markdownPages, readPage } from '../support/markdown.ts';
import { type Postfix, startPostfix } from '../support/postfix.ts';
import { type Ended, requirePrograms, runProgram } from './programs.ts';

const page = 'docs/mailers.md';

/** Languages of blocks that no program reads, and of those that other tests take up: documents.test.ts of both suites. */
const others = new Set(['sh', 'yaml', 'json', 'text', 'mermaid']);

const recipes = fencedBlocks(readPage(page)).filter(({ language }) => !others.has(language));

/** What the recipes are for that were run by hand, in the versions that the page names. */
const byHand: Readonly<Record<string, string>> = {
  'postern:\n  driver = smtp': 'Exim',
  'table secrets': 'OpenSMTPD',
  SMARTHOST: 'dma',
  'gateway.example.com smtp': 'nullmailer',
  'mailhub=': 'ssmtp',
  'EMAIL_HOST =': 'Django',
  '$mail->': 'PHPMailer',
  '(setq ': 'Emacs',
};

let gateway: ClientGateway;
let postfix: Postfix | undefined;
beforeAll(async () => {
  requirePrograms('msmtp', 'php', 'mutt', 's-nail', 'mail.mailutils', 'postfix', 'python3', 'ruby', 'swaks');
  gateway = await startClientGateway();
});
afterAll(async () => {
  postfix?.stop();
  await gateway?.postern.cleanUp();
});

/** The recipe that begins so, with the gateway's host, port and token. */
function recipe(begins: string, host = 'localhost', token = gateway.tokens.default): string {
  const [found, ...more] = recipes.filter(({ text }) => text.startsWith(begins));
  if (!found || more.length > 0) throw new Error(`${page} has ${more.length} recipes that begin with ${begins}`);
  return found.text
    .replaceAll('gateway.example.com', host)
    .replaceAll(/\b587\b/g, `${gateway.port}`)
    .replaceAll('TOKEN', token);
}

/** A file in the folder that is HOME, which no other user may read. */
function file(name: string, text: string): string {
  const path = join(gateway.postern.folder, name);
  writeFileSync(path, text);
  chmodSync(path, 0o600);
  return path;
}

function run(program: string, args: readonly string[], input = 'Text.\n', more = {}): Promise<Ended> {
  const trust = { SSL_CERT_FILE: gateway.trust, NODE_EXTRA_CA_CERTS: gateway.trust };
  return runProgram(program, args, {
    input,
    env: { HOME: gateway.postern.folder, LC_ALL: 'C.UTF-8', ...trust, ...more },
  });
}

const ranHere: Readonly<Record<string, (begins: string, subject: string) => Promise<Ended>>> = {
  'account default': (begins, subject) => {
    const rc = file('msmtprc', `${recipe(begins)}tls_trust_file ${gateway.trust}\n`);
    const message = `From: a@example.com\nTo: b@partner.test\nSubject: ${subject}\n\nText.\n`;
    return run('msmtp', ['-C', rc, '-t'], message);
  },
  'sendmail_path =': (begins, subject) => {
    const rc = file('msmtprc-php', `${recipe('account default')}tls_trust_file ${gateway.trust}\n`);
    const ini = file(
      'php.ini',
      recipe(begins)
        .replace(/-C \S+ -t/, `"$&"`)
        .replace('/etc/msmtprc', rc)
        .replaceAll('"', ''),
    );
    const call = `exit(mail('b@partner.test', '${subject}', 'Text.', ['From' => 'a@example.com']) ? 0 : 1);`;
    return run('php', ['-c', ini, '-r', call]);
  },
  'set from = ': (begins, subject) => {
    const rc = file('muttrc', `${recipe(begins)}set certificate_file = "${gateway.trust}"\nset copy = no\n`);
    return run('mutt', ['-F', rc, '-s', subject, '--', 'b@partner.test']);
  },
  'set v15-compat': (begins, subject) => {
    const rc = file('nailrc', `${recipe(begins)}set tls-ca-no-defaults tls-ca-file=${gateway.trust} DEAD=/dev/null\n`);
    // It takes the home of the system's list of users, not HOME.
    return run('s-nail', ['-s', subject, 'b@partner.test'], 'Text.\n', { MAILRC: rc });
  },
  'set sendmail=': (begins, subject) => {
    file('.mailrc', recipe(begins));
    const args = ['-a', 'From: backup@example.com', '-r', 'backup@example.com', '-s', subject, 'b@partner.test'];
    return run('mail.mailutils', args);
  },
  'relayhost =': async (begins, subject) => {
    const lines = recipe(begins, '127.0.0.1', gateway.tokens.oldbox).trim().split('\n');
    const trust = [`smtp_tls_CAfile = ${gateway.trust}`, 'smtp_tls_secure_cert_match = localhost'];
    postfix = await startPostfix({ mainCf: ['myhostname = box.internal', ...lines, ...trust] });
    const envelope = ['--from', 'a@example.com', '--to', 'b@partner.test'];
    const message = ['--header', `Subject: ${subject}`, '--header', 'User-Agent: Old/1.0', '--body', 'Text.'];
    return run('swaks', ['--server', '127.0.0.1', '--port', `${postfix.port}`, ...envelope, ...message]);
  },
  'with smtplib.SMTP': (begins, subject) => {
    const given = `import smtplib, ssl, email.message
token = '${gateway.tokens.default}'
message = email.message.EmailMessage()
message['From'], message['To'], message['Subject'] = 'a@example.com', 'b@partner.test', '${subject}'
message.set_content('Text.')
`;
    return run('python3', ['-c', `${given}${recipe(begins)}`]);
  },
  'delivery_method :smtp': (begins, subject) => {
    const given = `require 'mail'\ntoken = '${gateway.tokens.default}'\nMail.defaults do\n${recipe(begins)}end\n`;
    const send = `Mail.deliver { from 'a@example.com'; to 'b@partner.test'; subject '${subject}'; body 'Text.' }`;
    return run('ruby', ['-e', `${given}${send}`]);
  },
  createTransport: (begins, subject) => {
    const given = `import { createTransport } from 'nodemailer';\nconst token = '${gateway.tokens.default}';\n`;
    const message = `{ from: 'a@example.com', to: 'b@partner.test', subject: '${subject}', text: 'Text.' }`;
    const script = `${given}await (${recipe(begins).trim()}).sendMail(${message});`;
    return run(process.execPath, ['--input-type=module', '-e', script]);
  },
};

test('every recipe is run here, or was run by hand with a program that CI does not have', () => {
  const named = [...Object.keys(ranHere), ...Object.keys(byHand)];
  const unnamed = recipes.filter(({ text }) => named.filter((begins) => text.startsWith(begins)).length !== 1);
  expect(unnamed.map(({ line }) => `${page}:${line}`)).toEqual([]);
  expect(named.filter((begins) => recipes.every(({ text }) => !text.startsWith(begins)))).toEqual([]);
});

test('no other page has a block in a language that no test looks at', () => {
  const known = new Set([...others, 'js', 'ts']);
  const looked: Readonly<Record<string, string>> = {
    expression: 'test/edge/custom/expression.test.ts',
    conf: 'logrotate: CI has none',
    nginx: 'test/system/edge-behind-a-proxy.test.ts',
    haproxy: 'test/system/edge-behind-a-proxy.test.ts',
    caddyfile: 'test/system/edge-behind-a-proxy.test.ts',
  };
  const unknown = markdownPages()
    .filter((name) => name !== page)
    .flatMap((name) => fencedBlocks(readPage(name)).map((block) => ({ ...block, name })))
    .filter(({ language }) => !known.has(language) && looked[language] === undefined);
  expect(unknown.map(({ name, line, language }) => `${name}:${line} ${language}`)).toEqual([]);
});

test.each(Object.keys(ranHere))('the recipe that begins with "%s" sends a message', async (begins) => {
  const subject = `from the recipe ${begins.replaceAll(/\W+/g, ' ').trim()}`;
  const { code, output } = (await ranHere[begins]?.(begins, subject)) ?? { code: 1, output: '' };
  expect([code, output]).toEqual([0, expect.any(String)]);
  const { head } = await gateway.arrived(subject);
  expect(head).not.toMatch(/^User-Agent:/im);
});

test.each(['README.md', page])('a refusal reads as %s shows it', async (name) => {
  const shown = fencedBlocks(readPage(name)).find(({ text }) => text.startsWith('554-5.7.1 E_HEADER'))?.text ?? '';
  const precedence = /Precedence must be .*; got "([^"]+)"/.exec(shown)?.[1] ?? '';
  const empty = shown.includes('X-Empty') ? ['--header', 'X-Empty: '] : [];
  const headers = ['--header', 'User-Agent: Old/1.0', ...empty, '--header', `Precedence: ${precedence}`];
  const { code, output } = await runProgram('swaks', [
    ...['--server', `127.0.0.1:${gateway.port}`, '--tls', '--auth', 'PLAIN', '--auth-user', 'api_token'],
    ...['--auth-password', gateway.tokens.default, '--from', 'a@example.com', '--to', 'b@partner.test', ...headers],
  ]);
  expect(code).toBe(26);
  const replies = output.split('\n').filter((line) => line.startsWith('<~* 554'));
  expect(replies.map((line) => line.slice(4))).toEqual(shown.trim().split('\n'));
});
