// An estate moves in: fourteen mailers from Debian as root of two hosts that nobody owns, behind a Postfix (box.internal) and an
// Exim (web.internal). Copies go to shadow listeners; the lines that the report proposes are applied as printed; then the
// same mail comes by the normal listeners, and what is still refused is refused with reason.

import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Box, boxPrograms, sendByBox, unpackMailers } from '../support/box-mailers.ts';
import { runPostern } from '../support/client-gateway.ts';
import { type Exim, startExim } from '../support/exim.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { type Postfix, startPostfix } from '../support/postfix.ts';
import { type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts';
import { requirePrograms } from './programs.ts';

/** Postfix copies no notice of its own, so that this one comes without having been in the shadow. */
const bounceOfPostfix = 'Undelivered Mail Returned to Sender';

/** The mail of the estate, by Subject, that should pass once it is configured. */
const good: readonly (string | RegExp)[] = [
  ...[/^Cron <root@\S+> echo "3 Dateien/, /^Cron <root@\S+> echo Sicherung/, /^Logwatch for box/],
  ...['SMART error (Health) detected on box', 'from mutt', 'from s-nail', 'from PHP', 'from PHP with a priority'],
  ...['[PATCH] etckeeper', bounceOfPostfix, 'from msmtp', 'from Python'],
  ...['from Python with a receipt', 'from Python that is urgent', 'from SMTPHandler', 'from Perl', 'from Ruby'],
  'Mail delivery failed: returning message to sender',
];

/** What stays refused, by Subject or sender, with the reason: nobody lends the account the domain of a customer or a bank. */
const wrong: Readonly<Record<string, readonly string[]>> = {
  'from PHP as a customer': ['E_SENDER_NOT_VERIFIED'],
  // Refused at MAIL, before there was a Subject.
  'service@bank.example.net': ['E_SENDER_NOT_VERIFIED'],
};

let postern: PosternProcess;
let world: SmtpSink;
const running: { postfix?: Postfix | undefined; exim?: Exim | undefined } = {};

function listener(name: string, more: object) {
  return { name, listen: '127.0.0.1:0', tls: 'none', allowFrom: ['127.0.0.0/8'], ...more };
}

beforeAll(async () => {
  requirePrograms(...boxPrograms, 'swaks', 'smtp-sink');
  unpackMailers();
  world = await startSmtpSink();
  postern = await startPostern({
    config: {
      development: { account: 'dev', credential: 'box' },
      platform: { dkim: [{ selector: 'p1', algorithm: 'ed25519' }] },
      http: { listen: '127.0.0.1:0' },
      smtp: {
        listeners: [
          listener('shadow-box', { credential: 'dev/box', shadow: true }),
          listener('shadow-web', { credential: 'dev/web', shadow: true }),
          listener('box', { credential: 'dev/box' }),
          listener('web', { credential: 'dev/web' }),
        ],
      },
      journal: { content: 'headers' },
      routes: [{ name: 'keep', type: 'capture' }],
      accounts: [
        {
          ...{ name: 'dev', id: 'a1'.repeat(16) },
          sendingDomains: [{ name: 'example.com', dkim: [{ selector: 's1', algorithm: 'ed25519' }] }],
          credentials: [
            { name: 'box', scopes: ['email:send', 'console:read'] },
            { name: 'web', scopes: ['email:send'] },
          ],
        },
      ],
    },
    makesKeys: true,
  });
}, 60_000);

async function stopServers() {
  running.postfix?.stop();
  await running.exim?.stop();
  running.postfix = undefined;
  running.exim = undefined;
}

afterAll(async () => {
  await stopServers();
  await world?.stop();
  await postern?.cleanUp();
});

/** Ports of Postern that the two servers use. */
interface Ways {
  readonly box: number;
  readonly web: number;
}

/** Starts both servers in front. @param next where they hand mail on. @param shadow where copies go */
async function startServers(next: Ways, shadow?: Ways): Promise<Box> {
  const copies = shadow ? ['always_bcc = copies@shadow.invalid'] : [];
  const shadowed = shadow ? ` { shadow.invalid = smtp:[127.0.0.1]:${shadow.box} }` : '';
  const postfix = await startPostfix({
    mainCf: [
      ...['myhostname = box.internal', 'myorigin = box.internal', `relayhost = [127.0.0.1]:${next.box}`, ...copies],
      'virtual_alias_maps = inline:{ root@box.internal=ops@partner.test }',
      `transport_maps = inline:{ { broken.test = error:5.1.1 no such user }${shadowed} }`,
    ],
  });
  running.postfix = postfix;
  const copy = `copy:
  driver = manualroute
  domains = !broken.test
  route_list = * 127.0.0.1
  self = send
  transport = shadow
  unseen
`;
  const exim = await startExim({
    ...{ next: next.web, dsn: false },
    more: () => ({
      routers: `${shadow ? copy : ''}broken:
  driver = redirect
  domains = broken.test
  allow_fail
  data = :fail: no such user
`,
      transports: `shadow:
  driver = smtp
  port = ${shadow?.web ?? next.web}
  hosts_try_fastopen =
`,
    }),
  });
  running.exim = exim;
  return { folder: postern.folder, env: { MAIL_CONFIG: `${postfix.folder}/conf` }, port: exim.port };
}

interface Row {
  readonly subject: string | null;
  readonly sender: string;
  readonly outcome: string;
  readonly shadow: boolean;
  readonly codes: readonly string[];
}

/** The journal's rows with a Subject, copies or messages. */
async function rows(shadow: boolean): Promise<readonly Row[]> {
  const url = `http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/journal?per_page=100&shadow=${shadow}`;
  const answer = await fetch(url, { headers: { Authorization: `Bearer ${testToken}` } });
  return ((await answer.json()) as { result: Row[] }).result;
}

function nameOf({ subject, sender }: Row): string {
  return subject || sender;
}

function has(found: readonly Row[], name: string | RegExp): boolean {
  return found.some((row) => (typeof name === 'string' ? nameOf(row) === name : name.test(nameOf(row))));
}

/** Waits until each of these subjects was judged. */
async function judged(subjects: readonly (string | RegExp)[], shadow: boolean): Promise<readonly Row[]> {
  const missing = async () => {
    const found = await rows(shadow);
    return subjects.filter((subject) => !has(found, subject));
  };
  await expect.poll(missing, { timeout: 30_000, interval: 250 }).toEqual([]);
  return await rows(shadow);
}

test('what the report proposes for the copies lets the estate in, and refuses only what it must', async () => {
  const port = (name: string): number => postern.ports[name] ?? 0;
  const estate = await startServers(
    { box: world.port, web: world.port },
    { box: port('shadow-box'), web: port('shadow-web') },
  );
  await sendByBox(estate);
  const copied = good.filter((subject) => subject !== bounceOfPostfix);
  const copies = await judged([...copied, 'from PHP as a customer', 'from Python as the bank'], true);
  expect(copies.filter(({ outcome }) => outcome === 'accepted').length / copies.length).toBeLessThan(0.5);
  expect(postern.captured()).toEqual([]);
  await stopServers();

  const applied = await runPostern(postern, ['report', '--shadow', 'only', '--since', '1h', '--apply', '--yes']);
  expect(applied.code, applied.output).toBe(0);
  expect(applied.output).toContain('senders: { "*@box.internal": "*@example.com" }');
  expect(applied.output).toContain('senders: { "*@web.internal": "*@example.com" }');
  // A domain that somebody owns is never mapped.
  expect(applied.output).not.toMatch(/"\*@(?:\w+\.)?example\.(?:org|net)":/);
  expect((await runPostern(postern, ['reload'])).code).toBe(0);

  await sendByBox(await startServers({ box: port('box'), web: port('web') }));
  const came = await judged([...good, ...Object.keys(wrong)], false);
  const passed = came.filter(({ outcome }) => outcome !== 'refused');
  expect(good.filter((subject) => has(passed, subject)).length / good.length).toBeGreaterThanOrEqual(0.95);
  const refused = came.filter(({ outcome }) => outcome === 'refused');
  const reasons = refused.map((row) => [nameOf(row), [...new Set(row.codes)]]);
  expect(Object.fromEntries(reasons)).toEqual(wrong);
}, 90_000);
