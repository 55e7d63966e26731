// The live list in a real browser: rows are gathered before they are drawn, and the list stays short however many come.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser, screenshotSizes } from '../support/browser-pages.ts';
import { openConsolePage } from '../support/console-pages.ts';
import { testToken } from '../support/postern-process.ts';
import { type Reloadable, startReloadable } from '../support/reloadable.ts';
import { requirePrograms } from './programs.ts';

let gateway: Reloadable;
let browser: Browser;
let origin: string;

beforeAll(async () => {
  requirePrograms('chromium-headless-shell');
  gateway = await startReloadable();
  origin = `http://127.0.0.1:${gateway.postern.ports['http']}`;
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  await gateway?.postern.cleanUp();
});

async function send(subject: string): Promise<void> {
  const answer = await fetch(`${origin}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { authorization: `Bearer ${testToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ from: 'shop@example.com', to: 'a@example.net', subject, text: 'x' }),
  });
  expect(answer.status).toBe(200);
}

/** Listens in the page to the same stream. Once `heard` has seen messages delivered, the page has been told of them, too. */
async function listen(page: Page): Promise<(count: number) => Promise<void>> {
  await page.evaluate(`new Promise((open) => {
    window.heard = new Set();
    const source = new EventSource('/client/v4/accounts/dev/email/sending/live');
    source.addEventListener('open', open);
    source.addEventListener('row', ({ data }) => {
      const { id, outcome } = JSON.parse(data);
      if (outcome === 'delivered') heard.add(id);
    });
  })`);
  return async (count) => await expect.poll(() => page.evaluate('heard.size'), { timeout: 60_000 }).toBe(count);
}

test('rows that come together are drawn together', async () => {
  const { page, open, complaints, close } = await openConsolePage(browser, origin, {
    viewport: screenshotSizes.desktop,
  });
  try {
    await send('Before');
    await page.clock.install();
    await open('/messages');
    await page.locator('.live.on').waitFor();
    await page.getByRole('link', { name: 'Before' }).waitFor();
    const heard = await listen(page);
    // Soon: a longer time would be taken for silence of the stream, and the list would be looked up anew.
    await page.clock.pauseAt(new Date(Date.now() + 2000));
    for (const name of ['One', 'Two', 'Three']) await send(name);
    await heard(3);
    const subjects = page.locator('a.row-link');
    expect(await subjects.allTextContents()).toEqual(['Before']);
    await page.evaluate(`window.draws = 0;
      new MutationObserver(() => draws += 1).observe(document.querySelector('table.list tbody'), { childList: true })`);
    await page.clock.runFor(250);
    await expect.poll(() => subjects.allTextContents()).toEqual(['Three', 'Two', 'One', 'Before']);
    expect(await page.evaluate('draws')).toBe(1);
    expect(complaints).toEqual([]);
  } finally {
    await close();
  }
});

test('the list has 200 rows at most; new ones are counted where the reader has scrolled, and shown when asked for', async () => {
  const { page, open, complaints, close } = await openConsolePage(browser, origin, {
    viewport: screenshotSizes.desktop,
  });
  try {
    for (let at = 0; at < 60; at += 1) await send(`Old ${at}`);
    await open('/messages');
    await page.locator('.live.on').waitFor();
    const heard = await listen(page);
    const subjects = page.locator('a.row-link');
    // On a busy machine the stream may be open before the rows are there, and an empty page scrolls nowhere.
    await page.getByRole('link', { name: 'Old 59' }).waitFor();
    await page.evaluate('scrollTo(0, 600)');
    for (let at = 0; at < 230; at += 1) await send(`New ${at}`);
    await heard(230);
    await page.getByRole('button', { name: '230 new messages' }).waitFor();
    expect(await subjects.first().textContent()).toBe('Old 59');
    await page.getByRole('button', { name: '230 new messages' }).click();
    await expect.poll(() => subjects.first().textContent()).toBe('New 229');
    // More came than the list has room for: it has no gap in its midst.
    const newest = (last: number) => Array.from({ length: 200 }, (_, at) => `New ${last - at}`);
    await expect.poll(() => subjects.allTextContents()).toEqual(newest(229));
    for (let at = 230; at < 430; at += 1) await send(`New ${at}`);
    await heard(430);
    await expect.poll(() => subjects.first().textContent()).toBe('New 429');
    await expect.poll(() => subjects.allTextContents()).toEqual(newest(429));
    await page.getByRole('link', { name: 'Go on with older ones' }).click();
    await page.getByText('Looking at the past').waitFor();
    await expect.poll(() => subjects.allTextContents()).toContain('New 229');
    expect(complaints).toEqual([]);
  } finally {
    await close();
  }
});
