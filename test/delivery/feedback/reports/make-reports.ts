// Makes the reports beside this file again, by real mail servers: `npx node test/delivery/feedback/reports/make-reports.ts [SERVER...]`
// as root on Debian 12. A next hop of its own refuses each recipient for the cause that the local part names, and takes the
// reports that the server then sends to the reverse-path.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../../support/free-port.ts';
import { type Refusals, startRefusingHop } from '../../../support/refusing-hop.ts';

/** What the next hop answers for a recipient, by the cause that its local part names. */
const refusals: Refusals = {
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
  const nextHop = await startRefusingHop(refusals);
  const listen = await freePort();
  const child = spawn(
    'unshare',
    ['-m', '-p', '-f', '--kill-child', 'bash', join(folder, 'mail-server.sh'), server, `${nextHop.port}`, `${listen}`],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  try {
    if (server !== 'dma' && server !== 'nullmailer') await submitAll(listen);
    const deadline = Date.now() + (server === 'dma' || server === 'nullmailer' ? 120_000 : 60_000);
    for (let last = -1; Date.now() < deadline && (last !== nextHop.taken.length || last === 0); ) {
      last = nextHop.taken.length;
      await wait(15_000);
    }
  } finally {
    child.kill('SIGKILL');
    nextHop.close();
  }
  mkdirSync(join(folder, server), { recursive: true });
  const counts = new Map<string, number>();
  for (const { recipient, message } of nextHop.taken) {
    const cause = recipient.slice('b+'.length, recipient.indexOf('@'));
    const count = (counts.get(cause) ?? 0) + 1;
    counts.set(cause, count);
    const name = count === 1 ? cause : `${cause}-${count}`;
    writeFileSync(join(folder, server, `${name}.eml`), neutral(message), 'latin1');
  }
  return nextHop.taken.length;
}

const local = Object.keys(refusals).filter((cause) => cause !== 'expired');
writeFileSync(join(folder, 'causes.txt'), `${local.join('\n')}\n`);
const wanted = process.argv.slice(2);
for (const server of wanted.length > 0 ? wanted : servers) {
  console.log(`${server}: ${await makeReports(server)} reports`);
}
process.exit(0);
