// A gateway among clients and origins that reset, half-close, stall and vanish at every moment: it lives, it serves the
// honest ones, and in the end everything it has open is what it had before. Twenty seconds here; ten minutes by
// `POSTERN_HOSTILE_SECONDS=600 npx vitest run --project system test/system/proxy-hostile.test.ts`.

import { once } from 'node:events';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { testCertificate } from '../support/certificate.ts';
import { attack, type HostileEdge, startHostileOrigins } from '../support/hostile-clients.ts';
import { type EdgeOf, startProxyGateway, tcpApplication } from '../support/proxy-gateway.ts';
import { echoServer, readToEnd } from '../support/proxy-plane.ts';

const seconds = Number(process.env['POSTERN_HOSTILE_SECONDS'] ?? 20);
/** What the rest of the gateway may have set since: nothing of a connection's, of which there were thousands. */
const timersOfMail = 3;
/** Longer than the idle times that the test configures. */
const settleSeconds = 60;
const modes = ['off', 'flexible', 'full'] as const;

/** Over a connection of its own that is closed behind it: one that is kept would be counted as the gateway's. */
async function metricsOf(port: number): Promise<string> {
  const asked = get({ host: '127.0.0.1', port, path: '/metrics', agent: false });
  const [answer] = await once(asked, 'response');
  return String(await readToEnd(answer));
}

/** Sends 100 KB, closes its half, and wants all of it back. */
async function honest({ address, port, tls }: HostileEdge): Promise<void> {
  const raw = connect({ host: address, port, allowHalfOpen: true });
  const stream = tls === 'off' ? raw : connectTls({ socket: raw, rejectUnauthorized: false });
  stream.end(Buffer.alloc(100_000, 'h'));
  expect((await readToEnd(stream)).length).toBe(100_000);
}

test(
  `${seconds} s of hostile clients and origins leave the gateway as it was`,
  async () => {
    const certificate = await testCertificate(
      modes.flatMap((tls) => [`bad-${tls}.example.com`, `good-${tls}.example.com`]),
    );
    const gateway = await startProxyGateway({ limits: { udpIdleSeconds: 3, tcpIdleSeconds: 30, connectSeconds: 5 } });
    onTestFinished(() => gateway.postern.cleanUp());
    for (const name of modes.flatMap((tls) => [`bad-${tls}`, `good-${tls}`])) {
      const folder = join(gateway.postern.certsDir, 'tls', `${name}.example.com`);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, 'fullchain.pem'), certificate.cert);
      writeFileSync(join(folder, 'privkey.pem'), certificate.key);
    }
    const origins = await startHostileOrigins(certificate);
    const echo = await echoServer();
    const secureEcho = createTlsServer({ ...certificate, allowHalfOpen: true }, (stream) => void stream.pipe(stream));
    secureEcho.listen(0, '127.0.0.1');
    await new Promise((listening) => secureEcho.once('listening', listening));
    onTestFinished(() => void secureEcho.close());
    const secured = secureEcho.address();
    const securePort = secured !== null && typeof secured === 'object' ? secured.port : 0;

    const [bad, good]: [HostileEdge[], HostileEdge[]] = [[], []];
    for (const [index, tls] of modes.entries()) {
      const badPort = tls === 'full' ? origins.secure : origins.plain;
      bad.push({ ...(await gateway.create({ ...tcpApplication(`bad-${tls}`, 100 + index, badPort), tls })), tls });
      const goodPort = tls === 'full' ? securePort : echo.port;
      good.push({ ...(await gateway.create({ ...tcpApplication(`good-${tls}`, 200 + index, goodPort), tls })), tls });
    }
    const datagrams: EdgeOf = await gateway.create({
      protocol: 'udp/300',
      dns: { type: 'CNAME', name: 'datagrams.example.com' },
      origin_direct: [`udp://127.0.0.1:${origins.udp}`],
    });
    const applications = [...bad, ...good, datagrams];
    const settled = async () => {
      const text = await metricsOf(gateway.postern.ports['http'] ?? 0);
      const open = applications.map(({ id }) =>
        Number(text.match(`postern_proxy_connections_open\\{application="${id}"\\} (\\d+)`)?.[1]),
      );
      const count = (type: string): number =>
        Number(new RegExp(`^nodejs_active_resources\\{type="${type}"\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
      const descriptors = readdirSync(`/proc/${gateway.postern.pid}/fd`).length;
      return { open, descriptors, sockets: count('TCPSocketWrap') + count('UDPWRAP'), timers: count('Timeout') };
    };
    // What is loaded with the first connection stays.
    for (const edge of good) await honest(edge);
    await sleep(500);
    const before = await settled();

    let served = 0;
    const over = new AbortController();
    const honestClients = Promise.all(
      good.map(async (edge) => {
        while (!over.signal.aborted) {
          await honest(edge);
          served += 1;
          await sleep(50);
        }
      }),
    );
    const [report] = await Promise.all([
      attack(bad, [datagrams], { seconds, atOnce: 12 }).finally(() => over.abort()),
      honestClients,
    ]);
    await origins.stop();

    const isQuiet = (now: typeof before): boolean =>
      now.open.every((open) => open === 0) &&
      now.descriptors <= before.descriptors &&
      now.sockets <= before.sockets &&
      now.timers <= before.timers + timersOfMail;
    let after = await settled();
    for (let left = settleSeconds; left > 0 && !isQuiet(after); left -= 1) {
      await sleep(1000);
      after = await settled();
    }
    console.log(JSON.stringify({ seconds, ...report, served, before, after, residentKib: gateway.residentKib() }));
    expect({ before, after, isQuiet: isQuiet(after) }).toMatchObject({ isQuiet: true });
    for (const edge of good) await honest(edge);
    for (const { id } of good) expect((await gateway.traffic(id)).counters).toMatchObject({ refused: 0, failed: 0 });
    expect(gateway.postern.log().filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([]);
    expect(await gateway.postern.end('SIGTERM')).toBe(0);
  },
  (seconds + 120) * 1000,
);
