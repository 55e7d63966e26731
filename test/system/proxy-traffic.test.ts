// Proxy applications that the API has made carry what real programs say: a dialogue like SSH's, HTTP, mail, DNS, TLS, and
// the PROXY protocol as HAProxy reads it.

import { randomBytes } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestCertificate, testCertificate } from '../support/certificate.ts';
import { freePort } from '../support/free-port.ts';
import {
  type EdgeOf,
  eventually,
  type ProxyGateway,
  startProxyGateway,
  tcpApplication,
} from '../support/proxy-gateway.ts';
import { loopbackAddress, readOctets, readToEnd, tcpServer, testOffset } from '../support/proxy-plane.ts';
import { startHaproxy, startProgram, startPythonHttp, takesConnections } from '../support/running-program.ts';
import { scratchFolder } from '../support/scratch.ts';
import { requirePrograms, runProgram } from './programs.ts';

let gateway: ProxyGateway;
/** Signed by an authority that the gateway knows. */
let known: TestCertificate;
let servicePort: number;
const trust = mkdtempSync(join(tmpdir(), 'postern-'));

beforeAll(async () => {
  requirePrograms('curl', 'dig', 'dnsmasq', 'haproxy', 'openssl', 'python3', 'swaks');
  known = await testCertificate(['strict.example.com']);
  const authorities = join(trust, 'authorities.pem');
  writeFileSync(authorities, known.cert);
  servicePort = await freePort();
  gateway = await startProxyGateway({
    env: { NODE_EXTRA_CA_CERTS: authorities },
    listener: { listen: '127.0.0.7:0', allowFrom: ['127.0.0.5/32'], proxyProtocolFrom: ['127.0.0.0/8'] },
    originAllow: ['127.0.0.7'],
    zone: {
      records: {
        origin: { A: ['127.0.0.1'] },
        two: { A: ['127.0.0.2', '127.0.0.3'] },
        '_app._tcp': { SRV: [`0 5 ${servicePort} origin.example.com`] },
      },
    },
  });
});
afterAll(async () => {
  await gateway?.postern.cleanUp();
  rmSync(trust, { recursive: true, force: true });
});

const urlOf = ({ address, port }: EdgeOf): string => `http://${address}:${port}`;

async function curl(edge: EdgeOf, path: string, ...args: readonly string[]): Promise<string> {
  const { code, output } = await runProgram('curl', ['-sS', '--max-time', '20', ...args, `${urlOf(edge)}${path}`]);
  expect([code, output]).toEqual([0, expect.any(String)]);
  return output;
}

test('tcp/22: the server speaks first, octets of any value go both ways, and each side closes on its own', async () => {
  const banner = 'SSH-2.0-Echo\r\n';
  const farewell = 'closed after you\n';
  const origin = await tcpServer((socket) => {
    socket.write(banner);
    socket.pipe(socket, { end: false });
    socket.once('end', () => socket.end(farewell));
  });
  const edge = await gateway.create(tcpApplication('ssh', 22, origin.port));
  expect(edge.port).toBe(20_022);

  const client = connect({ host: edge.address, port: edge.port, allowHalfOpen: true });
  expect((await readOctets(client, banner.length)).toString()).toBe(banner);
  const sent = randomBytes(3_000_000);
  client.end(sent);
  const back = await readToEnd(client);
  expect(back.subarray(0, sent.length).equals(sent)).toBe(true);
  expect(back.subarray(sent.length).toString()).toBe(farewell);

  const { counters, events } = await eventually(async () => {
    const traffic = await gateway.traffic(edge.id);
    return traffic.counters.open === 0 && traffic;
  });
  const fromOrigin = banner.length + sent.length + farewell.length;
  expect(counters).toEqual({
    ...{ open: 0, connections: 1, refused: 0, failed: 0 },
    ...{ bytes_from_clients: sent.length, bytes_from_origins: fromOrigin },
  });
  expect(events).toMatchObject([
    { kind: 'disconnect', reason: 'the client closed', bytes_from_client: sent.length, bytes_from_origin: fromOrigin },
    { kind: 'connect', port: 22, origin: `127.0.0.1:${origin.port}` },
  ]);
  expect(await gateway.metric('connections_total', edge.id)).toBe(1);
  expect(await gateway.metric('connections_open', edge.id)).toBe(0);
  expect(await gateway.metric('client_bytes_total', edge.id)).toBe(sent.length);
  expect(await gateway.metric('origin_bytes_total', edge.id)).toBe(fromOrigin);
});

test('tcp/80: curl fetches from an HTTP server of Python', async () => {
  const folder = scratchFolder();
  const body = randomBytes(200_000).toString('base64');
  writeFileSync(join(folder, 'page.txt'), body);
  const port = await freePort();
  const server = await startPythonHttp(folder, port);
  const edge = await gateway.create({ ...tcpApplication('web', 80, port), traffic_type: 'http' });
  expect(await curl(edge, '/page.txt')).toBe(body);
  expect(await curl(edge, '/none', '-o', join(folder, 'none'), '-w', '%{http_code}')).toBe('404');
  expect(server.output()).toContain('"GET /page.txt HTTP/1.1" 200');
});

test('a range: each edge port goes to its own origin port', async () => {
  const address = loopbackAddress();
  for (const port of [4000, 4001]) await tcpServer((socket) => socket.end(`port ${port}`), { address, port });
  const edge = await gateway.create({
    ...tcpApplication('range', 0),
    protocol: 'tcp/3000-3001',
    origin_direct: [`tcp://${address}:4000-4001`],
  });
  for (const step of [0, 1]) {
    const client = connect({ host: edge.address, port: edge.port + step });
    expect((await readToEnd(client)).toString()).toBe(`port ${4000 + step}`);
  }
  expect((await gateway.traffic(edge.id)).listening).toEqual([`${edge.address}:23000-23001`]);
});

test('tcp/25 with PROXY v2: mail reaches the own SMTP listener, which sees the client and not the proxy', async () => {
  const port = gateway.postern.ports['behind'] ?? 0;
  const origin = { origin_direct: [`tcp://127.0.0.7:${port}`], proxy_protocol: 'v2' };
  const edge = await gateway.create({ ...tcpApplication('mail', 25), ...origin });
  const swaks = (from: string) =>
    runProgram('swaks', [
      ...['--server', edge.address, '--port', `${edge.port}`, '--local-interface', from],
      ...['--from', 'app@example.com', '--to', 'ann@example.net', '--header', 'Subject: through the proxy'],
    ]);
  const sent = await swaks('127.0.0.5');
  expect([sent.code, sent.output]).toEqual([0, expect.stringContaining('250 2.0.0 Ok <')]);

  const message = await gateway.postern.until(() =>
    gateway.postern.captured().find((raw) => raw.includes('\r\nSubject: through the proxy\r\n')),
  );
  const [, received] = /\r\n(Received: [\s\S]*?)\r\n(?! )/.exec(message.toString('latin1')) ?? [];
  expect(received).toContain('[127.0.0.5]');
  expect(received).not.toContain(edge.address);
  const logged = await gateway.postern.until(() => gateway.postern.log().find(({ msg }) => msg === 'accepted'));
  expect(logged).toMatchObject({ client: '127.0.0.5' });

  // The listener takes mail without login from 127.0.0.5 alone: by the client's address, since the proxy's is the same.
  const other = await swaks('127.0.0.6');
  expect(other.code).not.toBe(0);
  expect(other.output).not.toContain('250 2.0.0 Ok <');
});

test('the own HTTP listener is no origin, neither by its address nor by a name', async () => {
  const port = gateway.postern.ports['http'] ?? 0;
  const { status, json } = await gateway.ask('POST', '', tcpApplication('own', 2080, port));
  expect([status, json.errors.map(({ code }) => code)]).toEqual([400, [11002]]);
  const named = { origin_dns: { name: 'origin.example.com', type: 'A' }, origin_port: port };
  const { origin_direct: _, ...fields } = tcpApplication('own', 2080);
  const edge = await gateway.create({ ...fields, ...named });
  await expect(fetch(`http://${edge.address}:${edge.port}/metrics`)).rejects.toThrow('fetch failed');
  const [event] = (await gateway.traffic(edge.id)).events;
  expect(event?.['reason']).toContain('Postern itself listens there');
});

test('udp/53: dig asks dnsmasq, and a thousand questions at once are all answered', async () => {
  const folder = scratchFolder();
  const names = Array.from({ length: 200 }, (_, index) => [`n${index}.lab.test`, `192.0.2.${index + 1}`] as const);
  writeFileSync(join(folder, 'hosts'), names.map(([name, address]) => `${address} ${name}\n`).join(''));
  const port = await freePort();
  startProgram('dnsmasq', [
    ...['--keep-in-foreground', `--port=${port}`, '--listen-address=127.0.0.1', '--bind-interfaces', '--user=root'],
    ...['--conf-file=/dev/null', '--no-resolv', '--no-hosts', '--log-facility=-', '--pid-file='],
    ...[`--addn-hosts=${join(folder, 'hosts')}`, '--txt-record=big.lab.test,' + 'x'.repeat(250)],
  ]);
  await takesConnections(port); // it answers by TCP too
  const edge = await gateway.create({
    protocol: 'udp/53',
    dns: { type: 'CNAME', name: 'dns.example.com' },
    origin_direct: [`udp://127.0.0.1:${port}`],
  });
  const dig = async (...question: readonly string[]): Promise<string> => {
    const args = [`@${edge.address}`, '-p', `${edge.port}`, '+short', '+time=10', '+notcp', ...question];
    const { code, output } = await runProgram('dig', args);
    expect([code, output]).toEqual([0, expect.any(String)]);
    return output.trim();
  };
  expect(await dig('n7.lab.test')).toBe('192.0.2.8');
  expect(await dig('big.lab.test', 'TXT')).toBe(`"${'x'.repeat(250)}"`);

  const askAll = async (): Promise<readonly (readonly string[])[]> => {
    const resolver = new Resolver({ timeout: 5000, tries: 4 });
    resolver.setServers([`${edge.address}:${edge.port}`]);
    return Promise.all(names.map(([name]) => resolver.resolve4(name)));
  };
  const all = await Promise.all(Array.from({ length: 5 }, askAll));
  for (const answers of all) expect(answers).toEqual(names.map(([, address]) => [address]));
  const { counters } = await gateway.traffic(edge.id);
  expect(counters).toMatchObject({ refused: 0, failed: 0 });
  expect(counters.connections).toBeGreaterThanOrEqual(7);
  expect(counters.bytes_from_origins).toBeGreaterThan(counters.bytes_from_clients);
});

test.each(['v1', 'v2'])('PROXY %s: HAProxy reads it and puts the client into a header', async (version) => {
  const [door, web] = [await freePort(), await freePort()];
  const server = await tcpServer(
    (socket) => {
      socket.once('data', (head) => socket.end(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${head.toString()}`));
    },
    { port: web },
  );
  await startHaproxy(scratchFolder(), [
    'frontend door',
    `  bind 127.0.0.1:${door} accept-proxy`,
    '  http-request set-header X-Client %[src]:%[src_port]',
    '  http-request set-header X-Edge %[dst]:%[dst_port]',
    '  default_backend web',
    'backend web',
    `  server web 127.0.0.1:${server.port}`,
  ]);
  const edge = await gateway.create({ ...tcpApplication(`haproxy-${version}`, 8080, door), proxy_protocol: version });
  const seen = await curl(edge, '/', '--interface', '127.0.0.9', '--local-port', '40000-49999');
  expect(seen).toMatch(/^x-client: 127\.0\.0\.9:4\d{4}\r$/m);
  expect(seen).toContain(`x-edge: ${edge.address}:${edge.port - testOffset}\r\n`);
});

test('origin_dns: addresses of the configured zone in turn, and SRV with the port of the record', async () => {
  const port = await freePort();
  const answers = (address: string, at = port) =>
    tcpServer((socket) => socket.end(`this is ${address}`), { address, port: at });
  await Promise.all([answers('127.0.0.2'), answers('127.0.0.3'), answers('127.0.0.1', servicePort)]);
  const read = async ({ address, port }: EdgeOf): Promise<string> =>
    (await readToEnd(connect({ host: address, port }))).toString();

  const byName = await gateway.create({
    protocol: 'tcp/5000',
    dns: { type: 'CNAME', name: 'by-name.example.com' },
    origin_dns: { name: 'two.example.com', type: 'A' },
    origin_port: port,
  });
  const turns = [await read(byName), await read(byName), await read(byName), await read(byName)];
  expect(new Set(turns)).toEqual(new Set(['this is 127.0.0.2', 'this is 127.0.0.3']));
  expect(turns[0]).toBe(turns[2]);

  const byService = await gateway.create({
    protocol: 'tcp/5001',
    dns: { type: 'CNAME', name: 'by-service.example.com' },
    origin_dns: { name: '_app._tcp.example.com', type: 'SRV', ttl: 600 },
  });
  expect(await read(byService)).toBe('this is 127.0.0.1');
  expect((await gateway.traffic(byService.id)).origins).toMatchObject([
    { name: 'origin.example.com', port: servicePort, healthy: true },
  ]);
});

/** Puts a certificate where the gateway finds it. @returns its file */
async function edgeCertificate(name: string): Promise<string> {
  const { cert, key } = await testCertificate([name]);
  const folder = join(gateway.postern.certsDir, 'tls', name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'fullchain.pem'), cert);
  writeFileSync(join(folder, 'privkey.pem'), key);
  return join(folder, 'fullchain.pem');
}

/** Says a line over TLS and gives what comes back. */
function sayByTls({ address, port }: EdgeOf, name: string, authority: string) {
  const verify = ['-CAfile', authority, '-verify_return_error', '-verify_hostname', name];
  const to = ['-connect', `${address}:${port}`, '-servername', name];
  return runProgram('openssl', ['s_client', '-quiet', ...to, ...verify], { input: 'hello\nCLOSE\n', seconds: 20 });
}

test('tls flexible: openssl s_client finds the certificate of the name, and the origin hears plain text', async () => {
  const authority = await edgeCertificate('flexible.example.com');
  const origin = await tcpServer((socket) => {
    socket.once('data', (heard) => socket.end(`plain ${heard.toString()}`));
  });
  const edge = await gateway.create({ ...tcpApplication('flexible', 990, origin.port), tls: 'flexible' });
  const said = await sayByTls(edge, 'flexible.example.com', authority);
  expect([said.code, said.output]).toEqual([0, expect.stringContaining('plain hello\n')]);
});

test('tls strict and full: the origin is openssl s_server; strict checks its certificate, full does not', async () => {
  const unknown = await testCertificate(['elsewhere.example.net']);
  const servers = await Promise.all(
    [known, unknown].map(async ({ cert, key }) => {
      const folder = scratchFolder();
      writeFileSync(join(folder, 'cert.pem'), cert);
      writeFileSync(join(folder, 'key.pem'), key);
      const port = await freePort();
      const files = ['-cert', join(folder, 'cert.pem'), '-key', join(folder, 'key.pem')];
      // -rev sends every line back reversed.
      startProgram('openssl', ['s_server', '-accept', `127.0.0.1:${port}`, ...files, '-rev']);
      await takesConnections(port);
      return port;
    }),
  );
  const [knownPort = 0, unknownPort = 0] = servers;
  const authority = await edgeCertificate('strict.example.com');
  const strict = await gateway.create({ ...tcpApplication('strict', 991, knownPort), tls: 'strict' });
  const said = await sayByTls(strict, 'strict.example.com', authority);
  expect([said.code, said.output]).toEqual([0, expect.stringContaining('olleh\n')]);

  await gateway.call('PATCH', `/${strict.id}`, { origin_direct: [`tcp://127.0.0.1:${unknownPort}`] });
  const refused = await sayByTls(strict, 'strict.example.com', authority);
  expect(refused.output).not.toContain('olleh');
  const { counters, events } = await gateway.traffic(strict.id);
  expect(counters).toMatchObject({ connections: 2, failed: 1 });
  expect(events[0]).toMatchObject({
    kind: 'error',
    reason: `no origin could be reached: 127.0.0.1:${unknownPort}: DEPTH_ZERO_SELF_SIGNED_CERT`,
  });

  await gateway.call('PATCH', `/${strict.id}`, { tls: 'full' });
  expect((await sayByTls(strict, 'strict.example.com', authority)).output).toContain('olleh\n');
});
