// Clients that do everything right, one of each kind, while others do everything wrong: by HTTP and HTTPS to a zone and to
// the API, through proxy applications by TCP, TLS and UDP, and with mail by SMTP and REST. They come from 127.0.0.2, so that
// limits on a client address tell them from hostile ones. Whatever is refused to one of them is kept in words.

import { randomUUID } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { request as askHttp, type IncomingMessage } from 'node:http';
import { request as askHttps, type RequestOptions } from 'node:https';
import { connect } from 'node:net';
import { buffer as octetsOf, text as textOf } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import type { HostileEdge } from './hostile-clients.ts';
import { testToken } from './postern-process.ts';
import type { EdgeOf } from './proxy-gateway.ts';
import { connectSmtp } from './raw-smtp-client.ts';

const honestAddress = '127.0.0.2';
const pauseMs = 40;
/** A datagram may be lost: a client of UDP asks again, so often and after so long. */
const datagramTries = 4;
const datagramWaitMs = 2000;

/** No client waits longer for its end: a busy machine may be slow, but what hangs is a fault. */
const patienceMs = 60_000;

/** Where the honest clients go. */
export interface HonestTargets {
  readonly httpPort: number;
  readonly httpsPort: number;
  /** Hostname of a zone whose origin answers. */
  readonly zone: string;
  readonly smtpPort: number;
  /** Applications whose origins send back what they get. */
  readonly streams: readonly HostileEdge[];
  readonly datagrams: EdgeOf;
}

/** What one kind of client was served. */
export interface Served {
  count: number;
  /** Milliseconds that the slowest took. */
  slowestMs: number;
}

/** What the honest clients were served, and what was refused to them. */
export interface HonestReport {
  readonly served: Readonly<Record<string, Readonly<Served>>>;
  /** Each with its kind of client, when it was (UTC), and how long it had taken. */
  readonly refused: readonly string[];
  /** Subjects of the messages that were accepted: these are to arrive. */
  readonly mail: readonly string[];
}

/** One request over a connection of its own; a status other than 200 is a fault. */
async function ask(port: number, options: RequestOptions & { readonly secure?: boolean; readonly body?: string }) {
  const { secure = false, body, ...rest } = options;
  const signal = AbortSignal.timeout(patienceMs);
  const all = { host: '127.0.0.1', localAddress: honestAddress, port, agent: false, signal, ...rest };
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const asked = secure ? askHttps({ ...all, rejectUnauthorized: false }, resolve) : askHttp(all, resolve);
    asked.on('error', reject).end(body);
  });
  const text = await textOf(answer);
  if (answer.statusCode !== 200) throw new Error(`${answer.statusCode} ${text.slice(0, 300)}`);
}

/** Sends 100 KB through an application, closes its half, and wants all of it back. */
export async function echoStream({ address, port, tls }: HostileEdge): Promise<void> {
  const raw = connect({ host: address, port, localAddress: honestAddress, allowHalfOpen: true });
  const stream = tls === 'off' ? raw : connectTls({ socket: raw, rejectUnauthorized: false });
  const tooLate = setTimeout(() => stream.destroy(new Error(`no end within ${patienceMs} ms`)), patienceMs);
  stream.end(Buffer.alloc(100_000, 'h'));
  try {
    const { length } = await octetsOf(stream);
    if (length !== 100_000) throw new Error(`${length} of 100,000 octets came back`);
  } finally {
    clearTimeout(tooLate);
    raw.destroy();
  }
}

/** Sends a datagram through an application and wants it back. */
async function echoDatagram({ address, port }: EdgeOf): Promise<void> {
  const socket = createSocket('udp4');
  socket.bind(0, honestAddress);
  try {
    await once(socket, 'listening');
    const came = once(socket, 'message').then(() => true);
    for (let tried = 0; tried < datagramTries; tried += 1) {
      socket.send('honest', port, address);
      if (await Promise.race([came, sleep(datagramWaitMs, false)])) return;
    }
    throw new Error(`no answer to ${datagramTries} datagrams`);
  } finally {
    socket.close();
  }
}

/** One message by SMTP in a session of its own. */
async function sendBySmtp(port: number, subject: string): Promise<void> {
  const client = await connectSmtp(port);
  const tooLate = setTimeout(() => client.close(), patienceMs);
  const wants = async (code: number, line?: string): Promise<void> => {
    const reply = line === undefined ? await client.reply() : await client.command(line);
    if (reply.code !== code) throw new Error(reply.lines.join(' '));
  };
  try {
    await wants(220);
    await wants(250, 'EHLO honest.example.com');
    await wants(250, 'MAIL FROM:<a@example.com>');
    await wants(250, 'RCPT TO:<b@partner.test>');
    await wants(354, 'DATA');
    await wants(250, `From: a@example.com\r\nTo: b@partner.test\r\nSubject: ${subject}\r\n\r\nHonest.\r\n.`);
    await wants(221, 'QUIT');
  } finally {
    clearTimeout(tooLate);
    client.close();
  }
}

function sendByRest(port: number, subject: string): Promise<void> {
  return ask(port, {
    method: 'POST',
    path: '/client/v4/accounts/dev/email/sending/send',
    headers: { Host: 'localhost', Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ from: 'a@example.com', to: 'b@partner.test', subject, text: 'Honest.' }),
  });
}

/**
 * Sets one client of each kind to work, one request after another.
 * @param over ends them once each has had the answer it waits for
 */
export async function serveHonestly(at: HonestTargets, over: AbortSignal): Promise<HonestReport> {
  const served: Record<string, Served> = {};
  const refused: string[] = [];
  const mail: string[] = [];
  const byMail = (send: (port: number, subject: string) => Promise<void>, port: number) => async () => {
    const subject = `honest-${randomUUID()}`;
    await send(port, subject);
    mail.push(subject);
  };
  const zone = { path: '/', headers: { Host: at.zone } };
  const clients: Readonly<Record<string, () => Promise<void>>> = {
    http: () => ask(at.httpPort, zone),
    https: () => ask(at.httpsPort, { ...zone, secure: true, servername: at.zone }),
    api: () => ask(at.httpPort, { path: '/livez', headers: { Host: 'localhost' } }),
    udp: () => echoDatagram(at.datagrams),
    smtp: byMail(sendBySmtp, at.smtpPort),
    rest: byMail(sendByRest, at.httpPort),
    ...Object.fromEntries(at.streams.map((edge) => [`tcp, TLS ${edge.tls}`, () => echoStream(edge)])),
  };
  const work = async ([kind, act]: readonly [string, () => Promise<void>]): Promise<void> => {
    const mine: Served = { count: 0, slowestMs: 0 };
    served[kind] = mine;
    while (!over.aborted) {
      const begun = performance.now();
      const tookMs = (): number => Math.round(performance.now() - begun);
      try {
        await act();
        mine.count += 1;
        mine.slowestMs = Math.max(mine.slowestMs, tookMs());
      } catch (error) {
        refused.push(`${kind}, ${new Date().toISOString()}, after ${tookMs()} ms: ${String(error)}`);
      }
      await sleep(pauseMs);
    }
  };
  await Promise.all(Object.entries(clients).map(work));
  return { served, refused, mail };
}
