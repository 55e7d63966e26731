// The console in a real browser while the gateway is slow, hangs, answers with faults, cuts connections, or has ended the session:
// every page says so, offers to try again, and loses nothing that was typed or came meanwhile.

import type { AddressInfo } from 'node:net';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Browser, Route } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser, screenshotSizes } from '../support/browser-pages.ts';
import { sendByRest } from '../support/console-mail.ts';
import { accessFaults, type ConsolePage, openConsolePage, sideways } from '../support/console-pages.ts';
import { testToken } from '../support/postern-process.ts';
import { type Reloadable, startReloadable } from '../support/reloadable.ts';
import { requirePrograms } from './programs.ts';

let gateway: Reloadable;
let browser: Browser;
let relay: Server;
/** Of the relay, which stands between the browser and the gateway. */
let origin: string;
let direct: string;
const sockets = new Set<Socket>();
/** Connections to the gateway that carry a live stream. */
const streams = new Set<Socket>();
let isCut = false;

beforeAll(async () => {
  requirePrograms('chromium-headless-shell');
  gateway = await startReloadable();
  direct = `http://127.0.0.1:${gateway.postern.ports['http']}`;
  relay = createServer((client) => {
    const server = connect(gateway.postern.ports['http'] ?? 0, '127.0.0.1');
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
    server.on('data', (chunk: Buffer) => {
      if (chunk.includes('text/event-stream')) streams.add(server);
    });
    if (isCut) client.destroy();
  });
  await new Promise<void>((done) => relay.listen(0, '127.0.0.1', done));
  origin = `http://127.0.0.1:${(relay.address() as AddressInfo).port}`;
  browser = await launchBrowser();
  expect(await send('Before')).toBe(200);
});

afterAll(async () => {
  await browser?.close();
  for (const socket of sockets) socket.destroy();
  await new Promise((done) => relay?.close(done));
  await gateway?.postern.cleanUp();
});

function send(subject: string): Promise<number> {
  return sendByRest(direct, { from: 'shop@example.com', to: 'you@example.net', subject, text: 'x' });
}

/** Opens a signed-in page for one test and closes it afterwards. */
async function withPage(look: (opened: ConsolePage) => Promise<void>): Promise<void> {
  const opened = await openConsolePage(browser, origin, { viewport: screenshotSizes.desktop });
  try {
    await look(opened);
    // That a stream was refused is what some tests want.
    expect(opened.complaints.filter((text) => !text.startsWith('EventSource'))).toEqual([]);
    expect(opened.requests.filter((url) => !url.startsWith(`${origin}/`) && !url.startsWith('data:'))).toEqual([]);
  } finally {
    await opened.close();
  }
}

const api = '**/client/v4/**';

/** Lets requests wait until `release` is called. */
function holdBack(): { readonly hold: (route: Route) => Promise<void>; readonly release: () => void } {
  let release = (): void => undefined;
  const released = new Promise<void>((done) => {
    release = done;
  });
  return {
    hold: async (route) => {
      await released;
      await route.continue().catch(() => undefined);
    },
    release: () => release(),
  };
}

test('a fault of the gateway is told on every page, with a way to try again', async () => {
  await withPage(async ({ page, open }) => {
    await page.route(api, (route) => route.fulfill({ status: 500, contentType: 'text/html', body: '<h1>No</h1>' }));
    const isTold = async (name: string): Promise<void> => {
      const problem = page.getByRole('alert');
      await problem.getByText('The gateway met a fault of its own').waitFor();
      expect([name, await problem.getByRole('button', { name: 'Try again' }).count()]).toEqual([name, 1]);
      expect([name, await page.locator('.empty').count()]).toEqual([name, 0]);
    };
    for (const path of ['/messages/ID', '/webhooks/ID']) {
      await open(path);
      await isTold(path);
    }
    for (const link of await page.locator('.nav a').all()) {
      await link.click();
      const name = (await link.textContent()) ?? '';
      await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
      if (name !== 'Try it') await isTold(name);
    }
    expect(await accessFaults(page)).toEqual([]);
    await page.setViewportSize({ width: 320, height: 640 });
    expect(await sideways(page)).toBe(0);
    await page.unroute(api);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('Configuration in force').first().waitFor();
  });
});

test('what is slow says so, back and forward meanwhile show the right page, and a page that comes late stays away', async () => {
  await withPage(async ({ page, open }) => {
    const slow = holdBack();
    await page.route('**/email/sending/queue*', slow.hold);
    const module = holdBack();
    await page.route('**/pages/edge.ts', module.hold);
    await open('/queue');
    await page.getByText('Loading the queue').waitFor();
    await page.getByRole('link', { name: 'Edge' }).click();
    await page.getByText('Loading the page').waitFor();
    await page.getByRole('link', { name: 'Suppressions' }).click();
    await page.getByText('Nobody is suppressed').waitFor();
    const came = page.waitForResponse(/uplot\.js/);
    module.release();
    await came;
    await page.waitForTimeout(300);
    expect(await page.getByText('Nobody is suppressed').count()).toBe(1);
    await page.goBack();
    await page.getByRole('heading', { name: 'Edge', exact: true }).waitFor();
    await page.goBack();
    await page.getByText('Loading the queue').waitFor();
    slow.release();
    await page.getByText('The queue is empty').waitFor();
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Queue');
  });
});

test('an answer that never comes is told of after half a minute, though the page asks every few seconds', async () => {
  await withPage(async ({ page, open }) => {
    await page.clock.install();
    const never = holdBack();
    await page.route(api, never.hold);
    await open('/queue');
    await page.getByText('Loading the queue').waitFor();
    await page.clock.runFor(31_000);
    await page.getByText('The gateway has not answered for 30 s. Look whether it runs').first().waitFor();
    never.release();
    await page.unroute(api);
    await page.clock.runFor(6000);
    await page.getByText('The queue is empty').waitFor();
    // A change may have been made all the same.
    await page.getByRole('link', { name: 'Suppressions' }).click();
    await page.getByRole('button', { name: 'Add an address' }).click();
    await page.getByLabel('Address', { exact: true }).fill('late@example.net');
    await page.route(api, (route) => route.abort('connectionreset'));
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByText('may have been done all the same').waitFor();
    expect(await page.getByLabel('Address', { exact: true }).inputValue()).toBe('late@example.net');
  });
});

test('a session that ends behind a dialog gives back the dialog, with what was typed', async () => {
  await withPage(async ({ page, context, open }) => {
    await open('/suppressions');
    await page.getByRole('button', { name: 'Add an address' }).click();
    await page.getByLabel('Address', { exact: true }).fill('typed@example.net');
    await context.request.delete(`${origin}/console/session`, { headers: { 'x-postern-console': '1', origin } });
    await page.keyboard.press('Enter');
    await page.getByText('The session has ended.').waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
    expect(await accessFaults(page)).toEqual([]);
    await page.getByLabel('Token').fill(testToken);
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Add an address' });
    expect(await dialog.getByLabel('Address', { exact: true }).inputValue()).toBe('typed@example.net');
    expect(await dialog.getByRole('alert').count()).toBe(0);
    await dialog.getByRole('button', { name: 'Add the address' }).dblclick();
    await page.getByRole('row').filter({ hasText: 'typed@example.net' }).waitFor();
    expect(await page.title()).toBe('Suppressions · Postern');
  });
});

test('a live list that is cut off, or paused, comes back and has missed nothing', async () => {
  await withPage(async ({ page, open }) => {
    await open('/messages');
    await page.locator('.live.on').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    expect(await send('While paused')).toBe(200);
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.getByRole('link', { name: 'While paused' }).waitFor();
    // It was told of no row yet that it could resume behind.
    isCut = true;
    for (const socket of sockets) socket.destroy();
    await page.locator('.live.lost').waitFor();
    expect(await send('While cut off')).toBe(200);
    isCut = false;
    await page.getByRole('link', { name: 'While cut off' }).waitFor();
    await page.locator('.live.on').waitFor();
    expect(await send('And after')).toBe(200);
    await page.getByRole('link', { name: 'And after' }).waitFor();
    const subjects = await page.locator('a.row-link').allTextContents();
    expect(subjects.slice(0, 4)).toEqual(['And after', 'While cut off', 'While paused', 'Before']);
  });
});

test('a live list whose network goes away without a word notices, connects anew, and has missed nothing', async () => {
  await withPage(async ({ page, open }) => {
    await page.clock.install();
    streams.clear();
    let lists = 0;
    page.on('requestfinished', (request) => {
      if (request.url().includes('/email/sending/journal?')) lists += 1;
    });
    await open('/messages');
    await page.locator('.live.on').waitFor();
    // The list is read at first, and once more when the stream has opened: what comes after that only the stream tells.
    await expect.poll(() => lists).toBe(2);
    for (const stream of streams) stream.unpipe().pause();
    expect(await send('While nobody heard')).toBe(200);
    // The page's clock goes on by itself, too, for as long as the machine takes for all this.
    await page.clock.runFor(20_000);
    expect(await page.getByRole('link', { name: 'While nobody heard' }).count()).toBe(0);
    await page.clock.runFor(21_000);
    await page.getByRole('link', { name: 'While nobody heard' }).waitFor();
    await page.locator('.live.on').waitFor();
    expect(await send('Heard again')).toBe(200);
    await page.getByRole('link', { name: 'Heard again' }).waitFor();
  });
});

test('a page that was asked for before more came than a page holds leaves no gap in the list', async () => {
  for (let count = 0; count < 130; count += 1) expect(await send(`Numbered ${count}`)).toBe(200);
  await withPage(async ({ page, open }) => {
    await open('/messages');
    await page.locator('.live.on').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('.live.on').waitFor({ state: 'detached' });
    await page.waitForLoadState('networkidle');
    for (let count = 130; count < 200; count += 1) expect(await send(`Numbered ${count}`)).toBe(200);
    const [looks, pages]: Route[][] = [[], []];
    const isList = ({ pathname }: URL): boolean => pathname.endsWith('/email/sending/journal');
    await page.route(isList, (route) => void (route.request().url().includes('cursor=') ? pages : looks)?.push(route));
    await page.getByRole('button', { name: 'Go on' }).click();
    await expect.poll(() => looks?.length).toBeGreaterThan(0);
    // The list is looked at anew, and its reader goes on meanwhile.
    await page.evaluate('scrollTo({ top: document.body.scrollHeight })');
    await expect.poll(() => pages?.length).toBeGreaterThan(0);
    for (const look of looks ?? []) await look.continue();
    await page.getByRole('link', { name: 'Numbered 199' }).waitFor();
    for (const one of pages ?? []) await one.continue();
    await page.unroute(isList);
    const numbers = (): Promise<string[]> => page.locator('a.row-link').allTextContents();
    await expect
      .poll(async () => {
        await page.evaluate('scrollTo({ top: document.body.scrollHeight })');
        return (await numbers()).length;
      })
      .toBeGreaterThan(99);
    const shown = await numbers();
    expect(shown.slice(0, 100)).toEqual(Array.from({ length: 100 }, (_, at) => `Numbered ${199 - at}`));
  });
});
