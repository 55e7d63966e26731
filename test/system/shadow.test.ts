// Old servers that go on sending by themselves and hand a copy of everything to a shadow listener (D4f): Debian's Postfix with
// always_bcc, and Exim with shadow_transport and with an unseen router, set up as docs/estate.md says.

import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Exim, startExim } from '../support/exim.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { type Postfix, startPostfix } from '../support/postfix.ts';
import { type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts';
import { requirePrograms, runProgram } from './programs.ts';

let postern: PosternProcess;
let world: SmtpSink;
let postfix: Postfix | undefined;
let exim: Exim | undefined;

beforeAll(async () => {
  requirePrograms('postfix', 'swaks', 'msmtp');
  // Where the old servers deliver by themselves.
  world = await startSmtpSink();
  postern = await startPostern({
    config: {
      development: { account: 'dev', credential: 'box' },
      http: { listen: '127.0.0.1:0' },
      smtp: {
        listeners: [
          {
            ...{ name: 'shadow', listen: '127.0.0.1:0', tls: 'none', shadow: true, trustedHop: true },
            ...{ credential: 'dev/box', allowFrom: ['127.0.0.0/8'] },
          },
        ],
      },
      journal: { content: 'headers' },
      routes: [{ name: 'keep', type: 'capture' }],
      accounts: [
        {
          ...{ name: 'dev', id: 'a1'.repeat(16) },
          sendingDomains: [{ name: 'example.com', dkim: [{ selector: 'e1', algorithm: 'ed25519' }] }],
          credentials: [{ name: 'box', scopes: ['email:send', 'console:read'] }],
        },
      ],
    },
  });
  const shadow = postern.ports['shadow'] ?? 0;
  postfix = await startPostfix({
    mainCf: [
      'always_bcc = copies@shadow.invalid',
      `transport_maps = inline:{ { shadow.invalid = smtp:[127.0.0.1]:${shadow} } }`,
      `relayhost = [127.0.0.1]:${world.port}`,
    ],
  });
  exim = await startExim({
    ...{ next: world.port, dsn: false },
    more: (folder) => ({
      routers: `copy:
  driver = manualroute
  senders = unseen@example.com
  route_list = * 127.0.0.1
  self = send
  transport = shadow
  unseen
box:
  driver = accept
  domains = box.internal
  transport = mailbox
`,
      transports: `shadow:
  driver = smtp
  port = ${shadow}
  hosts_try_fastopen =
  command_timeout = 10s
mailbox:
  driver = appendfile
  file = ${folder}/spool/mailbox
  user = 999
  group = 999
  shadow_transport = shadow_copy
shadow_copy:
  driver = pipe
  command = /bin/sh -c 'exec /usr/bin/msmtp --host=127.0.0.1 --port=${shadow} --tls=off --auth=off --from="\\$SENDER" -- copies@shadow.invalid'
  environment = HOME=/nonexistent
  message_prefix =
  message_suffix =
  user = 999
  group = 999
`,
    }),
  });
}, 90_000);
afterAll(async () => {
  postfix?.stop();
  await exim?.stop();
  await world?.stop();
  await postern?.cleanUp();
});

async function hand(
  port: number | undefined,
  about: { readonly from: string; readonly to: string },
  ...more: string[]
) {
  const { code, output } = await runProgram('swaks', [
    ...['--server', '127.0.0.1', '--port', `${port}`, '--from', about.from, '--to', about.to, ...more],
  ]);
  expect([code, output]).toEqual([0, expect.stringMatching(/<-  250 (?:2\.0\.0 Ok: queued|OK id=)/)]);
}

interface Row {
  readonly subject: string;
  readonly outcome: string;
  readonly shadow: boolean;
  readonly sender: string;
  readonly recipients: readonly string[];
  readonly codes: readonly string[];
}

/** The row of the journal with a subject. */
async function judged(subject: string): Promise<Row> {
  const url = `http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/journal?per_page=100`;
  let found: Row | undefined;
  const look = async () => {
    const answer = await fetch(url, { headers: { Authorization: `Bearer ${testToken}` } });
    found = ((await answer.json()) as { result: Row[] }).result.find((row) => row.subject === subject);
    return found?.subject;
  };
  await expect.poll(look, { timeout: 30_000 }).toBe(subject);
  if (!found) throw new Error('It is gone');
  return found;
}

test('Postfix with always_bcc: the message goes where it went, and its copy is judged', async () => {
  const from = 'app@example.com';
  await hand(postfix?.port, { from, to: 'a@partner.test' }, '--header', 'Subject: postfix good');
  await hand(
    postfix?.port,
    { from, to: 'b@partner.test' },
    '--header',
    'Subject: postfix bad',
    '--add-header',
    'User-Agent: old',
  );
  expect(await judged('postfix good')).toMatchObject({
    ...{ shadow: true, outcome: 'accepted', sender: from, recipients: ['a@partner.test'], codes: [] },
  });
  expect(await judged('postfix bad')).toMatchObject({
    shadow: true,
    outcome: 'refused',
    codes: ['E_HEADER_NOT_ALLOWED'],
  });
  await expect.poll(() => postfix?.mailLog(), { timeout: 20_000 }).toMatch(/to=<a@partner\.test>.* status=sent/);
  await expect
    .poll(
      () => postfix?.mailLog().match(/to=<copies@shadow\.invalid>.* status=sent \(250 2\.0\.0 Ok, judged/g)?.length,
      { timeout: 20_000 },
    )
    .toBe(2);
});

test('Exim with an unseen router: what leaves is judged as well', async () => {
  await hand(exim?.port, { from: 'unseen@example.com', to: 'c@partner.test' }, '--header', 'Subject: exim unseen');
  expect(await judged('exim unseen')).toMatchObject({
    ...{ shadow: true, sender: 'unseen@example.com', recipients: ['c@partner.test'] },
  });
});

test('Exim with shadow_transport: what is delivered locally is judged as well', async () => {
  const about = { from: 'app@example.com', to: 'root@box.internal' };
  await hand(exim?.port, about, '--header', 'Subject: exim shadow', '--header', 'To: root@box.internal');
  expect(await judged('exim shadow')).toMatchObject({
    ...{ shadow: true, outcome: 'accepted', sender: 'app@example.com', recipients: ['root@box.internal'] },
  });
  await expect
    .poll(() => exim?.mainLog(), { timeout: 20_000 })
    .toMatch(/root@box\.internal> R=box T=mailbox ST=shadow_copy/);
});

test('nothing of all this was sent by Postern', () => {
  expect(postern.captured()).toEqual([]);
  expect(postern.log().filter(({ msg }) => msg === 'accepted' || msg === 'delivered')).toEqual([]);
});
