// Next hops that take few connections and refuse more with 421: all mail is delivered over those that they take, and few more are
// tried. A scripted one behind a smarthost route and a route by MX, and Debian's Postfix with smtpd_client_connection_count_limit.

import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { deviceConfiguration } from '../support/device-config.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { startPostfix } from '../support/postfix.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { requirePrograms } from './programs.ts';

/** Connections that the next hops take, and how long each of them needs for a message; Postfix can wait for whole seconds. */
const most = 3;
const slowMs = 300;
const postfixSeconds = 1;

let postern: PosternProcess | undefined;
afterEach(async () => {
  await postern?.cleanUp();
  postern = undefined;
});

/** Takes messages on a connection, one after another, each after a while. */
function serve(socket: Socket, taken: () => void): void {
  let text = '';
  let isData = false;
  let isBusy = false;
  const work = (): void => {
    for (;;) {
      const end = text.indexOf(isData ? '\r\n.\r\n' : '\r\n');
      if (isBusy || end < 0) return;
      const line = text.slice(0, end);
      text = text.slice(end + (isData ? 5 : 2));
      if (isData) {
        isBusy = true;
        setTimeout(() => {
          [isBusy, isData] = [false, false];
          taken();
          socket.write('250 2.0.0 Taken\r\n');
          work();
        }, slowMs);
      } else if (line.startsWith('EHLO')) socket.write('250-narrow.test\r\n250 PIPELINING\r\n');
      else if (line === 'DATA') {
        isData = true;
        socket.write('354 Go on\r\n');
      } else if (line === 'QUIT') socket.end('221 Bye\r\n');
      else socket.write('250 Ok\r\n');
    }
  };
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    work();
  });
}

/** A next hop that takes few connections and refuses more in its greeting. */
async function startNarrowHop() {
  const sockets = new Set<Socket>();
  const counts = { refused: 0, delivered: 0 };
  let open = 0;
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket));
    if (open >= most) {
      counts.refused += 1;
      socket.end('421 4.7.0 too many connections\r\n');
      return;
    }
    open += 1;
    socket.on('close', () => (open -= 1));
    socket.write('220 narrow.test\r\n');
    serve(socket, () => (counts.delivered += 1));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, counts };
}

/** Hands messages to Postern over several sessions at once. */
async function send(port: number, count: number): Promise<void> {
  const sessions = 8;
  const one = async (session: number): Promise<void> => {
    const client = await connectSmtp(port);
    await client.reply();
    await client.command('EHLO many.example.com');
    for (let number = session; number < count; number += sessions) {
      await client.command('MAIL FROM:<a@example.com>');
      await client.command(`RCPT TO:<m${number}@x.test>`);
      await client.command('DATA');
      client.write('From: a@example.com\r\nTo: b@x.test\r\nSubject: many\r\n\r\nBody.\r\n.\r\n');
      expect((await client.reply()).code).toBe(250);
    }
    client.close();
  };
  await Promise.all(Array.from({ length: sessions }, (_, session) => one(session)));
}

/** Sends messages by a route and waits for all of them; prints what part of what the next hop could take in that time was used. */
async function deliverAll(
  name: string,
  route: object,
  { count = 48, eachMs = slowMs, delivery = {} }: { count?: number; eachMs?: number; delivery?: object } = {},
): Promise<void> {
  const running = await startPostern({
    config: deviceConfiguration({ routes: [{ name: 'out', ...route }], delivery }),
  });
  postern = running;
  const linesOf = (msg: string) => running.log().filter((line) => line['msg'] === msg);
  await send(running.ports['devices'] ?? 0, count);
  await running.until(() => linesOf('delivered').length === count, 120);
  const times = linesOf('delivered').map(({ time }) => Date.parse(String(time)));
  const seconds = (Math.max(...times) - Math.min(...times)) / 1000;
  const part = ((count - most) * eachMs) / most / (seconds * 1000);
  console.info(`${name}: ${count} delivered, ${seconds.toFixed(1)} s, ${Math.round(part * 100)} % of what it takes`);
  expect(linesOf('deferred')).toEqual([]);
  expect(linesOf('next hop is down')).toEqual([]);
}

test('behind a smarthost route and a route by MX', { timeout: 180_000 }, async () => {
  const smarthost = await startNarrowHop();
  await deliverAll('smarthost', { type: 'smarthost', url: `smtp://127.0.0.1:${smarthost.port}`, tls: 'none' });
  expect(smarthost.counts.delivered).toBe(48);
  // Of ten at first seven, and two behind these; a further one comes twenty seconds later at the earliest.
  expect(smarthost.counts.refused).toBeLessThanOrEqual(10);
  await postern?.cleanUp();
  const exchanger = await startNarrowHop();
  const dns = await startDnsServer({ 'x.test': { mx: ['10 mx.test'] }, 'mx.test': { a: ['127.0.0.1'] } });
  const byMx = { type: 'mx', port: exchanger.port, allowPrivate: ['127.0.0.0/8'], mtaSts: false };
  await deliverAll('mx', byMx, { delivery: { resolver: { servers: [dns.address] } } });
  expect(exchanger.counts.delivered).toBe(48);
  expect(exchanger.counts.refused).toBeLessThanOrEqual(10);
});

test('Postfix with a limit of connections', { timeout: 180_000 }, async () => {
  requirePrograms('postfix');
  const postfix = await startPostfix({
    mainCf: [
      `smtpd_client_connection_count_limit = ${most}`,
      'smtpd_client_event_limit_exceptions =',
      `smtpd_end_of_data_restrictions = sleep ${postfixSeconds}`,
      'relay_domains = x.test',
      'smtpd_relay_restrictions = permit_auth_destination, reject',
      'smtpd_recipient_restrictions = permit_auth_destination, reject',
      'transport_maps = inline:{ { x.test = discard: } }',
    ],
  });
  onTestFinished(() => postfix.stop());
  const url = `smtp://127.0.0.1:${postfix.port}`;
  await deliverAll('Postfix', { type: 'smarthost', url, tls: 'none' }, { count: 90, eachMs: postfixSeconds * 1000 });
  const refused = postfix.mailLog().match(/Connection concurrency limit exceeded/g) ?? [];
  console.info(`Postfix refused ${refused.length} connections`);
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.length).toBeLessThanOrEqual(12);
});
