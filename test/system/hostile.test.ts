// One gateway among hostile clients and origins of every kind at once: HTTP and HTTPS that pipeline upgrades and CONNECT, stop
// in the middle of an upload and read no answer; connections and datagrams of proxy applications that reset, half-close, stall
// and vanish at every moment. It lives, no honest client is refused, every honest message arrives once, and in the end
// everything it has open is what it had before (D66, D84). Then SIGTERM in the middle of it ends the process within its
// drain time (D97). Fifteen seconds here; ten minutes by
// `POSTERN_HOSTILE_SECONDS=600 npx vitest run --project system test/system/hostile.test.ts`.

import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { type TestCertificate, testCertificate } from '../support/certificate.ts';
import { always, faultOrigin } from '../support/fault-origin.ts';
import { echoStream, type HonestTargets, serveHonestly } from '../support/honest-clients.ts';
import { attackApplications, type HostileEdge, startHostileOrigins } from '../support/hostile-clients.ts';
import { attackHttp, hostileOrigin } from '../support/hostile-http.ts';
import { moreThan, openThings, residentMib } from '../support/open-things.ts';
import { type ProxyGateway, startProxyGateway, tcpApplication } from '../support/proxy-gateway.ts';
import { echoServer } from '../support/proxy-plane.ts';
import { type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts';
import { udpEcho } from '../support/udp-peers.ts';

const seconds = Number(process.env['POSTERN_HOSTILE_SECONDS'] ?? 15);
const drainSeconds = 5;
/** Longer than every idle time: connections to origins and to next hops are kept for a while. */
const settleMs = 90_000;
const modes = ['off', 'flexible', 'full'] as const;

async function startGateway(sink: SmtpSink): Promise<ProxyGateway> {
  const [good, bad] = [
    await faultOrigin(always('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')),
    await hostileOrigin(),
  ];
  onTestFinished(() => good.close());
  onTestFinished(() => bad.close());
  const zone = (name: string, digit: string, port: number) => ({
    name,
    id: digit.repeat(32),
    account: 'dev',
    origin: `http://127.0.0.1:${port}`,
  });
  const gateway = await startProxyGateway({
    // Honest origins share this busy process with the hostile clients: they are given time.
    limits: { udpIdleSeconds: 3, tcpIdleSeconds: 30, connectSeconds: 20 },
    listener: { allowFrom: ['127.0.0.0/8'] },
    env: { POSTERN_HTTPS_PORT: '0' },
    zones: [zone('good.example', '2', good.port), zone('bad.example', '3', bad.port)],
    more: {
      drainSeconds,
      http: { listen: '127.0.0.1:0', limits: { connections: 500, connectionsPerAddress: 150 } },
      edge: { responseTimeoutSeconds: 10, limits: { requests: 200, requestsPerZone: 120, requestsPerAddress: 80 } },
      routes: [{ name: 'sink', type: 'smarthost', url: `smtp://127.0.0.1:${sink.port}`, tls: 'none', connections: 4 }],
    },
  });
  onTestFinished(() => gateway.postern.cleanUp());
  return gateway;
}

async function secureEchoPort(certificate: TestCertificate): Promise<number> {
  const server = createTlsServer({ ...certificate, allowHalfOpen: true }, (stream) => {
    stream.on('error', () => undefined);
    stream.pipe(stream);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** Two TCP applications for each way of TLS and two for UDP, one of each before an honest origin. */
async function createApplications(gateway: ProxyGateway) {
  const names = modes.flatMap((tls) => [`bad-${tls}`, `good-${tls}`]);
  const certificate = await testCertificate(names.map((name) => `${name}.example.com`));
  for (const name of names) {
    const folder = join(gateway.postern.certsDir, 'tls', `${name}.example.com`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'fullchain.pem'), certificate.cert);
    writeFileSync(join(folder, 'privkey.pem'), certificate.key);
  }
  const origins = await startHostileOrigins(certificate);
  onTestFinished(() => origins.stop());
  const echo = { plain: (await echoServer()).port, secure: await secureEchoPort(certificate) };
  const streams = async (kind: 'bad' | 'good', firstPort: number, ports: { plain: number; secure: number }) => {
    const edges: HostileEdge[] = [];
    for (const [index, tls] of modes.entries()) {
      const originPort = tls === 'full' ? ports.secure : ports.plain;
      const body = { ...tcpApplication(`${kind}-${tls}`, firstPort + index, originPort), tls };
      edges.push({ ...(await gateway.create(body)), tls });
    }
    return edges;
  };
  const datagrams = (name: string, edgePort: number, originPort: number) =>
    gateway.create({
      protocol: `udp/${edgePort}`,
      dns: { type: 'CNAME', name: `${name}.example.com` },
      origin_direct: [`udp://127.0.0.1:${originPort}`],
    });
  return {
    bad: await streams('bad', 100, origins),
    good: await streams('good', 200, echo),
    badDatagrams: await datagrams('bad-udp', 300, origins.udp),
    goodDatagrams: await datagrams('good-udp', 301, (await udpEcho()).port),
  };
}

/** Subjects of what arrived, with how often it did. */
function arrivals(sink: SmtpSink): ReadonlyMap<string, number> {
  const seen = new Map<string, number>();
  for (const message of sink.messages()) {
    const subject = /^Subject: (\S+)\r$/m.exec(message.toString('latin1'))?.[1] ?? '';
    seen.set(subject, (seen.get(subject) ?? 0) + 1);
  }
  return seen;
}

/** Memory ten times over the run, so that growth can be told from a level. */
async function watchMemory(pid: number): Promise<readonly number[]> {
  const samples = [residentMib(pid)];
  for (let taken = 0; taken < 10; taken += 1) {
    await sleep(seconds * 100);
    samples.push(residentMib(pid));
  }
  return samples;
}

test(
  `${seconds} s of hostile clients and origins of every kind leave the gateway as it was`,
  async () => {
    const sink = await startSmtpSink();
    onTestFinished(() => sink.stop());
    const gateway = await startGateway(sink);
    const { postern } = gateway;
    const { bad, good, badDatagrams, goodDatagrams } = await createApplications(gateway);
    const ports = { port: postern.ports['http'] ?? 0, tlsPort: postern.ports['https'] ?? 0 };
    const attacked = { ...ports, hosts: ['bad.example', 'good.example', 'localhost', 'nobody.example'] };
    const attackAll = (forSeconds: number) =>
      Promise.all([
        attackHttp(attacked, { seconds: forSeconds, clients: 60 }),
        attackApplications(bad, [badDatagrams], { seconds: forSeconds, atOnce: 12 }),
      ]);
    const honest: HonestTargets = {
      httpPort: ports.port,
      httpsPort: ports.tlsPort,
      zone: 'good.example',
      smtpPort: postern.ports['behind'] ?? 0,
      streams: good,
      datagrams: goodDatagrams,
    };

    // What is loaded with the first client of each kind stays.
    const first = await serveHonestly(honest, AbortSignal.timeout(500));
    expect(first.refused).toEqual([]);
    let before = await openThings(postern);
    await expect
      .poll(
        async () => {
          const earlier = before;
          before = await openThings(postern);
          return [...moreThan(earlier, before), ...moreThan(before, earlier)];
        },
        { timeout: settleMs, interval: 2000 },
      )
      .toEqual([]);

    const over = new AbortController();
    const serving = serveHonestly(honest, over.signal);
    const [[http, applications], memoryMib] = await Promise.all([attackAll(seconds), watchMemory(postern.pid)]);
    over.abort();
    const { served, refused, mail } = await serving;
    console.log(JSON.stringify({ seconds, http, applications, served, refused: refused.slice(0, 10), memoryMib }));
    // What follows is to be known too.
    expect.soft(refused).toEqual([]);
    expect(http.connections).toBeGreaterThan(seconds);
    expect(applications.connections).toBeGreaterThan(seconds);

    let after = await openThings(postern);
    await expect
      .poll(async () => moreThan(before, (after = await openThings(postern))), { timeout: settleMs, interval: 1000 })
      .toEqual([]);
    console.log(JSON.stringify({ after: Object.fromEntries(after), memoryMib: residentMib(postern.pid) }));
    // Exactly once: none is missing, none came twice, nothing else came.
    const arrived = arrivals(sink);
    const sent = new Set([...first.mail, ...mail]);
    expect([...sent].filter((subject) => arrived.get(subject) !== 1)).toEqual([]);
    expect([...arrived.keys()].filter((subject) => !sent.has(subject))).toEqual([]);
    for (const edge of good) await echoStream(edge);
    for (const { id } of [...good, goodDatagrams]) {
      expect((await gateway.traffic(id)).counters).toMatchObject({ refused: 0, failed: 0 });
    }
    expect(postern.log().filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([]);

    const again = attackAll(3);
    await sleep(1500);
    const tooLate = sleep((drainSeconds + 15) * 1000, 'still running', { ref: false });
    expect(await Promise.race([postern.end('SIGTERM'), tooLate])).toBe(0);
    await again;
  },
  (seconds + 240) * 1000,
);
