// The HTML pages of the edge in a real browser: served with their own headers, so that the Content-Security-Policy is in
// force. UPDATE_SCREENSHOTS=1 writes docs/screenshots anew; then look at them.

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ErrorAnswer } from '../../src/edge/errors/catalogue.ts';
import { defaultAnswer } from '../../src/edge/errors/default-answer.ts';
import { errorReferenceIndex, errorReferencePage } from '../../src/edge/errors/error-reference.ts';
import {
  contrasts,
  type Heard,
  type LookOptions,
  launchBrowser,
  screenshotSizes,
  takeScreenshot,
  visitPage,
} from '../support/browser-pages.ts';
import { edgeOccurrence } from '../support/edge-occurrence.ts';
import { requirePrograms } from './programs.ts';

/** Markup, an attribute's end, an entity, a bidirectional override, a zero-width space, and more than a line of it. */
const hostileHost = `"><script>alert(1)</script><img src=//evil.example onerror='alert(2)'>&lt;\u202Emoc.live\u200B${'a'.repeat(300)}`;

const pages: Readonly<Record<string, () => ErrorAnswer | undefined>> = {
  'error-522': () => defaultAnswer(edgeOccurrence(522), 'html'),
  'error-1020': () => defaultAnswer(edgeOccurrence(1020), 'html'),
  hostile: () => defaultAnswer(edgeOccurrence(1015, { zone: hostileHost, retryAfterSeconds: 17 }), 'html'),
  'errors/526': () => errorReferencePage(526),
  errors: () => errorReferenceIndex(),
};
const names = Object.keys(pages);
const schemes = ['light', 'dark'] as const;

let server: Server;
let browser: Browser;
let origin: string;
const asked: string[] = [];

beforeAll(async () => {
  requirePrograms('chromium-headless-shell');
  server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const answer = pages[(request.url ?? '').slice(1)]?.();
    if (answer) response.writeHead(answer.status, answer.headers).end(answer.body);
    else response.writeHead(404).end();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  server?.closeAllConnections();
  await new Promise((done) => server?.close(done));
});

/** Opens a page of this server. */
function visit<Seen>(
  name: string,
  options: LookOptions,
  look: (page: Page, heard: Heard) => Promise<Seen>,
  waitUntil: 'load' | 'networkidle' = 'load',
): Promise<Seen> {
  return visitPage(browser, `${origin}/${name}`, options, look, waitUntil);
}

describe.each(names)('/%s', (name) => {
  test('loads nothing, complains of nothing, and is one document with one title', async () => {
    asked.length = 0;
    const look = async (page: Page, heard: Heard) => {
      expect(heard).toEqual({ complaints: [], requests: [`${origin}/${name}`] });
      expect(asked).toEqual([`/${name}`]);
      expect(await page.locator('h1').count()).toBe(1);
      expect(await page.locator('main').count()).toBe(1);
      expect(await page.locator('html').getAttribute('lang')).toBe('en');
      expect(await page.title()).toBe((await page.locator('h1').textContent())?.trim());
      // The style is the page's own and in force: an inline style that the policy refused would leave a serif face.
      expect(await page.evaluate('getComputedStyle(document.body).fontFamily')).toMatch(/^system-ui/);
    };
    // Whatever it would fetch, it has fetched by then.
    await visit(name, { viewport: { width: 1280, height: 800 } }, look, 'networkidle');
  });

  test('has no horizontal scroll at any width, and a contrast of 4.5 or more everywhere in both schemes', async () => {
    await visit(name, {}, async (page) => {
      for (const width of [320, 390, 1280]) {
        await page.setViewportSize({ width, height: 844 });
        const widths = await page.evaluate(
          '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
        );
        expect(widths).toEqual([width, width]);
      }
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme });
        const all = await contrasts(page);
        expect(all.length).toBeGreaterThan(5);
        expect(
          all.filter(({ ratio }) => ratio < 4.5),
          colorScheme,
        ).toEqual([]);
      }
    });
  });
});

test('the two schemes differ', async () => {
  const grounds = new Set<unknown>();
  for (const colorScheme of schemes) {
    const ground = (page: Page) => page.evaluate('getComputedStyle(document.body).backgroundColor');
    grounds.add(await visit('error-522', { colorScheme }, ground));
  }
  expect(grounds.size).toBe(2);
});

test('a hostile Host is text, in the order in which it was sent', async () => {
  await visit('hostile', {}, async (page) => {
    expect(await page.locator('bdi').innerText()).toBe(
      `${hostileHost.slice(0, 253).replace('\u202E', '\\u{202e}').replace('\u200B', '\\u{200b}')}…`,
    );
    expect(await page.locator('script, img, [onerror]').count()).toBe(0);
  });
});

test('the page tells the Ray ID, the time and when to try again', async () => {
  await visit('hostile', {}, async (page) => {
    const text = await page.locator('main').innerText();
    for (const part of [
      'Error 1015',
      '8f3c1a9be2d4706f',
      '2026-01-15 09:30:00 UTC',
      'in 17 seconds, at 09:30:17 UTC',
    ]) {
      expect(text).toContain(part);
    }
  });
});

test('the reference links from the index to a page and back', async () => {
  await visit('errors', {}, async (page) => {
    await page.getByRole('link', { name: 'Invalid TLS certificate at the origin' }).click();
    expect(page.url()).toBe(`${origin}/errors/526`);
    await page.getByRole('link', { name: 'All edge errors' }).click();
    expect(page.url()).toBe(`${origin}/errors`);
  });
});

test.each([
  { name: 'error-522', sizes: ['desktop', 'phone'] },
  { name: 'error-1020', sizes: ['phone'] },
] as const)('pictures of $name', async ({ name, sizes }) => {
  await visit(name, {}, async (page) => {
    for (const size of sizes) {
      await page.setViewportSize(screenshotSizes[size]);
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme });
        await takeScreenshot(page, `${name}-${size}-${colorScheme}`);
      }
    }
  });
});
