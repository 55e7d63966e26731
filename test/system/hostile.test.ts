// One gateway among hostile clients and origins of every kind at once: HTTP and HTTPS that pipeline upgrades and CONNECT, stop
// in the middle of an upload and read no answer; connections and datagrams of proxy applications that reset, half-close, stall
// and vanish at every moment. It lives, no honest client is refused, every honest message arrives once, and in the end
// everything it has open is what it had before (D66, D84). Then SIGTERM in the middle of it ends the process within its
// drain time (D97). Fifteen seconds here; ten minutes by
// `POSTERN_HOSTILE_SECONDS=600 npx vitest run --project system test/system/hostile.test.ts`; with `POSTERN_HOSTILE_LOG=FILE`
// what the gateway wrote is kept there, to find a fault by its time.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { type TestCertificate, testCertificate } from '../support/certificate.ts';
import { echoStream, type HonestTargets } from '../support/honest-clients.ts';
import type { HonestOrigins } from '../support/honest-origins.ts';
import type { HostileEdge, HostileOrigins } from '../support/hostile-clients.ts';
import { moreThan, openThings, residentMib } from '../support/open-things.ts';
import { type PeerProcess, startPeerProcess } from '../support/peer-process.ts';
import { type ProxyGateway, startProxyGateway, tcpApplication } from '../support/proxy-gateway.ts';
import { type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts';

const seconds = Number(process.env['POSTERN_HOSTILE_SECONDS'] ?? 15);
const drainSeconds = 5;
/** Longer than every idle time: connections to origins and to next hops are kept for a while. */
const settleMs = 90_000;
const modes = ['off', 'flexible', 'full'] as const;

/** Clients and origins, honest and hostile, each in a process of its own; those of the origins are started. */
interface Peers {
  readonly clients: PeerProcess;
  readonly attackers: PeerProcess;
  readonly good: HonestOrigins;
  readonly bad: HostileOrigins & { readonly http: number };
}

async function startPeers(certificate: TestCertificate): Promise<Peers> {
  const start = (): PeerProcess => {
    const peer = startPeerProcess();
    onTestFinished(() => peer.end());
    return peer;
  };
  const badOrigins = start();
  return {
    clients: start(),
    attackers: start(),
    good: await start().run('startHonestOrigins', certificate),
    bad: {
      ...(await badOrigins.run('startHostileOrigins', certificate)),
      http: await badOrigins.run('startHostileHttpOrigin'),
    },
  };
}

async function startGateway(sink: SmtpSink, { good, bad }: Peers): Promise<ProxyGateway> {
  const zone = (name: string, digit: string, port: number) => ({
    name,
    id: digit.repeat(32),
    account: 'dev',
    origin: `http://127.0.0.1:${port}`,
  });
  const gateway = await startProxyGateway({
    limits: { udpIdleSeconds: 3, tcpIdleSeconds: 30 },
    listener: { allowFrom: ['127.0.0.0/8'] },
    env: { POSTERN_HTTPS_PORT: '0' },
    zones: [zone('good.example', '2', good.http), zone('bad.example', '3', bad.http)],
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

const applicationNames = modes.flatMap((tls) => [`bad-${tls}`, `good-${tls}`]);

/** Two TCP applications for each way of TLS and two for UDP, one of each before an honest origin. */
async function createApplications(gateway: ProxyGateway, peers: Peers, certificate: TestCertificate) {
  for (const name of applicationNames) {
    const folder = join(gateway.postern.certsDir, 'tls', `${name}.example.com`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'fullchain.pem'), certificate.cert);
    writeFileSync(join(folder, 'privkey.pem'), certificate.key);
  }
  const streams = async (kind: 'bad' | 'good', firstPort: number) => {
    const edges: HostileEdge[] = [];
    for (const [index, tls] of modes.entries()) {
      const originPort = tls === 'full' ? peers[kind].secure : peers[kind].plain;
      const body = { ...tcpApplication(`${kind}-${tls}`, firstPort + index, originPort), tls };
      edges.push({ ...(await gateway.create(body)), tls });
    }
    return edges;
  };
  const datagrams = (kind: 'bad' | 'good', edgePort: number) =>
    gateway.create({
      protocol: `udp/${edgePort}`,
      dns: { type: 'CNAME', name: `${kind}-udp.example.com` },
      origin_direct: [`udp://127.0.0.1:${peers[kind].udp}`],
    });
  return {
    bad: await streams('bad', 100),
    good: await streams('good', 200),
    badDatagrams: await datagrams('bad', 300),
    goodDatagrams: await datagrams('good', 301),
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
    const certificate = await testCertificate(applicationNames.map((name) => `${name}.example.com`));
    const peers = await startPeers(certificate);
    const gateway = await startGateway(sink, peers);
    const { postern } = gateway;
    const { bad, good, badDatagrams, goodDatagrams } = await createApplications(gateway, peers, certificate);
    const ports = { port: postern.ports['http'] ?? 0, tlsPort: postern.ports['https'] ?? 0 };
    const attacked = { ...ports, hosts: ['bad.example', 'good.example', 'localhost', 'nobody.example'] };
    const attackAll = (forSeconds: number) =>
      peers.attackers.run('attack', attacked, { edges: bad, udp: [badDatagrams] }, forSeconds);
    const honest: HonestTargets = {
      httpPort: ports.port,
      httpsPort: ports.tlsPort,
      zone: 'good.example',
      smtpPort: postern.ports['behind'] ?? 0,
      streams: good,
      datagrams: goodDatagrams,
    };

    // What is loaded with the first client of each kind stays.
    const first = await peers.clients.run('serveFor', honest, 500);
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

    await peers.clients.run('beginServing', honest);
    const [{ http, applications }, memoryMib] = await Promise.all([attackAll(seconds), watchMemory(postern.pid)]);
    const { served, refused, mail } = await peers.clients.run('endServing');
    console.log(JSON.stringify({ seconds, http, applications, served, refused: refused.slice(0, 10), memoryMib }));
    const logFile = process.env['POSTERN_HOSTILE_LOG'];
    if (logFile) writeFileSync(logFile, postern.output());
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
