// What a gateway does not use is not loaded: a real process notes every module that it loads.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';

/** Every part that has to wait for the configuration or the first use that needs it, by something in its modules' URLs. */
const parts = {
  postgres: [
    '/node_modules/pg',
    '/base/database/postgres-database.ts',
    '/spool/postgres/',
    '/postgres-journal-store.ts',
  ],
  processes: ['/src/app/processes/supervisor.ts', '/src/app/processes/serve-as-process.ts'],
  api: [
    '/node_modules/fastify/',
    '/node_modules/typebox/',
    '/src/web/http/api.ts',
    '/src/web/admin/journal/',
    '/doors/rest/schemas.ts',
  ],
  console: [
    '/src/web/console/page-routes.ts',
    '/src/web/console/session-routes.ts',
    '/src/web/console/files/',
    '/src/web/admin/console/',
  ],
  consoleReaders: [
    '/node_modules/mailparser/',
    '/node_modules/mailauth/lib/dkim/',
    '/journal/reader/content-process.ts',
  ],
  composer: ['/nodemailer/lib/mail-composer', '/pipeline/compose/compose-parts.ts'],
  edge: [
    '/src/edge/open-edge.ts',
    '/src/edge/origin/',
    '/src/edge/errors/catalogue.ts',
    '/src/edge/errors/default-answer.ts',
  ],
  proxy: ['/src/proxy/proxy.ts', '/src/proxy/traffic/', '/src/proxy/plane/'],
  mx: ['/delivery/mx/mx-plan.ts', '/delivery/mx/mx-hops.ts'],
  dns: ['/node_modules/dns-packet/', '/base/dns/dns-exchange.ts'],
  development: ['/node_modules/selfsigned/', '/node_modules/pino-pretty/'],
  metricsOfProcess: ['/node_modules/@opentelemetry/'],
  reload: ['/app/wiring/load-settings.ts'],
} as const;

type Part = keyof typeof parts;

interface Noting {
  readonly postern: PosternProcess;
  /** The parts of which something is loaded. */
  readonly loaded: () => readonly Part[];
}

async function startNoting(config: object): Promise<Noting> {
  const hook = pathToFileURL(join(import.meta.dirname, '../support/note-modules.ts')).href;
  const folder = mkdtempSync(join(tmpdir(), 'postern-modules-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'modules');
  const postern = await startPostern({
    config,
    env: { NODE_OPTIONS: `--import=${hook}`, POSTERN_TEST_MODULES: file },
  });
  onTestFinished(() => postern.cleanUp());
  const loaded = (): readonly Part[] => {
    const urls = readFileSync(file, 'utf8');
    expect(urls, 'the hook sees the modules of the gateway').toContain('/src/app/gateway.ts');
    return (Object.keys(parts) as Part[]).filter((part) => parts[part].some((text) => urls.includes(text)));
  };
  return { postern, loaded };
}

/** Where the whole suite runs on PostgreSQL, the engine is used by every gateway. */
const always: readonly Part[] = process.env['POSTERN_TEST_POSTGRES'] === undefined ? [] : ['postgres'];

async function send(port: number, recipient: string): Promise<number> {
  const client = await connectSmtp(port);
  await client.reply();
  for (const line of ['EHLO x', 'MAIL FROM:<a@example.com>', `RCPT TO:<${recipient}>`, 'DATA'])
    await client.command(line);
  const { code } = await client.command('From: a@example.com\r\nSubject: Hi\r\n\r\nHello\r\n.');
  client.close();
  return code;
}

test('a gateway that takes mail by SMTP, and is probed and scraped, loads no more than that', async () => {
  const { postern, loaded } = await startNoting(deviceConfiguration({ routes: [captureRoute] }));
  expect(loaded()).toEqual(always);
  const base = `http://127.0.0.1:${postern.ports['http']}`;
  expect(await (await fetch(`${base}/livez`)).text()).toBe('live\n');
  expect(await (await fetch(`${base}/readyz`)).text()).toBe('ready\n');
  expect(await send(postern.ports['devices'] ?? 0, 'b@example.net')).toBe(250);
  await postern.until(() => postern.captured().length === 1);
  expect(loaded()).toEqual(always);
  expect(await (await fetch(`${base}/metrics`)).text()).toMatch(/^postern_messages_accepted_total 1$/m);
  expect(loaded()).toEqual([...always, 'metricsOfProcess']);
});

test('the first request to the API loads it, the first message in parts what composes it, and neither the edge', async () => {
  const { postern, loaded } = await startNoting(
    deviceConfiguration({ routes: [captureRoute], credential: { scopes: ['email:send', 'email:events'] } }),
  );
  const base = `http://127.0.0.1:${postern.ports['http']}`;
  const headers = { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' };
  const path = `/client/v4/accounts/${'a1'.repeat(16)}/email/sending/send`;
  const ask = async (body: object): Promise<number> =>
    (await fetch(base + path, { method: 'POST', headers, body: JSON.stringify(body) })).status;
  expect((await fetch(`${base}/openapi.json`)).status).toBe(200);
  expect(loaded()).toContain('api');
  expect(loaded()).not.toContain('composer');
  expect(await ask({ from: 'a@example.com', to: ['b@example.net'], subject: 'Hi', text: 'Hello' })).toBe(200);
  expect(loaded()).toContain('composer');
  expect(loaded()).not.toContain('consoleReaders');
  // A Host that is nobody's has an answer of the edge.
  expect((await fetch(`${base}/x`)).status).toBe(404);
});

test('a configuration with a zone loads the edge and the proxy applications, and one by MX loads DNS with its first message', async () => {
  const zone = { name: 'example.com', id: 'b2'.repeat(16), account: 'dev', hostnames: ['www.example.com'] };
  const { postern, loaded } = await startNoting(
    deviceConfiguration({
      routes: [{ name: 'out', type: 'mx', tls: 'none', mtaSts: false }],
      delivery: { resolver: { servers: ['127.0.0.1:9'] } },
      zones: [zone],
    }),
  );
  expect(loaded()).toEqual([...always, 'edge', 'proxy']);
  expect(await send(postern.ports['devices'] ?? 0, 'b@example.net')).toBe(250);
  await postern.until(() => loaded().includes('dns'));
  expect(loaded()).toEqual([...always, 'edge', 'proxy', 'mx', 'dns']);
});
