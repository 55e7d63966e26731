// Makes the reports beside this file again, by real mail servers: `npx node test/feedback/reports/make-reports.ts [SERVER...]`
// as root on Debian 12. A next hop of its own refuses each recipient for the cause that the local part names, and takes the
// reports that the server then sends to the reverse-path.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../support/postfix.ts';

/** What the next hop answers for a recipient, at RCPT or behind the data, by the cause. */
const refusals: Readonly<Record<string, { readonly rcpt?: string; readonly data?: string }>> = {
  'no-such-user': { rcpt: '550 5.1.1 <no-such-user@example.net>: Recipient address rejected: User unknown' },
  'no-such-user-plain': { rcpt: '550 No such user here' },
  'no-such-user-lines': {
    rcpt: '550-5.1.1 The email account that you tried to reach does not exist. Please try\r\n550-5.1.1 double-checking the address for typos.\r\n550 5.1.1 See our pages',
  },
  'unknown-in-german': { rcpt: '550 Empfaenger unbekannt' },
  'mailbox-disabled': { rcpt: '550 5.2.1 The mailbox is disabled' },
  'mailbox-full': { rcpt: '552 5.2.2 Mailbox full' },
  'mailbox-full-plain': { rcpt: '552 Requested mail action aborted: exceeded storage allocation' },
  'no-mail-domain': { rcpt: '556 5.1.10 Recipient address has null MX' },
  'relay-denied': { rcpt: '554 5.7.1 <relay-denied@example.net>: Relay access denied' },
  policy: { rcpt: '550 5.7.1 Service unavailable; client host blocked using a block list' },
  'sender-refused': { rcpt: '550 5.1.8 Sender address rejected: Domain not found' },
  'too-large': { data: '552 5.3.4 Message size exceeds fixed limit' },
  content: { data: '554 5.6.0 Message contains invalid content' },
  spam: { data: '554 5.7.1 This message looks like spam' },
  expired: { rcpt: '450 4.2.0 The mailbox is busy, try again later' },
};

const servers = ['postfix', 'exim', 'sendmail', 'opensmtpd', 'dma', 'nullmailer'];
const folder = import.meta.dirname;
const bounceDomain = 'bounces.platform.example';

interface NextHop {
  readonly port: number;
  readonly reports: { readonly cause: string; readonly message: string }[];
  close(): void;
}

/** One session of the next hop: as much SMTP as these servers speak. */
function serve(socket: Socket, reports: NextHop['reports']): void {
  let buffered = '';
  let recipients: string[] = [];
  let data: string[] | undefined;
  const answer = (line: string): void => void socket.write(`${line}\r\n`);
  const endOfData = (lines: readonly string[]): string => {
    const causes = recipients.map((recipient) => recipient.split('@')[0] ?? '');
    const refused = causes.map((cause) => refusals[cause]?.data).find((line) => line !== undefined);
    if (refused !== undefined) return refused;
    for (const cause of causes) {
      if (cause.startsWith('b+')) reports.push({ cause: cause.slice(2), message: `${lines.join('\r\n')}\r\n` });
    }
    return '250 2.0.0 Ok';
  };
  const take = (line: string): string | undefined => {
    if (data) {
      if (line !== '.') {
        data.push(line.startsWith('.') ? line.slice(1) : line);
        return undefined;
      }
      const lines = data;
      data = undefined;
      return endOfData(lines);
    }
    const verb = line.slice(0, 4).toUpperCase();
    if (verb === 'EHLO') return '250-next.example.net\r\n250-PIPELINING\r\n250-ENHANCEDSTATUSCODES\r\n250 8BITMIME';
    if (verb === 'HELO') return '250 next.example.net';
    if (verb === 'MAIL') {
      recipients = [];
      return '250 2.1.0 Ok';
    }
    if (verb === 'RCPT') {
      const recipient = /<([^>]*)>/.exec(line)?.[1] ?? '';
      const refused = refusals[recipient.split('@')[0] ?? '']?.rcpt;
      if (refused === undefined) recipients.push(recipient);
      return refused ?? '250 2.1.5 Ok';
    }
    if (verb === 'DATA') {
      if (recipients.length === 0) return '554 5.5.1 No valid recipients';
      data = [];
      return '354 Go on';
    }
    return verb === 'QUIT' ? '221 2.0.0 Bye' : '250 2.0.0 Ok';
  };
  socket.on('error', () => socket.destroy());
  answer('220 next.example.net ESMTP');
  socket.setEncoding('latin1').on('data', (text: string) => {
    buffered += text;
    for (let at = buffered.indexOf('\r\n'); at >= 0; at = buffered.indexOf('\r\n')) {
      const reply = take(buffered.slice(0, at));
      buffered = buffered.slice(at + 2);
      if (reply !== undefined) answer(reply);
    }
  });
}

async function startNextHop(): Promise<NextHop> {
  const reports: NextHop['reports'] = [];
  const server = createServer((socket) => serve(socket, reports));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return { port: typeof address === 'object' && address ? address.port : 0, reports, close: () => server.close() };
}

/** Hands one message to a server by SMTP. Rejects while it does not listen yet. */
function submit(port: number, cause: string, recipient: string): Promise<void> {
  const message = readFileSync(join(folder, 'message.txt'), 'utf8').replaceAll('CAUSE', cause).replaceAll('\n', '\r\n');
  const lines = [
    ...['EHLO client.example.com', `MAIL FROM:<b+${cause}@${bounceDomain}>`, `RCPT TO:<${recipient}>`, 'DATA'],
    ...[`${message}.`, 'QUIT'],
  ];
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', reject);
    socket.on('close', () =>
      lines.length === 0 ? resolve() : reject(new Error(`${cause}: ended before ${lines[0]}`)),
    );
    let text = '';
    socket.setEncoding('latin1').on('data', (more: string) => {
      text += more;
      if (!/^\d{3}(?: .*)?\r\n$/m.test(text.split('\r\n').slice(-2).join('\r\n'))) return;
      if (/^[45]/.test(text)) console.error(`${cause}: ${text.trim()}`);
      text = '';
      const line = lines.shift();
      if (line !== undefined) socket.write(`${line}\r\n`);
    });
  });
}

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Hands in all messages, once the server listens; installing it takes a while. */
async function submitAll(port: number): Promise<void> {
  const messages = [...Object.keys(refusals).map((cause) => [cause, `${cause}@example.net`] as const)];
  for (const [cause, recipient] of [...messages, ['host-unknown', 'host-unknown@nothing.invalid'] as const]) {
    for (let tries = 0; ; tries += 1) {
      try {
        await submit(port, cause, recipient);
        break;
      } catch (error) {
        if (tries === 240) throw error;
        await wait(500);
      }
    }
  }
}

/** The report without this machine's name. */
function neutral(message: string): string {
  return message.replaceAll(new RegExp(`\\b${hostname().replaceAll('.', '\\.')}\\b`, 'g'), 'mx.example.net');
}

async function makeReports(server: string): Promise<number> {
  const nextHop = await startNextHop();
  const listen = await freePort();
  const child = spawn(
    'unshare',
    ['-m', '-p', '-f', '--kill-child', 'bash', join(folder, 'mail-server.sh'), server, `${nextHop.port}`, `${listen}`],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  try {
    if (server !== 'dma' && server !== 'nullmailer') await submitAll(listen);
    const deadline = Date.now() + (server === 'dma' || server === 'nullmailer' ? 120_000 : 60_000);
    for (let last = -1; Date.now() < deadline && (last !== nextHop.reports.length || last === 0); ) {
      last = nextHop.reports.length;
      await wait(15_000);
    }
  } finally {
    child.kill('SIGKILL');
    nextHop.close();
  }
  mkdirSync(join(folder, server), { recursive: true });
  const counts = new Map<string, number>();
  for (const { cause, message } of nextHop.reports) {
    const count = (counts.get(cause) ?? 0) + 1;
    counts.set(cause, count);
    const name = count === 1 ? cause : `${cause}-${count}`;
    writeFileSync(join(folder, server, `${name}.eml`), neutral(message), 'latin1');
  }
  return nextHop.reports.length;
}

const local = Object.keys(refusals).filter((cause) => cause !== 'expired');
writeFileSync(join(folder, 'causes.txt'), `${local.join('\n')}\n`);
const wanted = process.argv.slice(2);
for (const server of wanted.length > 0 ? wanted : servers) {
  console.log(`${server}: ${await makeReports(server)} reports`);
}
process.exit(0);
