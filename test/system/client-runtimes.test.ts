// The packed client in a real browser's engine, through a real gateway: in a page, in a worker and in an extension's
// service worker; and what keeps a page of another origin from it (D49).

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { simpleParser } from 'mailparser';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bundleProgram } from '../support/client-bundle.ts';
import { clientName, makePackedProject, type PackedProject } from '../support/packed-package.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { requirePrograms } from './programs.ts';

/** A program of a site's own: sends one message told by its fields and one finished, and tells their ids or the error. */
const program = `import { bindEmail, EmailMessage } from '${clientName}';
globalThis.sendBoth = async (variables, subject) => {
  try {
    const { EMAIL } = bindEmail(variables);
    const attachments = [{ content: new Uint8Array([0, 128, 254, 255]), filename: 'a.bin' }];
    const message = { from: 'c@example.com', to: 'a@example.net', subject, text: 'Gr\\u00fc\\u00dfe', attachments };
    const first = await EMAIL.send(message, { idempotencyKey: crypto.randomUUID(), signal: AbortSignal.timeout(20000) });
    const raw = new TextEncoder().encode('From: c@example.com\\r\\nSubject: ' + subject + ', finished\\r\\n\\r\\nHello\\r\\n');
    const second = await EMAIL.send(new EmailMessage('c@example.com', ['d@example.net'], raw));
    return { ids: [first.messageId, second.messageId] };
  } catch ({ name, code, status, message }) {
    return { name, code, status, message };
  }
};
if (!globalThis.document) globalThis.onmessage = async ({ data }) => postMessage(await sendBoth(...data));`;

/** What the program tells. */
interface Told {
  readonly ids?: readonly [string, string];
  readonly name?: string;
  readonly code?: string;
  readonly status?: number;
}

let postern: PosternProcess;
let gateway: string;
let project: PackedProject;
let script: string;
let site: Server;
let origin: string;
let browser: Browser;

/** Hands a request on to the gateway, below the site's own origin. */
function passOn(request: IncomingMessage, response: ServerResponse, path: string): void {
  const { method, headers } = request;
  const onward = httpRequest(`${gateway}${path}`, { method, headers: { ...headers, host: new URL(gateway).host } });
  onward.on('response', (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', () => response.destroy());
  request.pipe(onward);
}

/** The site: a page with the bundled program, and the gateway's API below /mail, as a server of a company would pass it on. */
function answer(request: IncomingMessage, response: ServerResponse): void {
  const url = request.url ?? '';
  if (url.startsWith('/mail/')) passOn(request, response, url.slice('/mail'.length));
  else if (url.startsWith('/moved/')) response.writeHead(307, { location: `${gateway}${url.slice(6)}` }).end();
  else if (url === '/client.js')
    response.writeHead(200, { 'content-type': 'text/javascript; charset=utf-8' }).end(script);
  else
    response
      .writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
      .end('<!doctype html><script src="/client.js"></script>');
}

beforeAll(async () => {
  requirePrograms('chromium');
  postern = await startPostern();
  gateway = `http://127.0.0.1:${postern.ports['http']}`;
  project = makePackedProject();
  const bundle = await bundleProgram(project, program);
  expect(bundle.imports).toEqual([]);
  script = bundle.code;
  site = createServer(answer);
  await new Promise<void>((done) => site.listen(0, '127.0.0.1', done));
  origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: chromiumArguments });
});
afterAll(async () => {
  await browser?.close();
  site?.closeAllConnections();
  await new Promise((done) => site?.close(done));
  project?.remove();
  await postern?.cleanUp();
});

const chromiumArguments = ['--no-sandbox', '--disable-dev-shm-usage'];

/** The arguments of the program, as text of a script. */
function given(endpoint: string, subject: string): string {
  const variables = { POSTERN_ENDPOINT: endpoint, POSTERN_TOKEN: testToken, POSTERN_ACCOUNT: 'dev' };
  return `${JSON.stringify(variables)}, ${JSON.stringify(subject)}`;
}

async function inPage<Result>(look: (page: Page) => Promise<Result>): Promise<Result> {
  const page = await browser.newPage();
  try {
    await page.goto(origin);
    return await look(page);
  } finally {
    await page.close();
  }
}

async function expectBothArrived({ ids, ...failure }: Told, subject: string): Promise<void> {
  expect(failure).toEqual({});
  const arrived = (id: string | undefined) =>
    postern.until(() => postern.captured().find((message) => message.includes(`Message-ID: <${id}>`)));
  const fields = await simpleParser(await arrived(ids?.[0]));
  expect([fields.subject, fields.text?.trim()]).toEqual([subject, 'Gr\u00fc\u00dfe']);
  expect([...(fields.attachments[0]?.content ?? [])]).toEqual([0, 128, 254, 255]);
  const finished = (await arrived(ids?.[1])).toString('latin1');
  expect(finished).toContain(`\r\nSubject: ${subject}, finished\r\n`);
  expect(finished).toMatch(/\r\n\r\nHello\r\n$/);
}

test('a page sends where its own server passes the endpoint on', async () => {
  const told = await inPage((page) => page.evaluate<Told>(`sendBoth(${given(`${origin}/mail`, 'From a page')})`));
  await expectBothArrived(told, 'From a page');
});

test('a worker of a page sends', async () => {
  const told = await inPage((page) =>
    page.evaluate<Told>(`new Promise((resolve, reject) => {
      const worker = new Worker('/client.js');
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => reject(new Error(message));
      worker.postMessage([${given(`${origin}/mail`, 'From a worker')}]);
    })`),
  );
  await expectBothArrived(told, 'From a worker');
});

test('a page of another origin cannot send: its preflight is refused, and the client tells a network error', async () => {
  const told = await inPage((page) => page.evaluate<Told>(`sendBoth(${given(gateway, 'From elsewhere')})`));
  expect([told.name, told.code, told.status]).toEqual(['EmailError', 'E_NETWORK_ERROR', undefined]);
  const preflight = await fetch(`${gateway}/client/v4/accounts/dev/email/sending/send`, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
  });
  expect(preflight.status).toBe(405);
  expect([...preflight.headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
  // What is sent after it has arrived, so what was sent before it would have.
  const after = await inPage((page) => page.evaluate<Told>(`sendBoth(${given(`${origin}/mail`, 'Afterwards')})`));
  await expectBothArrived(after, 'Afterwards');
  expect(postern.captured().filter((message) => message.includes('From elsewhere'))).toEqual([]);
});

test('a redirect is not followed, though a browser hides where it leads', async () => {
  const told = await inPage((page) => page.evaluate<Told>(`sendBoth(${given(`${origin}/moved`, 'Moved')})`));
  expect(told).toEqual({
    name: 'EmailError',
    code: 'E_UNEXPECTED_RESPONSE',
    status: 0,
    message: 'E_UNEXPECTED_RESPONSE: The server answered with a redirect, and redirects are not followed',
  });
});

test('the service worker of an extension that may reach the endpoint sends to it directly', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'postern-extension-'));
  let context: BrowserContext | undefined;
  try {
    const extension = join(folder, 'extension');
    mkdirSync(extension);
    const manifest = { manifest_version: 3, name: 'Sender', version: '1', host_permissions: ['http://127.0.0.1/*'] };
    const background = { service_worker: 'client.js' };
    writeFileSync(join(extension, 'manifest.json'), JSON.stringify({ ...manifest, background }));
    writeFileSync(join(extension, 'client.js'), script);
    context = await chromium.launchPersistentContext(join(folder, 'profile'), {
      executablePath: '/usr/bin/chromium',
      args: [...chromiumArguments, `--disable-extensions-except=${extension}`, `--load-extension=${extension}`],
    });
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    const told = await worker.evaluate<Told>(`sendBoth(${given(gateway, 'From an extension')})`);
    await expectBothArrived(told, 'From an extension');
  } finally {
    await context?.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
