// Debian's Postfix as the smarthost behind Postern: in the clear, by STARTTLS with a certificate that is verified, with
// AUTH; the signatures still hold after Postfix has delivered or relayed the message. Then it defers and rejects: the
// queue keeps its words.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { simpleParser } from 'mailparser';
import { createTransport } from 'nodemailer';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testCertificate } from '../support/certificate.ts';
import { runPostern } from '../support/client-gateway.ts';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { type OpenDkim, openDkim } from '../support/opendkim.ts';
import { type PolicyService, startPolicyService } from '../support/policy-service.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { type Postfix, startPostfix } from '../support/postfix.ts';
import { type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts';
import { requirePrograms } from './programs.ts';

const password = 'next-hop-password';
let policy: PolicyService;
let sink: SmtpSink;
let postfix: Postfix;
let postern: PosternProcess;
let verifier: OpenDkim;

beforeAll(async () => {
  requirePrograms('postfix', 'smtp-sink', 'saslpasswd2', 'opendkim');
  const certificate = await testCertificate(['localhost']);
  policy = await startPolicyService();
  sink = await startSmtpSink();
  postfix = await startPostfix({ mainCf: (folder) => postfixSettings(folder, certificate) });
  postern = await startPostern({
    config: configuration(postfix.port, join(postfix.folder, 'cert.pem')),
    env: { NEXT_HOP_PASSWORD: password },
  });
  verifier = openDkim(dkimRecords(postern.certsDir));
});
afterAll(async () => {
  verifier?.remove();
  await postern?.cleanUp();
  postfix?.stop();
  await sink?.stop();
  await policy?.close();
});

/** Receives by STARTTLS and AUTH, delivers local.test and its kin into a Maildir, relays onward.test to the sink. */
function postfixSettings(folder: string, certificate: { readonly cert: string; readonly key: string }): string[] {
  writeFileSync(join(folder, 'cert.pem'), certificate.cert);
  writeFileSync(join(folder, 'key.pem'), certificate.key, { mode: 0o600 });
  const users = join(folder, 'sasldb2');
  const sasl = ['pwcheck_method: auxprop', 'auxprop_plugin: sasldb', `sasldb_path: ${users}`, 'mech_list: PLAIN LOGIN'];
  mkdirSync(join(folder, 'conf/sasl')); // where Debian's Postfix looks, whatever cyrus_sasl_config_path says
  writeFileSync(join(folder, 'conf/sasl/smtpd.conf'), `${sasl.join('\n')}\n`);
  const add = ['-p', '-c', '-f', users, '-u', 'postfix.example.com', 'postern'];
  execFileSync('saslpasswd2', add, { input: password, stdio: 'pipe' });
  execFileSync('chown', ['postfix:', users]);
  const [uid, gid] = ['-u', '-g'].map((flag) => execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }).trim());
  mkdirSync(join(folder, 'mail'));
  execFileSync('chown', ['nobody:', join(folder, 'mail')]);
  return [
    'smtpd_tls_security_level = may',
    `smtpd_tls_cert_file = ${folder}/cert.pem`,
    `smtpd_tls_key_file = ${folder}/key.pem`,
    'smtpd_tls_received_header = yes',
    'smtpd_tls_auth_only = yes',
    'smtpd_error_sleep_time = 0',
    'smtpd_sasl_auth_enable = yes',
    'smtpd_sasl_local_domain = postfix.example.com',
    'smtpd_sasl_authenticated_header = yes',
    `smtpd_recipient_restrictions = check_policy_service inet:127.0.0.1:${policy.port}, permit_mynetworks, reject`,
    'virtual_mailbox_domains = verified.test, plain.test, misnamed.test',
    `virtual_mailbox_base = ${folder}/mail`,
    'virtual_mailbox_maps = static:inbox/',
    `virtual_uid_maps = static:${uid}`,
    `virtual_gid_maps = static:${gid}`,
    `transport_maps = inline:{ { onward.test = smtp:[127.0.0.1]:${sink.port} } }`,
  ];
}

function configuration(port: number, ca: string): object {
  const auth = { user: 'postern', passwordEnv: 'NEXT_HOP_PASSWORD' };
  const smarthost = (name: string, host: string, settings: object) => {
    return { name, type: 'smarthost', url: `smtp://${host}:${port}`, ...settings };
  };
  return {
    development: { account: 'dev', credential: 'devices' },
    http: { listen: '127.0.0.1:0', tlsListen: '' },
    smtp: {
      listeners: [
        {
          ...{ name: 'devices', role: 'submission', listen: '127.0.0.1:0', tls: 'none' },
          ...{ credential: 'dev/devices', allowFrom: ['127.0.0.1/32'] },
        },
      ],
    },
    routes: [
      smarthost('plain', '127.0.0.1', {
        match: { recipientDomains: ['plain.test'] },
        tls: 'none',
        platformSignature: false,
      }),
      // The certificate is for localhost only.
      smarthost('misnamed', '127.0.0.1', {
        match: { recipientDomains: ['misnamed.test'] },
        tls: { mode: 'required', ca },
      }),
      smarthost('verified', 'localhost', { tls: { mode: 'required', ca }, auth }),
    ],
    delivery: { retry: { firstDelaySeconds: 1, maxDelaySeconds: 1, expireAfterSeconds: 3600 } },
    accounts: [
      {
        name: 'dev',
        id: 'a1'.repeat(16),
        sendingDomains: [
          {
            name: 'example.com',
            dkim: [
              { selector: 's1', algorithm: 'rsa' },
              { selector: 'e1', algorithm: 'ed25519' },
            ],
          },
        ],
        credentials: [{ name: 'devices', scopes: ['email:send'] }],
      },
    ],
  };
}

/** Hands a message to Postern: UTF-8 text with a line of dots and a long line, and an attachment. */
async function send(subject: string, ...to: readonly string[]): Promise<string> {
  const transport = createTransport({ host: '127.0.0.1', port: postern.ports['devices'] ?? 0, ignoreTLS: true });
  const sent = await transport.sendMail({
    from: 'Grüße GmbH <shop@example.com>',
    to: [...to],
    subject,
    text: `Grüße\n.\n..\nFrom here on\n${'x'.repeat(1200)}\n`,
    list: { unsubscribe: 'https://example.com/u' },
    attachments: [{ filename: 'a.bin', content: Buffer.from([0, 1, 13, 10, 255]) }],
  });
  return /^250 2\.0\.0 Ok <([0-9a-f-]{36})@/.exec(sent.response)?.[1] ?? sent.response;
}

/** What Postfix put into its Maildir, with line ends as on the wire. */
function delivered(subject: string): Buffer | undefined {
  const folder = join(postfix.folder, 'mail/inbox/new');
  let names: readonly string[] = [];
  try {
    names = readdirSync(folder);
  } catch {
    return undefined; // nothing has been delivered yet, so there is no folder
  }
  const text = names.map((name) => readFileSync(join(folder, name), 'latin1')).find((one) => one.includes(subject));
  return text === undefined ? undefined : Buffer.from(text.replaceAll('\n', '\r\n'), 'latin1');
}

const both = [
  'pass platform.example rsa-sha256 p1',
  'pass example.com rsa-sha256 s1',
  'pass example.com ed25519-sha256 e1',
];

/** Both verifiers accept these signatures, and the content is what was sent. */
async function expectIntact(message: Buffer, signatures: readonly string[]): Promise<void> {
  const verdicts = await verifySignatures(message, dkimRecords(postern.certsDir));
  expect(
    verdicts.map(({ result, domain, algorithm, selector }) => `${result} ${domain} ${algorithm} ${selector}`),
  ).toEqual(signatures);
  expect((await verifier.verify(message)).signatures).toEqual(signatures);
  const { text, attachments } = await simpleParser(message);
  expect(text).toBe(`Grüße\n.\n..\nFrom here on\n${'x'.repeat(1200)}\n`);
  expect([...(attachments[0]?.content ?? [])]).toEqual([0, 1, 13, 10, 255]);
}

async function queue(...command: readonly string[]): Promise<string> {
  const { code, output } = await runPostern(postern, ['queue', ...command]);
  expect([code, output]).toEqual([0, expect.anything()]);
  return output;
}

function head(message: Buffer): string {
  return message.toString('latin1', 0, message.indexOf('\r\n\r\n')).replaceAll(/\r\n[ \t]+/g, ' ');
}

test('by STARTTLS, verified, with AUTH, into a Maildir', async () => {
  await send('verified and delivered', 'a@verified.test');
  const message = await postern.until(() => delivered('verified and delivered'));
  expect(head(message)).toMatch(
    /Received: from mx\.platform\.example .*\(using TLSv1\.3 .*\(Authenticated sender: postern@postfix\.example\.com\) by postfix\.example\.com \(Postfix\) with ESMTPSA/,
  );
  expect(head(message)).toMatch(/^Return-Path: <b\+[a-z2-7]+@bounces\.platform\.example>/);
  await expectIntact(message, both);
});

test('in the clear, without the platform’s signature', async () => {
  await send('plain and delivered', 'a@plain.test');
  const message = await postern.until(() => delivered('plain and delivered'));
  expect(head(message)).toMatch(
    /Received: from mx\.platform\.example .* by postfix\.example\.com \(Postfix\) with ESMTP id/,
  );
  await expectIntact(message, both.slice(1));
});

test('relayed on by Postfix to a server without 8BITMIME', async () => {
  await send('relayed onward', 'a@onward.test');
  // smtp-sink writes the file as the message comes in: the last line is the closing boundary.
  const message = await postern.until(() =>
    sink
      .messages()
      .find((one) => one.includes('Subject: relayed onward') && one.toString('latin1').trimEnd().endsWith('--')),
  );
  await expectIntact(message, both);
});

test('a certificate for another name: deferred with that reason, nothing is sent', async () => {
  const id = await send('misnamed', 'a@misnamed.test');
  const shown = await postern.until(() =>
    postern.log().find((line) => line['msg'] === 'deferred' && line['id'] === id),
  );
  expect(shown).toMatchObject({ route: 'misnamed', enhanced: '4.7.5' });
  expect(await queue('show', id)).toMatch(
    /a@misnamed\.test: queued, .*misnamed \(127\.0\.0\.1:\d+\) said 451 4\.7\.5 The TLS handshake failed: .*127\.0\.0\.1/,
  );
  expect(delivered('misnamed')).toBeUndefined();
  expect(await queue('drop', id)).toBe(`${id} dropped\n`);
});

test('one message, three recipients: delivered, deferred, failed, each by itself; the deferred one follows later', async () => {
  policy.actions.set('later@verified.test', '450 4.2.0 Greylisted, come back in a moment');
  policy.actions.set('nobody@verified.test', '550 5.1.1 No such user here');
  const id = await send('three fates', 'a@verified.test', 'later@verified.test', 'nobody@verified.test');
  await postern.until(() => postern.log().find((line) => line['msg'] === 'deferred' && line['id'] === id));
  await postern.until(() => delivered('three fates'));

  const listed = await queue('list', '--search', id);
  expect(listed).toMatch(/^ {2}a@verified\.test: delivered, 1 attempt; verified \(localhost:\d+\) said 250 2\.0\.0 /m);
  expect(listed).toMatch(
    /^ {2}later@verified\.test: queued, \d+ attempts?, next attempt \d{4}-.*Z; verified \(localhost:\d+\) said 450 4\.2\.0 <later@verified\.test>: Recipient address rejected: Greylisted, come back in a moment$/m,
  );
  expect(listed).toMatch(
    /^ {2}nobody@verified\.test: failed, 1 attempt; verified \(localhost:\d+\) said 550 5\.1\.1 <nobody@verified\.test>: Recipient address rejected: No such user here$/m,
  );

  policy.actions.delete('later@verified.test');
  const second = await postern.until(() =>
    postern
      .log()
      .find((line) => line['id'] === id && line['recipient'] === 'later@verified.test' && line['msg'] === 'delivered'),
  );
  expect(second['attempts']).toBeGreaterThan(1);
  expect(await queue('list', '--state', 'queued')).not.toContain(id);
});

test('rejected for good: listed as failed with the words, tried again on request, or dropped', async () => {
  policy.actions.set('disabled@verified.test', '550 5.2.1 Mailbox disabled');
  const [retried, dropped] = [
    await send('to be retried', 'disabled@verified.test'),
    await send('to be dropped', 'disabled@verified.test'),
  ];
  for (const id of [retried, dropped])
    await postern.until(() => postern.log().find((line) => line['msg'] === 'failed' && line['id'] === id));
  const failed = await queue('list', '--state', 'failed');
  for (const id of [retried, dropped]) expect(failed).toContain(id);
  expect(failed).toMatch(
    /disabled@verified\.test: failed, 1 attempt; verified \(localhost:\d+\) said 550 5\.2\.1 <disabled@verified\.test>: Recipient address rejected: Mailbox disabled\n/,
  );

  expect(await queue('drop', dropped)).toBe(`${dropped} dropped\n`);
  policy.actions.delete('disabled@verified.test');
  expect(await queue('retry', '--state', 'failed', retried)).toBe(`${retried} is due now\n`);
  await expectIntact(await postern.until(() => delivered('to be retried')), both);
  const left = await queue('list', '--state', 'failed');
  for (const id of [retried, dropped]) expect(left).not.toContain(id);
  expect(delivered('to be dropped')).toBeUndefined();
});
