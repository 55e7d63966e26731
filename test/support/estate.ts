// An estate of real mailers (Debian): each sends some messages, with its options varied, to an smtp-sink; what they wrote
// is the archive that a rehearsal reads.

import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Ended, runProgram } from '../system/programs.ts';
import { startPostfix } from './postfix.ts';
import { startSmtpSink } from './smtp-sink.ts';

/** The programs that it needs. */
export const estatePrograms = [
  ...['swaks', 's-nail', 'mutt', 'mail.mailutils', 'msmtp', 'curl', 'python3', 'php', 'ruby', 'postfix', 'smtp-sink'],
] as const;

const text = 'Grüße aus dem Bestand.\n';

interface Place {
  readonly port: number;
  /** A folder for files of the programs. */
  readonly folder: string;
}

/** Sends the message of a number; gives how the program ended. */
type Send = (at: number, place: Place) => Promise<Ended>;

function msmtprc({ port, folder }: Place, from: string): string {
  const file = join(folder, `msmtprc-${from}`);
  const lines = ['account default', 'host 127.0.0.1', `port ${port}`, 'tls off', 'auth off', `from ${from}`];
  writeFileSync(file, [...lines, 'set_from_header off', ''].join('\n'));
  chmodSync(file, 0o600);
  return file;
}

const swaks: Send = (at, { port }) => {
  const extra = [
    [],
    ['--header', 'Precedence: first-class'],
    ['--header', 'X-Priority: 1'],
    ['--attach', '@/etc/hostname', '--header', 'Sender: robot@example.com'],
  ][at % 4];
  const args = [
    '--server',
    `127.0.0.1:${port}`,
    '--from',
    'swaks@example.com',
    '--to',
    'a@partner.test',
    '--silent',
    '3',
  ];
  return runProgram('swaks', [...args, ...(extra ?? [])]);
};

const nail: Send = (at, { port, folder }) => {
  const settings = ['v15-compat', 'sendwait', `mta=smtp://127.0.0.1:${port}`, 'smtp-auth=none'];
  const names = ['hostname=client.example.com', 'from=nail@example.com', 'DEAD=/dev/null'];
  const extra = at % 4 === 0 ? ['stealthmua=noagent'] : at % 4 === 1 ? ['sender=robot@example.com'] : [];
  const args = [...settings, ...names, ...extra].flatMap((one) => ['-S', one]);
  return runProgram('s-nail', ['-:/', ...args, '-s', `from s-nail ${at}`, 'a@partner.test'], {
    input: text,
    env: { HOME: folder, LC_ALL: 'C.UTF-8' },
  });
};

const mutt: Send = (at, { port, folder }) => {
  const settings = [
    'from=mutt@example.com',
    'ssl_starttls=no',
    'ssl_force_tls=no',
    'copy=no',
    'hostname=c.example.com',
  ];
  const extra = [['set user_agent=yes'], ['subscribe a@partner.test'], [], ['my_hdr Organization: Bestand']][at % 4];
  const commands = [`set smtp_url=smtp://127.0.0.1:${port}`, ...settings.map((one) => `set ${one}`), ...(extra ?? [])];
  return runProgram(
    'mutt',
    ['-F', '/dev/null', '-e', commands.join('; '), '-s', `from mutt ${at}`, '--', 'a@partner.test'],
    {
      input: text,
      env: { HOME: folder, LC_ALL: 'C.UTF-8' },
    },
  );
};

const mailutils: Send = (at, { port, folder }) => {
  const from = at % 4 === 3 ? [] : ['-a', 'From: Mu <mu@example.com>'];
  const quiet = at % 4 === 2 ? ['--exec', 'unset xmailer'] : [];
  const url = ['--exec', `set sendmail="smtp://127.0.0.1:${port};notls"`];
  const args = [...from, ...url, ...quiet, '-s', `from mailutils ${at}`, '-r', 'mu@example.com', 'a@partner.test'];
  return runProgram('mail.mailutils', args, { input: text, env: { HOME: folder, LC_ALL: 'C.UTF-8' } });
};

/** As Debian's cron writes it. */
const cron: Send = (at, place) => {
  const names = ['SHELL=/bin/sh', 'HOME=/root', 'LOGNAME=root', 'PATH=/usr/bin:/bin'].slice(at % 3);
  const head = ['From: root (Cron Daemon)', 'To: ops@partner.test', `Subject: Cron <root@oldbox> job ${at}`];
  const mime = ['MIME-Version: 1.0', 'Content-Type: text/plain; charset=UTF-8', 'Content-Transfer-Encoding: 8bit'];
  const input = [...head, ...mime, ...names.map((one) => `X-Cron-Env: <${one}>`), '', text].join('\n');
  return runProgram('msmtp', ['-C', msmtprc(place, 'root@example.com'), '-t'], { input });
};

const curl: Send = async (at, { port, folder }) => {
  const file = join(folder, `curl-${at}.eml`);
  const extra = [[], ['Disposition-Notification-To: curl@example.com'], ['X-Empty:']][at % 3] ?? [];
  const head = ['From: curl@example.com', 'To: a@partner.test', `Subject: from curl ${at}`, ...extra];
  writeFileSync(file, [...head, '', text].join('\r\n'));
  const paths = ['--mail-from', 'curl@example.com', '--mail-rcpt', 'a@partner.test'];
  return await runProgram('curl', ['-sS', `smtp://127.0.0.1:${port}`, ...paths, '-T', file]);
};

const pythonScript = `
import smtplib, sys
from email.message import EmailMessage
port, count = int(sys.argv[1]), int(sys.argv[2])
with smtplib.SMTP('127.0.0.1', port) as server:
    for at in range(count):
        m = EmailMessage()
        m['From'] = 'root@localhost' if at % 5 == 4 else 'Python <py@example.com>'
        m['To'] = 'a@partner.test'
        m['Subject'] = 'from Python %d' % at
        m['X-Mailer'] = 'billing 2.%d' % (at % 2)
        if at % 5 == 1: m['Sender'] = 'robot@example.com'
        if at % 5 == 2: m['Return-Receipt-To'] = 'py@example.com'
        if at % 5 == 3: m['X-Loop'] = 'one'; m._headers.append(('X-Loop', 'two'))
        m.set_content('Grüße\\n')
        server.send_message(m, from_addr='py@example.com')
`;

const phpScript = `<?php
for ($at = 0; $at < (int)$argv[1]; $at++) {
  $more = [[], ['Sender' => 'robot@example.com'], ['Errors-To' => 'shop@example.com'], ['X-Priority' => '3']][$at % 4];
  mail('a@partner.test', "from PHP $at", "Grüße\\n", ['From' => 'Shop <shop@example.com>', 'X-Mailer' => 'PHP/8', ...$more]);
}
`;

const rubyScript = `
require 'mail'
port, count = ARGV.map(&:to_i)
Mail.defaults { delivery_method :smtp, address: '127.0.0.1', port: port, enable_starttls_auto: false }
count.times do |at|
  m = Mail.new { from 'Ruby <ruby@example.com>'; to 'a@partner.test'; subject "from Ruby #{at}"; body 'Hello' }
  m['User-Agent'] = 'Portal/4' if at % 3 == 0
  m['Sender'] = 'robot@example.com' if at % 3 == 1
  m.deliver!
end
`;

const single: readonly (readonly [Send, number])[] = [
  [swaks, 32],
  [nail, 40],
  [mutt, 40],
  [mailutils, 40],
  [cron, 40],
  [curl, 24],
];
const [ofPython, ofPhp, ofRuby, ofPostfix] = [50, 32, 24, 12];

async function succeed(what: string, ended: Promise<Ended>): Promise<void> {
  const { code, output } = await ended;
  if (code !== 0) throw new Error(`${what} ended with ${code}: ${output.slice(-500)}`);
}

async function sendByLibraries(place: Place): Promise<void> {
  const script = join(place.folder, 'shop.php');
  writeFileSync(script, phpScript);
  const sendmail = ['-d', `sendmail_path=/usr/bin/msmtp -C ${msmtprc(place, 'shop@example.com')} -t`];
  const php = ['-d', 'mail.add_x_header=On', ...sendmail, script, String(ofPhp)];
  await succeed('Python', runProgram('python3', ['-c', pythonScript, String(place.port), String(ofPython)]));
  await succeed('PHP', runProgram('php', php));
  const ruby = ['-e', rubyScript, String(place.port), String(ofRuby)];
  await succeed('Ruby', runProgram('ruby', ruby, { env: { LC_ALL: 'C.UTF-8' } }));
}

/** Messages that a Postfix relays, and its bounces of others. */
async function sendByPostfix({ port }: Place, arrived: (count: number) => Promise<void>): Promise<void> {
  const postfix = await startPostfix({
    mainCf: [
      `relayhost = [127.0.0.1]:${port}`,
      'myorigin = example.com',
      'transport_maps = inline:{broken.test=error:5.1.1}',
    ],
  });
  try {
    const env = { MAIL_CONFIG: join(postfix.folder, 'conf') };
    for (let at = 0; at < ofPostfix * 2; at += 1) {
      const to = at % 2 === 0 ? 'a@partner.test' : 'nobody@broken.test';
      const input = `From: box@example.com\nTo: ${to}\nSubject: from the box ${at}\n\n${text}`;
      await succeed('Postfix', runProgram('sendmail', ['-f', 'box@example.com', to], { input, env }));
    }
    await arrived(ofPostfix * 2);
  } finally {
    postfix.stop();
  }
}

/** The message as its sender wrote it, and its reverse-path, out of a file of the sink. */
function sentMessage(dump: Buffer): { readonly path: string; readonly message: string } {
  const raw = dump.toString('latin1').replaceAll('\r\n', '\n');
  const path = /^X-Mail-Args: <([^>]*)>/m.exec(raw)?.[1] ?? '';
  return { path, message: raw.replace(/^(?:X-[A-Za-z]+-Args?: .*\n|X-Client-.*\n)+Received: .*\n(?:[ \t].*\n)*/, '') };
}

/** One mboxrd of messages. */
function mboxOf(dumps: readonly Buffer[]): Buffer {
  const messages = dumps.map(sentMessage).map(({ path, message }) => {
    const quoted = message.replaceAll(/^(>*From )/gm, '>$1').replace(/\n*$/, '\n');
    return `From ${path === '' ? 'MAILER-DAEMON' : path} Sun Nov 22 08:00:00 2026\n${quoted}\n`;
  });
  return Buffer.from(messages.join(''), 'latin1');
}

/** Lets every mailer send. @returns the messages as an mbox, and how many there are. @param folder for their files */
export async function sendByEstate(folder: string): Promise<{ readonly mbox: Buffer; readonly count: number }> {
  const sink = await startSmtpSink();
  const arrived = async (count: number): Promise<void> => {
    for (let waitedMs = 0; sink.messages().length < count; waitedMs += 200) {
      if (waitedMs > 60_000) throw new Error(`Of ${count} messages ${sink.messages().length} arrived`);
      await new Promise((wait) => setTimeout(wait, 200));
    }
  };
  try {
    const place = { port: sink.port, folder };
    for (const [send, count] of single) {
      for (let at = 0; at < count; at += 1) await succeed(send.name, send(at, place));
    }
    await sendByLibraries(place);
    const sofar = single.reduce((sum, [, count]) => sum + count, ofPython + ofPhp + ofRuby);
    await arrived(sofar);
    await sendByPostfix(place, (count) => arrived(sofar + count));
    const dumps = sink.messages();
    return { mbox: mboxOf(dumps), count: dumps.length };
  } finally {
    await sink.stop();
  }
}
