// RFC 3461 between Postern and other mail servers: Postfix and Exim as next hops, with and without DSN. What a server reports
// shows what it was told. And another program reads our reports.

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { startExim } from '../support/exim.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { startPostfix } from '../support/postfix.ts';
import { RawClient } from '../support/smtp-peers.ts';

let closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.toReversed()) await close();
  closing = [];
});

async function posternBefore(port: number): Promise<PosternProcess> {
  const config = deviceConfiguration({
    routes: [
      { ...captureRoute, name: 'own', match: { recipientDomains: ['example.com'] } },
      { name: 'hop', type: 'smarthost', url: `smtp://127.0.0.1:${port}`, tls: 'none' },
    ],
  });
  const postern = await startPostern({ config: { ...config, reports: { gatherSeconds: 1 } } });
  closing.push(() => postern.cleanUp());
  return postern;
}

async function send(postern: PosternProcess, recipient: string): Promise<void> {
  const client = RawClient.open(postern.ports['devices'] ?? 0);
  await client.reply();
  await client.ask('EHLO client.example');
  await client.ask('MAIL FROM:<alice@example.com> RET=HDRS ENVID=env+2B1');
  expect(await client.ask(`RCPT TO:${recipient}`)).toMatch(/^250/);
  await client.ask('DATA');
  client.send('From: a@example.com\r\nSubject: Original\r\n\r\nHi\r\n.\r\n');
  expect(await client.reply()).toMatch(/^250/);
  client.destroy();
}

const wish = '<bob@partner.test> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;old+40partner.test';

async function hop(server: string, dsn: boolean): Promise<{ readonly port: number; readonly sink: FaultSink }> {
  // The sink offers no DSN, so the server itself reports that it relayed.
  const sink = await FaultSink.start();
  closing.push(() => sink.close());
  if (server === 'Exim') {
    const exim = await startExim({ next: sink.port, dsn });
    closing.push(() => exim.stop());
    return { port: exim.port, sink };
  }
  const postfix = await startPostfix({
    mainCf: [`relayhost = [127.0.0.1]:${sink.port}`, ...(dsn ? [] : ['smtpd_discard_ehlo_keywords = dsn'])],
  });
  closing.push(() => postfix.stop());
  return { port: postfix.port, sink };
}

test.each(['Postfix', 'Exim'])(
  '%s with DSN is told what the sender asks, and reports it to the reverse-path',
  async (server) => {
    const { port, sink } = await hop(server, true);
    const postern = await posternBefore(port);
    await send(postern, wish);
    const report = await postern.until(() => sink.messages.find(({ mailFrom }) => mailFrom === ''), 30);
    const text = report.raw.toString('latin1');
    expect(report.recipients.join()).toMatch(/^b\+[a-z2-7]{52}@bounces\.platform\.example$/);
    // Exim 4.96 writes both as they were encoded, and calls it delivered.
    expect(text).toMatch(/^Original-Envelope-Id: env\+(?:2B)?1\r$/im);
    expect(text).toMatch(/^Original-Recipient: rfc822; ?old(?:@|\+40)partner\.test\r$/m);
    expect(text).toMatch(/^Action: (?:relayed|delivered)\r$/m);
    // Ours would be a second one.
    await new Promise((wait) => setTimeout(wait, 2500));
    expect(postern.captured()).toEqual([]);
  },
  90_000,
);

test.each(['Postfix', 'Exim'])(
  '%s without DSN is told nothing, and Postern reports that it relayed',
  async (server) => {
    const { port, sink } = await hop(server, false);
    const postern = await posternBefore(port);
    await send(postern, wish);
    const [report] = await postern.until(() => postern.captured().length > 0 && postern.captured(), 30);
    const text = report?.toString('latin1') ?? '';
    expect(text).toMatch(
      /^Original-Envelope-Id: env\+1\r\n(?:.*\r\n)+\r\nOriginal-Recipient: rfc822; old@partner\.test\r$/m,
    );
    expect(text).toMatch(/^Action: relayed\r\nStatus: 2\.\d\.\d\r$/m);
    await postern.until(() => sink.messages.length > 0, 30);
    expect(sink.messages.map(({ mailFrom }) => mailFrom.slice(0, 2))).toEqual(['b+']);
  },
  90_000,
);

test('Python’s email package finds no defect in a report and reads its groups', async () => {
  const sink = await FaultSink.start();
  closing.push(() => sink.close());
  const postern = await posternBefore(sink.port);
  await send(postern, '<fail-rcpt@partner.test> NOTIFY=FAILURE ORCPT=rfc822;old+40partner.test');
  const [report] = await postern.until(() => postern.captured().length > 0 && postern.captured(), 30);
  const file = join(postern.folder, 'report.eml');
  writeFileSync(file, report ?? '');
  const script = `import email, sys
from email import policy
m = email.message_from_binary_file(open(sys.argv[1], 'rb'), policy=policy.default)
print(m.get_content_type(), m.get_param('report-type'), m.defects)
for part in m.iter_parts(): print(part.get_content_type(), part.defects)
status = list(m.iter_parts())[1].get_payload()
for group in status: print(sorted((k.lower(), v) for k, v in group.items() if not k.endswith('Date') and not k.startswith('Final-Log')))`;
  const read = execFileSync('python3', ['-c', script, file], { encoding: 'utf8' });
  expect(read.split('\n')).toEqual([
    'multipart/report delivery-status []',
    'text/plain []',
    'message/delivery-status []',
    'text/rfc822-headers []',
    "[('original-envelope-id', 'env+1'), ('reporting-mta', 'dns; mx.platform.example')]",
    "[('action', 'failed'), ('diagnostic-code', 'smtp; 550 5.1.1 No such user here'), ('final-recipient', 'rfc822; fail-rcpt@partner.test'), ('original-recipient', 'rfc822; old@partner.test'), ('remote-mta', 'dns; 127.0.0.1'), ('status', '5.1.1')]",
    '',
  ]);
}, 90_000);
