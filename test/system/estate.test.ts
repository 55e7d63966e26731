// An estate moves in: fourteen mailers from Debian as root of two hosts that nobody owns, behind a Postfix (box.internal) and an
// Exim (web.internal). Copies go to shadow listeners. Each cure that the console shows for them, pasted where it says, lets the next
// such message in. Then the lines that the report proposes are applied as printed, and the same mail comes by the normal
// listeners: what is still refused is refused with reason.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { type Box, boxPrograms, sendByBox, unpackMailers } from '../support/box-mailers.ts';
import { launchBrowser } from '../support/browser-pages.ts';
import { runPostern } from '../support/client-gateway.ts';
import { openConsolePage } from '../support/console-pages.ts';
import { curesOfMessages, curesOfRefusals, pasteLines, patchText } from '../support/cures-shown.ts';
import { type Exim, startExim } from '../support/exim.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { type Postfix, startPostfix } from '../support/postfix.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { runHere } from '../support/run-cli.ts';
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
  'service@bank-beispiel.de': ['E_SENDER_NOT_VERIFIED'],
};

let postern: PosternProcess;
let world: SmtpSink;
let browser: Browser;
const running: { postfix?: Postfix | undefined; exim?: Exim | undefined } = {};

function listener(name: string, more: object) {
  return { name, listen: '127.0.0.1:0', tls: 'none', allowFrom: ['127.0.0.0/8'], ...more };
}

beforeAll(async () => {
  requirePrograms(...boxPrograms, 'swaks', 'smtp-sink', 'chromium-headless-shell', 'patch');
  unpackMailers();
  world = await startSmtpSink();
  browser = await launchBrowser();
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
      journal: { content: 'full' },
      routes: [{ name: 'keep', type: 'capture' }],
      accounts: [
        {
          ...{ name: 'dev', id: 'a1'.repeat(16) },
          sendingDomains: [{ name: 'example.com', dkim: [{ selector: 's1', algorithm: 'ed25519' }] }],
          credentials: [
            { name: 'box', scopes: ['email:send', 'console:read', 'admin'] },
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
  await browser?.close();
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
  readonly id: string;
  readonly subject: string | null;
  readonly sender: string;
  readonly outcome: string;
  readonly credential: string;
  readonly codes: readonly string[];
}

/** Asks the API for something of the account. */
async function ask(path: string): Promise<Response> {
  const url = `http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/journal${path}`;
  return await fetch(url, { headers: { Authorization: `Bearer ${testToken}` } });
}

/** The journal's rows with a Subject, copies or messages. @param before ids of rows that are left out */
async function rows(shadow: boolean, before: ReadonlySet<string> = new Set()): Promise<readonly Row[]> {
  const answer = await ask(`?per_page=100&shadow=${shadow}`);
  return ((await answer.json()) as { result: Row[] }).result.filter(({ id }) => !before.has(id));
}

function nameOf({ subject, sender }: Row): string {
  return subject || sender;
}

function has(found: readonly Row[], name: string | RegExp): boolean {
  return found.some((row) => (typeof name === 'string' ? nameOf(row) === name : name.test(nameOf(row))));
}

/** Waits until each of these subjects was judged. */
async function judged(
  subjects: readonly (string | RegExp)[],
  shadow: boolean,
  before?: ReadonlySet<string>,
): Promise<readonly Row[]> {
  const missing = async () => {
    const found = await rows(shadow, before);
    return subjects.filter((subject) => !has(found, subject));
  };
  await expect.poll(missing, { timeout: 30_000, interval: 250 }).toEqual([]);
  return await rows(shadow, before);
}

function port(name: string): number {
  return postern.ports[name] ?? 0;
}

test('copies of the estate are judged, and nothing of them leaves', async () => {
  const estate = await startServers(
    { box: world.port, web: world.port },
    { box: port('shadow-box'), web: port('shadow-web') },
  );
  await sendByBox(estate);
  await stopServers();
  const copied = good.filter((subject) => subject !== bounceOfPostfix);
  const copies = await judged([...copied, 'from PHP as a customer', 'from Python as the bank'], true);
  expect(copies.filter(({ outcome }) => outcome === 'accepted').length / copies.length).toBeLessThan(0.5);
  expect(postern.captured()).toEqual([]);
}, 60_000);

/** Puts a configuration in force that the check finds valid; by commands in this process, since there are dozens. */
async function putInForce(text: string): Promise<void> {
  writeFileSync(join(postern.folder, 'postern.yaml'), text);
  for (const command of [['config', 'check'], ['reload']]) {
    const { exitCode, stdout, stderr } = await runHere(command, { env: postern.env, cwd: postern.folder });
    expect(exitCode, `${command.join(' ')}: ${stdout}${stderr}\n${text}`).toBe(0);
  }
}

/** Hands a message in again as it came, by the normal listener of its credential. @returns the code of the last reply */
async function sendAgain({ id, sender, credential }: Row): Promise<number> {
  const received = Buffer.from(await (await ask(`/${id}/received`)).arrayBuffer()).toString('latin1');
  const client = await connectSmtp(port(credential));
  try {
    await client.reply();
    const before = ['EHLO client.example.com', `MAIL FROM:<${sender}>`, 'RCPT TO:<you@partner.test>', 'DATA'];
    for (const line of before) {
      const { code } = await client.command(line);
      if (code >= 400) return code;
    }
    return (await client.command(`${received.replace(/^\./gm, '..')}\r\n.`)).code;
  } finally {
    client.close();
  }
}

test('each cure that the console shows, pasted where it says, is valid and lets the next such message in', async () => {
  const bare = stringify(parse(readFileSync(join(postern.folder, 'postern.yaml'), 'utf8')));
  await putInForce(bare);
  const refused = new Map((await rows(true)).filter((row) => row.outcome === 'refused').map((row) => [row.id, row]));
  const opened = await openConsolePage(browser, `http://127.0.0.1:${port('http')}`);
  const ofCauses = await curesOfRefusals(opened);
  const ofMessages = await curesOfMessages(opened, [...refused.keys()]);
  await opened.close();
  expect(opened.complaints).toEqual([]);
  expect(ofCauses.length).toBeGreaterThan(10);
  // The change of the file does the same as the lines.
  for (const cure of ofCauses.filter(({ credential }) => credential !== undefined)) {
    const patched = await patchText(postern.folder, bare, cure.change ?? '');
    expect(parse(patched)).toEqual(parse(pasteLines(bare, cure)));
  }

  // A message whose program has to be changed stays refused, whatever is pasted.
  const isOfProgram = new Set(ofMessages.filter((cure) => cure.credential === undefined).map(({ id }) => id));
  const names = [...isOfProgram].map((id) => nameOf(refused.get(id) as Row));
  expect(names.toSorted()).toEqual(['from PHP as a customer', 'from Python as the bank']);
  const pasted = Map.groupBy(
    [...ofCauses, ...ofMessages].filter(({ credential }) => credential !== undefined),
    (cure) => pasteLines(bare, cure),
  );
  for (const [text, cures] of pasted) {
    await putInForce(text);
    for (const id of new Set(cures.map((cure) => cure.id))) {
      const row = refused.get(id) as Row;
      const reply = await sendAgain(row);
      expect(reply, `${nameOf(row)} with ${cures[0]?.lines}`).toBe(isOfProgram.has(id) ? 550 : 250);
    }
  }
  await putInForce(bare);
}, 180_000);

test('what the report proposes for the copies lets the estate in, and refuses only what it must', async () => {
  const before = new Set((await rows(false)).map(({ id }) => id));
  const applied = await runPostern(postern, ['report', '--shadow', 'only', '--since', '1h', '--apply', '--yes']);
  expect(applied.code, applied.output).toBe(0);
  expect(applied.output).toContain('senders: { "*@box.internal": "*@example.com" }');
  expect(applied.output).toContain('senders: { "*@web.internal": "*@example.com" }');
  // A domain that somebody owns is never mapped.
  expect(applied.output).not.toMatch(/beispiel\.de"?:/);
  expect((await runPostern(postern, ['reload'])).code).toBe(0);

  await sendByBox(await startServers({ box: port('box'), web: port('web') }));
  const came = await judged([...good, ...Object.keys(wrong)], false, before);
  const passed = came.filter(({ outcome }) => outcome !== 'refused');
  expect(good.filter((subject) => has(passed, subject)).length / good.length).toBeGreaterThanOrEqual(0.95);
  const refused = came.filter(({ outcome }) => outcome === 'refused');
  const reasons = refused.map((row) => [nameOf(row), [...new Set(row.codes)]]);
  expect(Object.fromEntries(reasons)).toEqual(wrong);
}, 90_000);
