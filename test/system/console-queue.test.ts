// The buttons of a destination in a real browser: they ask for as many as they then take, and never for what has failed for good.

import type { Browser, Locator } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser, screenshotSizes } from '../support/browser-pages.ts';
import { accessFaults, openConsolePage } from '../support/console-pages.ts';
import { testToken } from '../support/postern-process.ts';
import { type RefusingHop, startRefusingHop } from '../support/refusing-hop.ts';
import { type Reloadable, sha256Of, startReloadable } from '../support/reloadable.ts';
import { requirePrograms } from './programs.ts';

/** The token of a credential that may change things of its account, and nothing else. */
const deskToken = 'desk-token-desk-token-desk-token-desk-token';

let gateway: Reloadable;
let browser: Browser;
let hop: RefusingHop;
let origin: string;

beforeAll(async () => {
  requirePrograms('chromium-headless-shell');
  hop = await startRefusingHop({
    later: { rcpt: '450 4.2.1 Mailbox busy' },
    no: { rcpt: '550 5.7.1 Not wanted here' },
  });
  gateway = await startReloadable((config) => {
    config.routes.unshift({
      ...{ name: 'hop', type: 'smarthost', url: `smtp://127.0.0.1:${hop.port}`, tls: 'none' },
      match: { recipientDomains: ['hop.example'] },
    });
    const desk = { name: 'desk', scopes: ['console:edit'], tokenSha256: sha256Of(deskToken) };
    config.accounts.find(({ name }) => name === 'dev')?.credentials.push(desk);
  });
  origin = `http://127.0.0.1:${gateway.postern.ports['http']}`;
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  await gateway?.postern.cleanUp();
  hop?.close();
});

/** Asks the API as the account. */
async function call<Result>(method: string, path: string, body?: object): Promise<Result> {
  const answer = await fetch(`${origin}/client/v4/accounts/dev/email/sending/${path}`, {
    method,
    headers: { authorization: `Bearer ${testToken}`, 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return ((await answer.json()) as { readonly result: Result }).result;
}

async function send(to: string, count: number): Promise<void> {
  for (let at = 0; at < count; at += 1)
    await call('POST', 'send', { from: 'shop@example.com', to, subject: `${to} ${at}`, text: 'x' });
}

/** How many recipients are in each state, by the queue's own words. */
async function states(): Promise<Record<string, number>> {
  const rows = await call<readonly { readonly state: string }[]>('GET', 'queue/messages?per_page=100');
  return Object.fromEntries(
    Map.groupBy(rows, ({ state }) => state)
      .entries()
      .map(([state, each]) => [state, each.length]),
  );
}

test('a destination is tried, held and released by the numbers that its dialogs ask for', async () => {
  await send('later@hop.example', 3);
  await send('no@hop.example', 2);
  await expect.poll(states, { timeout: 20_000 }).toEqual({ deferred: 3, failed: 2 });
  const opened = await openConsolePage(browser, origin, { viewport: screenshotSizes.desktop, token: deskToken });
  const { page, open, complaints, close } = opened;
  try {
    await open('/queue');
    const group = page.getByRole('table', { name: 'Destinations' }).getByRole('row', { name: 'Route hop' });
    const cell = (at: number): Locator => group.getByRole('cell').nth(at);
    const press = async (verb: string, asked: number): Promise<void> => {
      await page.getByRole('button', { name: `${verb} all: Route hop` }).click();
      await page.getByRole('button', { name: `${verb} ${asked} recipients`, exact: true }).click();
    };
    await expect.poll(() => cell(2).textContent(), { timeout: 20_000 }).toBe('3');
    await press('Try', 3);
    await page.getByText('3 recipients tried at once.', { exact: true }).waitFor();
    expect(await states()).toMatchObject({ failed: 2 });
    await press('Hold', 3);
    await page.getByText('3 recipients held. So is what comes for it from now on.', { exact: true }).waitFor();
    await group.getByText(/^All for this destination is held since .* by console dev\/desk$/).waitFor();
    expect([await cell(2).textContent(), await cell(3).textContent()]).toEqual(['3', '3']);
    expect(await states()).toEqual({ held: 3, failed: 2 });
    expect(await page.getByRole('button', { name: 'Try all: Route hop' }).count()).toBe(0);
    expect(await accessFaults(page)).toEqual([]);
    // The queue moves while the dialog is open.
    await page.getByRole('button', { name: 'Release all: Route hop' }).click();
    await send('later@hop.example', 1);
    await expect.poll(states, { timeout: 20_000 }).toMatchObject({ held: 4 });
    await page.getByRole('button', { name: 'Release 3 recipients', exact: true }).click();
    await page.getByText(/^4 recipients released\. 3 were shown: the queue has moved meanwhile/).waitFor();
    await group.getByText('All for this destination is held').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Hold all: Route hop' }).waitFor();
    expect(await states()).not.toHaveProperty('held');
    // Of all that are chosen, each button takes what it can be done to.
    await page.getByRole('checkbox', { name: 'Choose all 6 that are loaded' }).check();
    const bulk = page.getByRole('region', { name: 'Chosen messages' });
    await bulk.getByRole('button', { name: 'Hold', exact: true }).click();
    await page.getByRole('button', { name: 'Hold 4 messages', exact: true }).click();
    await page.getByText('4 messages held.', { exact: true }).waitFor();
    expect(await states()).toEqual({ held: 4, failed: 2 });
    await bulk.getByRole('button', { name: 'Try failed', exact: true }).click();
    await page.getByRole('button', { name: 'Try 2 messages', exact: true }).click();
    await page.getByText('2 messages tried at once.', { exact: true }).waitFor();
    expect(complaints).toEqual([]);
  } finally {
    await close();
  }
});
