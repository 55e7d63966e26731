// Postern behind nginx, HAProxy and Caddy, each with the configuration that `postern edge export` writes: requests that succeed never
// reach Postern, and it answers those that fail, with the code of what failed, in the form that the client asks for (D66).

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as askHttp, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { testCertificate } from '../support/certificate.ts';
import { type FaultOrigin, faultOrigin } from '../support/fault-origin.ts';
import { freePort } from '../support/free-port.ts';
import { fencedBlocks } from '../support/markdown.ts';
import { type PosternProcess, projectRoot, startPostern } from '../support/postern-process.ts';
import { runCli } from '../support/run-cli.ts';
import { startProgram, takesConnections } from '../support/running-program.ts';
import { scratchFolder } from '../support/scratch.ts';
import { type UnansweredPort, unansweredPort } from '../support/unanswered-port.ts';
import { requirePrograms, runProgram } from './programs.ts';

const formats = ['nginx', 'haproxy', 'caddy'] as const;
type Format = (typeof formats)[number];

let postern: PosternProcess;
let good: FaultOrigin;
let unanswered: UnansweredPort;
let downPort: number;
let caFile: string;
const origins: FaultOrigin[] = [];

async function origin(...args: Parameters<typeof faultOrigin>): Promise<FaultOrigin> {
  const made = await faultOrigin(...args);
  origins.push(made);
  return made;
}

/** Answers every request with its first line and the octets behind its head. */
const telling: Parameters<typeof faultOrigin>[0] = async (side) => {
  for (;;) {
    const head = await side.head();
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    const text = `${head.split('\r\n', 1)[0]}|${(await side.octets(length)).toString()}`;
    await side.send(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
  }
};

async function configuration(): Promise<object> {
  const zone = (name: string, digit: string, more: object) => ({ name, id: digit.repeat(32), account: 'dev', ...more });
  const [right, wrong] = await Promise.all([testCertificate(['tls.example']), testCertificate(['other.example'])]);
  caFile = join(mkdtempSync(join(tmpdir(), 'postern-ca-')), 'ca.pem');
  writeFileSync(caFile, `${right.cert}\n${wrong.cert}\n`);
  good = await origin(telling);
  const slow = await origin((side) => side.gone());
  const empty = await origin(async (side) => {
    await side.head();
    side.socket.destroy();
  });
  const secure = await origin(telling, { tls: { key: right.key, cert: right.cert } });
  const strange = await origin(telling, { tls: { key: wrong.key, cert: wrong.cert } });
  unanswered = await unansweredPort();
  downPort = await freePort();
  const url = (port: number): string => `http://127.0.0.1:${port}`;
  const rule = { expression: 'path eq "/shop" and method eq "POST"', content: 'closed', contentType: 'text/plain' };
  return {
    development: {},
    smtp: { listeners: [] },
    http: { listen: '127.0.0.1:0' },
    edge: { trustedProxies: ['127.0.0.1/32'], connectTimeoutSeconds: 1, responseTimeoutSeconds: 2 },
    platform: { dkim: [{ selector: 'p1', algorithm: 'ed25519' }] },
    accounts: [{ name: 'dev', id: 'a'.repeat(32) }],
    zones: [
      zone('good.example', '1', { origin: url(good.port), hostnames: ['good.example', 'www.good.example'] }),
      zone('down.example', '2', { origin: url(downPort), customErrors: { rules: [rule] } }),
      zone('slow.example', '3', { origin: url(slow.port) }),
      zone('empty.example', '4', { origin: url(empty.port) }),
      zone('far.example', '5', { origin: url(unanswered.port) }),
      zone('tls.example', '6', { origin: `https://127.0.0.1:${secure.port}` }),
      zone('strange.example', '7', { origin: `https://127.0.0.1:${strange.port}` }),
      zone('full.example', '8', { origin: { url: `https://127.0.0.1:${strange.port}`, tls: 'full' } }),
      zone('blocked.example', '9', { origin: url(good.port), block: ['127.0.0.0/8'] }),
      zone('bare.example', 'a', {}),
    ],
  };
}

beforeAll(async () => {
  requirePrograms(...formats, 'openssl');
  postern = await startPostern({ config: await configuration(), env: { NODE_EXTRA_CA_CERTS: caFile } });
}, 60_000);
afterAll(async () => {
  await postern?.cleanUp();
  unanswered?.close();
  rmSync(dirname(caFile), { recursive: true });
  for (const one of origins) await one.close();
});

/** How each program is run with an exported file. nginx's goes into the http block of an existing configuration. */
const commands: Readonly<Record<Format, (folder: string, file: string) => readonly string[]>> = {
  nginx: (folder, file) => {
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (one) => `${one}_temp_path ${folder}/${one};`,
    );
    const http = `http { access_log off; ${paths.join(' ')} include ${file}; }`;
    writeFileSync(
      join(folder, 'main.conf'),
      `daemon off; master_process off; pid ${folder}/pid; error_log stderr notice; events {} ${http}`,
    );
    return ['nginx', '-p', folder, '-e', 'stderr', '-c', join(folder, 'main.conf')];
  },
  haproxy: (_folder, file) => ['haproxy', '-db', '-f', file],
  caddy: (_folder, file) => ['caddy', 'run', '--adapter', 'caddyfile', '--config', file],
};

interface Front {
  readonly port: number;
  readonly tlsPort: number;
  ask(host: string, asked?: { method?: string; path?: string; accept?: string; body?: string }): Promise<Answer>;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

/** What `postern edge export` wrote for a program, and the ports that it names. */
interface Exported {
  readonly folder: string;
  readonly file: string;
  readonly port: number;
  readonly tlsPort: number;
}

/** Exports to a folder. */
async function exportTo(folder: string, format: Format): Promise<Exported> {
  const [port, tlsPort] = [await freePort(), await freePort()];
  const file = join(folder, 'exported.conf');
  const places = ['--listen', `127.0.0.1:${port}`, '--tls-listen', `127.0.0.1:${tlsPort}`];
  const at = ['--postern', `127.0.0.1:${postern.ports['http']}`, '--ca-file', caFile, '--output', file];
  const env = Object.fromEntries(
    Object.entries(postern.env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  const written = await runCli(['edge', 'export', '--format', format, '--strict', ...places, ...at], { env });
  expect([written.exitCode, written.stderr]).toEqual([0, expect.not.stringContaining('NOT EXPORTED')]);
  for (const [, command = ''] of written.stderr.matchAll(/make it with: (.*)$/gm)) {
    expect(await runProgram('sh', ['-c', command])).toEqual({ code: 0, output: '' });
  }
  return { folder, file, port, tlsPort };
}

/** Starts a program on what was exported. */
async function startFront(format: Format, { folder, file, port, tlsPort }: Exported): Promise<Front> {
  const [command = '', ...args] = commands[format](folder, file);
  const program = startProgram(command, args);
  await Promise.race([takesConnections(port), program.ended.then(() => expect(program.output()).toBe(''))]);
  const ask: Front['ask'] = (host, { method = 'GET', path = '/', accept = 'application/json', body } = {}) =>
    new Promise((resolve, reject) => {
      const headers = { Host: host, Accept: accept, 'X-Forwarded-For': '192.0.2.9' };
      const sent = askHttp({ host: '127.0.0.1', port, path, method, headers, agent: false }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
      });
      sent.on('error', reject);
      sent.end(body);
    });
  return { port, tlsPort, ask };
}

/** The lines of the requests that reached Postern for a zone. */
const seenOf = (zone: string) =>
  postern.log().filter((line) => line['msg'] === 'edge request' && line['zone'] === zone);

describe.each(formats)('%s', (format) => {
  const folder = mkdtempSync(join(tmpdir(), 'postern-front-'));
  let exported: Exported;
  beforeAll(async () => {
    exported = await exportTo(folder, format);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('requests that succeed never reach Postern, by HTTP and by HTTPS', async () => {
    const front = await startFront(format, exported);
    expect(await front.ask('good.example')).toMatchObject({ status: 200, text: 'GET / HTTP/1.1|' });
    const posted = await front.ask('www.good.example', { method: 'POST', path: '/a%2Fb?c', body: 'hello' });
    expect(posted.text).toBe('POST /a%2Fb?c HTTP/1.1|hello');
    expect(await front.ask('tls.example')).toMatchObject({ status: 200 });
    expect(await front.ask('full.example')).toMatchObject({ status: 200 });
    const socket = connectTls({
      port: front.tlsPort,
      host: '127.0.0.1',
      servername: 'good.example',
      rejectUnauthorized: false,
    });
    onTestFinished(() => void socket.destroy());
    socket.write('GET /secure HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n');
    let text = '';
    for await (const piece of socket) text += String(piece);
    expect(text).toContain('GET /secure HTTP/1.1|');
    expect(['good.example', 'tls.example', 'full.example'].flatMap(seenOf)).toEqual([]);
  });

  test.each([
    ['down.example', 521],
    ['slow.example', 524],
    ['strange.example', 526],
    ['far.example', 522],
    ['empty.example', 520],
    ['blocked.example', 1006],
    ['bare.example', 1004],
  ])('%s is told as %i in the form that the client asks for', async (host, code) => {
    const front = await startFront(format, exported);
    // HAProxy knows a certificate of another name only once it has checked the origin.
    await expect.poll(async () => (await front.ask(host)).headers['ray-id'], { timeout: 10_000 }).toBeDefined();
    const [json, markdown, html] = await Promise.all(
      ['application/json', 'text/markdown', 'text/html'].map((accept) => front.ask(host, { accept, path: '/x' })),
    );
    const body = JSON.parse(json?.text ?? '') as Record<string, unknown>;
    expect(body).toMatchObject({ error_code: code, zone: host, ray_id: json?.headers['ray-id'] });
    expect(json?.status).toBe(body['status']);
    expect(markdown?.text).toMatch(new RegExp(`^error_code: ${code}$`, 'm'));
    expect(html?.text).toMatch(/^<!doctype html>/i);
    for (const answer of [json, markdown, html]) expect(answer?.text).toContain(answer?.headers['ray-id']);
    const seen = await postern.until(() => seenOf(host).find(({ ray }) => ray === json?.headers['ray-id']));
    expect(seen).toMatchObject({ client: '127.0.0.1', path: '/x', code, status: json?.status });
  });

  test('a request with a body is told by the rules of its zone, and sent to its origin once', async () => {
    const front = await startFront(format, exported);
    const asked = { method: 'POST', path: '/shop', body: 'x'.repeat(5000) };
    expect(await front.ask('down.example', asked)).toMatchObject({ status: 521, text: 'closed' });
    const slow = origins[1];
    const before =
      slow
        ?.received()
        .join('')
        .match(/POST \/once /g)?.length ?? 0;
    const answer = await front.ask('slow.example', { ...asked, path: '/once' });
    expect(JSON.parse(answer.text)).toMatchObject({ error_code: 524 });
    expect(
      slow
        ?.received()
        .join('')
        .match(/POST \/once /g)?.length,
    ).toBe(before + 1);
  });

  test('errors that are asked for are answered by Postern', async () => {
    const front = await startFront(format, exported);
    const asked = await front.ask('bare.example', { path: '/cdn-cgi/error/1015' });
    expect(JSON.parse(asked.text)).toMatchObject({ error_code: 1015 });
  });

  test('an origin that comes back is served again at once', async () => {
    const front = await startFront(format, exported);
    expect(await front.ask('down.example')).toMatchObject({ status: 521 });
    const back = await faultOrigin(telling, { port: downPort });
    onTestFinished(() => back.close());
    expect(await front.ask('down.example')).toMatchObject({ status: 200 });
  });
});

const wholeOf = {
  nginx: (block: string) => `events {}\nhttp {\nupstream my_origin { server 127.0.0.1:9; }\n${block}}\n`,
  haproxy: (block: string) =>
    `defaults\n  mode http\n  timeout connect 1s\n  timeout client 1s\n  timeout server 1s\nfrontend door\n  bind 127.0.0.1:1\n  default_backend my_site\n${block}`,
  caddyfile: (block: string) => block,
};
const checkOf = {
  nginx: ['nginx', '-t', '-q', '-e', 'stderr', '-g', 'pid /dev/null;', '-c'],
  haproxy: ['haproxy', '-c', '-q', '-f'],
  caddyfile: ['caddy', 'validate', '--adapter', 'caddyfile', '--config'],
};

test.each(['nginx', 'haproxy', 'caddyfile'] as const)(
  'what the page shows in %s for a configuration of your own is taken by the program',
  (language) => {
    const page = readFileSync(join(projectRoot, 'docs/edge-behind-a-proxy.md'), 'utf8');
    const [block, more] = fencedBlocks(page).filter((one) => one.language === language);
    expect(more).toBeUndefined();
    const file = join(scratchFolder(), 'configuration');
    writeFileSync(file, wholeOf[language](block?.text ?? ''));
    const [program = '', ...args] = checkOf[language];
    const { status, stderr, stdout } = spawnSync(program, [...args, file], { encoding: 'utf8' });
    expect(status, `${stdout}${stderr}`).toBe(0);
  },
);
