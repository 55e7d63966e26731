// Pages in a real browser, for the system tests: what the browser complains of and asks for, contrast, screenshots.

import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Browser, chromium, type Page, type ViewportSize } from 'playwright-core';
import { expect } from 'vitest';

/** What the browser said and asked for while a page was open. */
export interface Heard {
  readonly complaints: string[];
  readonly requests: string[];
}

/**
 * Starts the Chromium of Debian (.ci/packages) without a window round its pages; the caller closes it. With one each page
 * costs three times as much, and nothing that is looked at differs.
 */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: '/usr/bin/chromium-headless-shell',
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
}

/** What a page is looked at with; the viewport is 1280 by 720 CSS pixels where it is absent. */
export interface LookOptions {
  readonly viewport?: ViewportSize;
  readonly colorScheme?: 'light' | 'dark';
}

/** The page of each browser in which `visitPage` opens one URL after another: a window of its own costs more than most looks. */
const windows = new WeakMap<Browser, Promise<Page>>();

async function windowOf(browser: Browser): Promise<Page> {
  const window = windows.get(browser) ?? browser.newPage();
  windows.set(browser, window);
  return await window;
}

/**
 * Opens `url` and hands the page to `look` with what the browser complained of and asked for. One visit at a time: the next one
 * finds the same window, with another document.
 */
export async function visitPage<Seen>(
  browser: Browser,
  url: string,
  { viewport = { width: 1280, height: 720 }, colorScheme = 'light' }: LookOptions,
  look: (page: Page, heard: Heard) => Promise<Seen>,
  waitUntil: 'load' | 'networkidle' = 'load',
): Promise<Seen> {
  const page = await windowOf(browser);
  // Without it a URL that differs by its fragment alone would be the same document.
  await page.goto('about:blank');
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme });
  const heard: Heard = { complaints: [], requests: [] };
  page.on('pageerror', (error) => heard.complaints.push(error.message));
  page.on('request', (request) => heard.requests.push(request.url()));
  page.on('dialog', (dialog) => {
    heard.complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    // The browser remarks on the status of the page itself.
    const ofItself = message.location().url === url && message.text().includes('responded with a status');
    if (!ofItself) heard.complaints.push(message.text());
  });
  try {
    await page.goto(url, { waitUntil });
    return await look(page, heard);
  } finally {
    for (const heardOf of ['pageerror', 'request', 'dialog', 'console']) page.removeAllListeners(heardOf);
  }
}

/** Every element with text of its own, with its contrast after WCAG 2.2 against the colour painted behind it. */
export function contrasts(page: Page): Promise<readonly { readonly text: string; readonly ratio: number }[]> {
  return page.evaluate(`(() => {
    const channels = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
    const luminance = (colour) => {
      const [red, green, blue] = channels(colour).map((channel) => {
        const part = channel / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const behind = (element) => {
      if (!element) return 'rgb(255, 255, 255)';
      const colour = getComputedStyle(element).backgroundColor;
      return channels(colour)[3] === 0 ? behind(element.parentElement) : colour;
    };
    return [...document.body.querySelectorAll('*')]
      .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.nodeValue.trim() !== ''))
      .map((element) => {
        const pair = [luminance(getComputedStyle(element).color), luminance(behind(element))].sort((a, b) => b - a);
        return { text: element.textContent.slice(0, 40), ratio: (pair[0] + 0.05) / (pair[1] + 0.05) };
      });
  })()`);
}

const screenshots = resolve(import.meta.dirname, '../../docs/screenshots');

/** Sizes of the screenshots, in CSS pixels. */
export const screenshotSizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } } as const;

/** Takes a screenshot of the viewport and checks that it is one; with UPDATE_SCREENSHOTS=1 it goes to docs/screenshots. */
export async function takeScreenshot(page: Page, name: string): Promise<void> {
  const writes = process.env['UPDATE_SCREENSHOTS'] === '1';
  if (writes) mkdirSync(screenshots, { recursive: true });
  const picture = await page.screenshot(writes ? { path: join(screenshots, `${name}.png`) } : {});
  // PNG, 3rd edition, §11.2.1: width and height stand behind the signature and the length and type of IHDR.
  const { width, height } = page.viewportSize() ?? { width: 0, height: 0 };
  expect([picture.readUInt32BE(16), picture.readUInt32BE(20)]).toEqual([width, height]);
  expect(picture.length).toBeGreaterThan(5000);
}
