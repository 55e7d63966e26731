// The exports in the hands of the programs they are for: HAProxy and nginx read every feature, and carry real traffic.

import { type ChildProcess, spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect, createServer as createTcpServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import type { ForwardingPlan } from '../../src/proxy/application/application.ts';
import { exporters } from '../../src/proxy/export/export-plans.ts';
import type { ExportFormat, ExportSettings } from '../../src/proxy/export/exported.ts';
import { proxyHeaderV2 } from '../../src/proxy/traffic/proxy-header.ts';
import { type TestCertificate, testCertificate } from '../support/certificate.ts';
import { everyFeature, exportPlan, exportSettings } from '../support/export-plans.ts';
import { loopbackAddress } from '../support/proxy-plane.ts';
import { scratchFolder } from '../support/scratch.ts';
import { udpPeer } from '../support/udp-peers.ts';
import { requirePrograms, runProgram } from './programs.ts';

beforeAll(() => requirePrograms('haproxy', 'nginx'));

/** Certificates for names, in a folder as Postern keeps them, with what HAProxy is to be given besides. */
async function certsFolder(folder: string, names: readonly string[]): Promise<Map<string, TestCertificate>> {
  const made = new Map<string, TestCertificate>();
  for (const name of names) {
    const certificate = await testCertificate([name]);
    made.set(name, certificate);
    const place = join(folder, 'certs of mine', 'tls', name);
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, 'fullchain.pem'), certificate.cert);
    writeFileSync(join(place, 'privkey.pem'), certificate.key);
  }
  return made;
}

/** Writes an export and does what its notes tell to do. */
async function written(
  format: ExportFormat,
  plans: readonly ForwardingPlan[],
  folder: string,
  settings: Partial<ExportSettings> = {},
): Promise<string> {
  const { text, gaps } = exporters[format](
    plans,
    exportSettings({ certsDir: join(folder, 'certs of mine'), ...settings }),
  );
  for (const { text } of gaps) {
    const [, command] = /make it with: (.*)$/.exec(text) ?? [];
    if (command) expect(await runProgram('sh', ['-c', command])).toEqual({ code: 0, output: '' });
  }
  const file = join(folder, `${format}.conf`);
  writeFileSync(file, text);
  return file;
}

/** What stands for the installation: a prefix with the modules of Debian, and nothing in /run or /var/log. */
function nginxArgs(folder: string, file: string): string[] {
  mkdirSync(join(folder, 'modules'), { recursive: true });
  symlinkSync('/usr/lib/nginx/modules/ngx_stream_module.so', join(folder, 'modules/ngx_stream_module.so'));
  const globals = `daemon off; pid ${folder}/nginx.pid; error_log stderr notice;`;
  return ['-p', folder, '-c', file, '-g', globals, '-e', 'stderr'];
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'close');
}

/** Starts a program in the foreground and waits until it takes connections on some port. */
async function started(command: string, args: readonly string[], at: { address: string; port: number }): Promise<void> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += String(chunk)));
  onTestFinished(() => stopped(child));
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${command} ended: ${output}`);
    const socket = connect(at.port, at.address);
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
    socket.destroy();
    if (isOpen) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function runExport(
  format: 'haproxy' | 'nginx',
  plans: readonly ForwardingPlan[],
  folder: string,
  settings: Partial<ExportSettings> = {},
): Promise<void> {
  const file = await written(format, plans, folder, settings);
  const [first] = plans;
  const at = { address: first?.addresses[0] ?? '', port: first?.ports.first ?? 0 };
  if (format === 'haproxy') await started('haproxy', ['-db', '-f', file], at);
  else await started('nginx', nginxArgs(folder, file), at);
}

/** A server that answers what it was sent until then, and on which address and port, when the client ends its half. */
async function tcpOrigin(address: string, port: number): Promise<void> {
  const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', () => undefined);
    socket.on('end', () => {
      const got = Buffer.concat(chunks).toString('latin1');
      socket.end(JSON.stringify({ port: socket.localPort, from: socket.remoteAddress, got }));
    });
  });
  server.listen(port, address);
  await once(server, 'listening');
  onTestFinished(() => void server.close());
}

interface Answer {
  readonly port: number;
  readonly from: string;
  readonly got: string;
}

async function readAnswer(socket: Socket): Promise<Answer | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of socket) chunks.push(chunk as Buffer);
  } catch {
    return undefined; // reset
  }
  return chunks.length === 0 ? undefined : (JSON.parse(Buffer.concat(chunks).toString()) as Answer);
}

/** Sends a text and ends; undefined where the connection was refused or reset. */
function ask(address: string, port: number, text: string, localAddress = '127.0.0.1'): Promise<Answer | undefined> {
  const socket = connect({ host: address, port, localAddress, allowHalfOpen: true });
  socket.once('connect', () => socket.end(text));
  return readAnswer(socket);
}

/** The same through TLS; the server must have the certificate that is given. */
async function askSecurely(
  host: string,
  port: number,
  { text, ca }: { readonly text: string; readonly ca: string },
): Promise<Answer | undefined> {
  const servername = new X509Certificate(ca).subject.replace('CN=', '');
  const socket = connectTls({ socket: connect({ host, port, allowHalfOpen: true }), servername, ca });
  await once(socket, 'secureConnect');
  socket.end(text);
  return await readAnswer(socket);
}

const direct = (...places: readonly (readonly [string, number, number?])[]): ForwardingPlan['origin'] => ({
  kind: 'direct',
  origins: places.map(([address, first, last = first]) => ({ address, ports: { first, last } })),
});

test('HAProxy reads an export with every feature, and has nothing to warn of', async () => {
  const folder = scratchFolder();
  await certsFolder(
    folder,
    [20, 21, 22, 23].map((number) => `app${number}.example.com`),
  );
  const file = await written('haproxy', everyFeature, folder, { portOffset: 20_000 });
  const { code, output } = await runProgram('haproxy', ['-c', '-V', '-f', file]);
  expect([code, output]).toEqual([0, expect.stringContaining('Configuration file is valid')]);
  expect(output).not.toMatch(/WARNING|ALERT/);
});

test('nginx reads an export with every feature, and has nothing to warn of', async () => {
  const folder = scratchFolder();
  await certsFolder(
    folder,
    [20, 21, 22, 23].map((number) => `app${number}.example.com`),
  );
  const file = await written('nginx', everyFeature, folder, { portOffset: 20_000 });
  const { code, output } = await runProgram('nginx', ['-t', ...nginxArgs(folder, file)]);
  expect([code, output]).toEqual([0, expect.stringContaining('test is successful')]);
  expect(output).not.toMatch(/\[(warn|error|emerg)\]/);
});

test('HAProxy carries exported TCP applications: PROXY header, range, lists, TLS', async () => {
  const folder = scratchFolder();
  const certificates = await certsFolder(folder, ['app3.example.com']);
  const [edge, origin] = [loopbackAddress(), loopbackAddress()];
  for (const port of [22, 4100, 4101, 25]) await tcpOrigin(origin, port);
  const shared = { addresses: [edge] } as const;
  await runExport(
    'haproxy',
    [
      exportPlan(1, { ...shared, proxyProtocol: 'v2', origin: direct([origin, 1], [origin, 22]) }),
      exportPlan(2, {
        ...shared,
        ports: { first: 3100, last: 3101 },
        origin: direct([origin, 4100, 4101]),
        sourceAddress: '127.0.0.9',
        firewall: { block: ['127.0.0.5'], allow: ['127.0.0.0/8'] },
      }),
      exportPlan(3, { ...shared, tls: 'flexible', origin: direct([origin, 25]) }),
    ],
    folder,
  );
  const socket = connect({ host: edge, port: 1001, localAddress: '127.0.0.1', allowHalfOpen: true });
  await once(socket, 'connect');
  const { localPort = 0 } = socket;
  socket.end('with a header');
  const header = proxyHeaderV2({
    transport: 'tcp',
    client: { address: '127.0.0.1', port: localPort },
    edge: { address: edge, port: 1001 },
  });
  expect((await readAnswer(socket))?.got).toBe(`${header.toString('latin1')}with a header`);
  expect(await ask(edge, 3100, 'x')).toEqual({ port: 4100, from: '127.0.0.9', got: 'x' });
  expect(await ask(edge, 3101, 'x')).toEqual({ port: 4101, from: '127.0.0.9', got: 'x' });
  expect(await ask(edge, 3100, 'x', '127.0.0.5')).toBeUndefined();
  expect(
    (await askSecurely(edge, 1003, { text: 'through TLS', ca: certificates.get('app3.example.com')?.cert ?? '' }))?.got,
  ).toBe('through TLS');
});

test('nginx carries exported TCP and UDP applications: ranges, lists, names, TLS with the origin', async () => {
  const folder = scratchFolder();
  const certificates = await certsFolder(folder, ['app4.example.com']);
  const [edge, origin] = [loopbackAddress(), loopbackAddress()];
  for (const port of [22, 4100, 4101, 3200, 3201]) await tcpOrigin(origin, port);
  const dns = await udpPeer({ address: origin, port: 53, answer: (data) => Buffer.concat([Buffer.from('re:'), data]) });
  const shared = { addresses: [edge] } as const;
  // A second nginx is not needed: the flexible application is the TLS origin of the strict one.
  const ca = join(folder, 'ca.pem');
  writeFileSync(ca, certificates.get('app4.example.com')?.cert ?? '');
  await runExport(
    'nginx',
    [
      exportPlan(1, { ...shared, proxyProtocol: 'v1', origin: direct([origin, 1], [origin, 22]) }),
      exportPlan(2, {
        ...shared,
        ports: { first: 3100, last: 3101 },
        origin: direct([origin, 4100, 4101]),
        sourceAddress: '127.0.0.9',
        firewall: { block: ['127.0.0.5'], allow: ['127.0.0.0/8'] },
      }),
      exportPlan(3, { ...shared, ports: { first: 3200, last: 3201 }, origin: direct([origin, 3200, 3201]) }),
      exportPlan(4, { ...shared, tls: 'flexible', origin: direct([origin, 22]) }),
      exportPlan(5, { ...shared, name: 'app4.example.com', tls: 'strict', origin: direct([edge, 1004]) }),
      exportPlan(6, { ...shared, transport: 'udp', ports: { first: 53, last: 53 }, origin: direct([origin, 53]) }),
    ],
    folder,
    { caFile: ca },
  );
  const proxied = await ask(edge, 1001, 'with a header');
  expect(proxied?.got).toMatch(
    new RegExp(`^PROXY TCP4 127\\.0\\.0\\.1 ${edge.replaceAll('.', '\\.')} \\d+ 1001\r\nwith a header$`),
  );
  expect(await ask(edge, 3100, 'x')).toEqual({ port: 4100, from: '127.0.0.9', got: 'x' });
  expect(await ask(edge, 3101, 'x')).toEqual({ port: 4101, from: '127.0.0.9', got: 'x' });
  expect(await ask(edge, 3100, 'x', '127.0.0.5')).toBeUndefined();
  expect((await ask(edge, 3201, 'x'))?.port).toBe(3201);
  expect(
    (await askSecurely(edge, 1005, { text: 'through TLS twice', ca: certificates.get('app4.example.com')?.cert ?? '' }))
      ?.got,
  ).toBe('through TLS twice');

  const clients = [await udpPeer(), await udpPeer()];
  for (const [index, client] of clients.entries()) await client.send(`question ${index}`, { address: edge, port: 53 });
  const answers = await Promise.all(clients.map((client) => client.next()));
  expect(answers.map(({ data }) => data.toString())).toEqual(['re:question 0', 're:question 1']);
  expect(dns.received.length).toBe(2);
});
