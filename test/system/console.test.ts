// The console in a real browser on a running gateway: the main way through each page, on a desktop and a phone, light and dark,
// and mail that wants to break it. UPDATE_SCREENSHOTS=1 writes docs/screenshots anew; then look at them.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { launchBrowser, screenshotSizes, takeScreenshot } from '../support/browser-pages.ts';
import { hostileMessage, sendByRest, swaks } from '../support/console-mail.ts';
import { accessFaults, type ConsolePage, openConsolePage, sideways } from '../support/console-pages.ts';
import { testToken } from '../support/postern-process.ts';
import { type Reloadable, startReloadable } from '../support/reloadable.ts';
import { requirePrograms } from './programs.ts';

const { desktop, phone } = screenshotSizes;

let gateway: Reloadable;
let browser: Browser;
let origin: string;
let hostileId = '';

async function journal(query: string): Promise<readonly { readonly id: string; readonly outcome: string }[]> {
  const answer = await fetch(`${origin}/client/v4/accounts/dev/email/sending/journal?${query}`, {
    headers: { authorization: `Bearer ${testToken}` },
  });
  return ((await answer.json()) as { result: { id: string; outcome: string }[] }).result;
}

/** Asks until there is what a test waits for: the journal is written a moment after the reply. */
async function waitFor<Found>(find: () => Promise<Found | undefined>): Promise<Found> {
  for (let tries = 0; tries < 100; tries += 1) {
    const found = await find();
    if (found !== undefined) return found;
    await new Promise((wait) => setTimeout(wait, 100));
  }
  throw new Error('It did not come within 10 s');
}

beforeAll(async () => {
  requirePrograms('chromium-headless-shell', 'swaks');
  gateway = await startReloadable((config) => {
    // Nothing listens there: what goes to down.example waits.
    const down = {
      name: 'down',
      type: 'smarthost',
      url: 'smtp://127.0.0.1:9',
      match: { recipientDomains: ['down.example'] },
    };
    config.routes.unshift(down);
  });
  origin = `http://127.0.0.1:${gateway.postern.ports['http']}`;
  browser = await launchBrowser();
  const file = join(gateway.postern.folder, 'hostile.eml');
  writeFileSync(file, hostileMessage());
  await swaks(gateway.postern, ['--data', `@${file}`]);
  await swaks(gateway.postern, ['--header', 'Subject: Weekly report', '--body', 'All is well.']);
  hostileId = await waitFor(async () => (await journal('search=taken'))[0]?.id);
});

afterAll(async () => {
  await browser?.close();
  await gateway?.postern.cleanUp();
});

/** Opens a signed-in page for one test and closes it afterwards. */
async function withPage(look: (opened: ConsolePage) => Promise<void>, options = {}): Promise<void> {
  const opened = await openConsolePage(browser, origin, { viewport: desktop, ...options });
  try {
    await look(opened);
    expect(opened.complaints).toEqual([]);
    expect(opened.requests.filter((url) => !url.startsWith(`${origin}/`) && !url.startsWith('data:'))).toEqual([]);
  } finally {
    await opened.close();
  }
}

test('sign in, find what was refused a second ago, read why, copy the cure, apply it, and see the next one accepted', async () => {
  await withPage(
    async ({ page, open }) => {
      await open('/messages');
      expect(await page.locator('h1').textContent()).toBe('Sign in to the console');
      await page.getByLabel('Token').fill('not-a-token');
      await page.keyboard.press('Enter');
      await page.getByText('No account has this token').waitFor();
      await page.getByLabel('Token').fill(testToken);
      await page.keyboard.press('Enter');
      // It goes on to the page of the URL, live.
      await page.locator('.live.on').waitFor();
      const refused = ['--header', 'Subject: Order 4711', '--header', 'User-Agent: OldShop/1.2', '--body', 'x'];
      expect(await swaks(gateway.postern, refused)).toContain('E_HEADER_NOT_ALLOWED');
      await page.getByRole('link', { name: 'Order 4711' }).click();
      await page.getByText('User-Agent is not on the allowlist').first().waitFor();
      // The focus is where the page begins, for who cannot see it.
      await expect.poll(() => page.evaluate('document.activeElement.textContent')).toContain('Order 4711');
      await page.getByRole('button', { name: 'Copy the lines' }).click();
      await page.getByText('Copied').waitFor();
      const lines: string = await page.evaluate('navigator.clipboard.readText()');
      gateway.change(({ accounts }) => Object.assign(accounts[0]?.credentials[0] ?? {}, parse(lines)));
      expect((await gateway.reload()).code).toBe(0);
      await page.goBack();
      await page.locator('.live.on').waitFor();
      expect(await swaks(gateway.postern, refused)).toMatch(/^250 /);
      const row = page.getByRole('row').filter({ hasText: 'Order 4711' }).first();
      await row.getByText(/Accepted|Delivered/).waitFor();
    },
    { token: null },
  );
});

test('refusals are grouped by their cause with the cure, and lead to the messages', async () => {
  await swaks(gateway.postern, ['--header', 'Subject: Urgent one', '--header', 'Precedence: urgent', '--body', 'x']);
  await withPage(async ({ page, open }) => {
    await open('/refusals');
    await swaks(gateway.postern, ['--header', 'Received: by relay.example', '--body', 'x']);
    const causes = page.getByRole('table', { name: 'Causes of refusals' });
    const cause = (name: string) => causes.getByRole('button', { name, exact: true });
    await cause('Received').waitFor();
    // Other orders and a search stand in the URL, as every filter does.
    await causes.getByRole('button', { name: 'Header' }).click();
    await causes.locator('th[aria-sort=ascending]').getByText('Header').waitFor();
    const names = await causes.locator('button.opener').allTextContents();
    expect(names).toEqual(names.toSorted((one, two) => (one.toLowerCase() < two.toLowerCase() ? -1 : 1)));
    await page.getByRole('searchbox', { name: 'Search' }).fill('precedence');
    await expect.poll(() => cause('Received').count()).toBe(0);
    expect(new URL(page.url()).searchParams.get('by')).toBe('cause');
    await cause('Precedence').click();
    await causes.getByText(/^Cure: in the (?:program|configuration)$/).waitFor();
    await causes.getByText('; the configuration is valid with them:').waitFor();
    await page.getByRole('button', { name: 'Would it pass with another configuration?' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Text of the configuration').fill('smtp: [');
    await dialog.getByRole('button', { name: 'Judge again' }).click();
    await dialog.getByText(/postern\.yaml:1:/).waitFor();
    await dialog.getByLabel('Text of the configuration').fill(JSON.stringify(gateway.config));
    await dialog.getByRole('button', { name: 'Judge again' }).click();
    await dialog
      .getByText(/^Of [1-9]\d* refused messages? \d+ would pass, of [1-9]\d* accepted messages? \d+ would not\.$/)
      .first()
      .waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await causes.getByRole('link', { name: /^Show/ }).click();
    await page.getByRole('link', { name: 'Urgent one' }).waitFor();
    expect(new URL(page.url()).searchParams.get('field')).toBe('Precedence');
    // The filters are those of the URL: taking one away changes it, and back brings it again.
    await page.getByRole('button', { name: 'Take the filter Header away' }).click();
    await expect.poll(() => new URL(page.url()).searchParams.get('field')).toBe(null);
    await page.goBack();
    await page.getByRole('button', { name: 'Take the filter Header away' }).waitFor();
  });
});

test('a message tells its verdicts, both sides, its history and signatures, and is sent again', async () => {
  const [sent] = await journal('search=weekly');
  await withPage(async ({ page, open }) => {
    await open(`/messages/${sent?.id}`);
    await page.getByRole('row').filter({ hasText: 'X-Mailer' }).getByText('Kept').waitFor();
    await page.getByRole('link', { name: 'As it came and left' }).click();
    // A signature that was added is long and the same for every message: it is shown when it is asked for.
    const signature = page.locator('.diff .added', { hasText: 'DKIM-Signature' });
    await page.getByRole('button', { name: /^Show \d+ added signature lines?$/ }).waitFor();
    expect(await signature.count()).toBe(0);
    await page
      .getByRole('button', { name: /added signature line/ })
      .first()
      .click();
    await signature.first().waitFor();
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByText('Save as it left').click()]);
    expect(download.suggestedFilename()).toMatch(/\.eml$/);
    await page.getByRole('link', { name: 'Delivery' }).click();
    await page.locator('.history').getByText('delivered').first().waitFor();
    await page.getByRole('link', { name: 'Dialogue' }).click();
    await page.locator('.dialogue').getByText('EHLO').first().waitFor();
    expect(await page.locator('.dialogue').textContent()).not.toContain(testToken);
    await page.getByRole('link', { name: 'DKIM' }).click();
    await page.getByText('Valid').first().waitFor();
    await page.getByRole('button', { name: 'Send again' }).click();
    await page.getByRole('button', { name: 'Send 1 message' }).click();
    await expect.poll(() => page.url()).not.toContain(sent?.id);
    await page
      .locator('h1')
      .getByText(/Delivered|Accepted/)
      .waitFor();
  });
});

test('one box finds pages, messages and addresses, by the keyboard alone', async () => {
  const [sent] = await journal('search=weekly');
  await withPage(async ({ page, open }) => {
    await open('/');
    const find = async (text: string, choose = ''): Promise<void> => {
      await page.keyboard.press('Control+k');
      await page.getByRole('dialog', { name: 'Find' }).waitFor();
      await page.keyboard.type(text);
      if (choose !== '') await page.keyboard.press(choose);
      await page.keyboard.press('Enter');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    };
    await find(sent?.id ?? '');
    await page.getByRole('heading', { name: 'Weekly report' }).or(page.getByText('Weekly report')).first().waitFor();
    expect(page.url()).toContain(sent?.id);
    await find('suppr');
    await expect.poll(() => new URL(page.url()).pathname).toBe('/console/suppressions');
    await find('weekly');
    await page.getByRole('link', { name: 'Weekly report' }).first().waitFor();
    await find('rcpt@example.net', 'ArrowDown');
    await expect.poll(() => page.url()).toContain('/console/suppressions?q=rcpt%40example.net');
  });
});

test('outcomes are counted and chosen with one press, and a minute of the plot leads to its messages', async () => {
  await withPage(async ({ page, open }) => {
    await open('/messages');
    const refused = page.getByRole('group', { name: /^Outcomes/ }).getByRole('button', { name: /^Refused/ });
    await expect.poll(async () => await refused.textContent()).toMatch(/^Refused\d+$/);
    await refused.click();
    await expect.poll(() => new URL(page.url()).searchParams.get('outcome')).toBe('refused');
    await refused.click();
    await expect.poll(() => new URL(page.url()).searchParams.get('outcome')).toBe(null);
    await open('/');
    await page
      .getByText(/^[\d,]+ ?messages?/)
      .first()
      .waitFor();
    await page.locator('figure.plot').first().getByText('As a table').click();
    const [minute] = await page.locator('figure.plot').first().getByRole('link').all();
    await minute?.click();
    await expect.poll(() => new URL(page.url()).pathname).toBe('/console/messages');
    const { searchParams } = new URL(page.url());
    expect(Date.parse(searchParams.get('until') ?? '') - Date.parse(searchParams.get('span') ?? '')).toBe(60_000);
    await page.goBack();
    await page.locator('.plot-room.linked').first().click();
    await expect.poll(() => new URL(page.url()).pathname).toBe('/console/messages');
  });
});

/** Every page, and whether it is one of those whose pictures stand in docs/screenshots. */
const paths = [
  ['/', 'overview'],
  ['/messages', 'messages'],
  ['/messages/ID', 'message'],
  ['/refusals', 'refusals'],
  ...['/queue', '/try', '/suppressions', '/domains', '/tokens', '/webhooks', '/edge', '/proxy', '/settings'].map(
    (path) => [path, undefined] as const,
  ),
] as const;

/** Waits until nothing is under way any more. */
async function calm(page: Page): Promise<void> {
  await expect.poll(() => page.locator('.progress, .progress-room').count()).toBe(0);
}

test.runIf(process.env['UPDATE_SCREENSHOTS'] === '1').each(['light', 'dark'] as const)(
  'pictures in %s',
  async (colorScheme) => {
    const [refused] = await journal('outcome=refused');
    for (const [size, viewport] of Object.entries(screenshotSizes)) {
      await withPage(
        async ({ page, open }) => {
          for (const [path, picture] of paths) {
            if (picture === undefined) continue;
            await open(path.replace('ID', refused?.id ?? ''));
            await calm(page);
            await takeScreenshot(page, `console-${picture}-${size}-${colorScheme}`);
          }
        },
        { viewport, colorScheme },
      );
    }
  },
);

test('of what waits, twenty are chosen and dropped, after a question that says how many', async () => {
  for (let count = 0; count < 21; count += 1) {
    const body = { from: 'shop@example.com', to: `user${count}@down.example`, subject: `Waiting ${count}`, text: 'x' };
    expect(await sendByRest(origin, body)).toBe(200);
  }
  await withPage(async ({ page, open }) => {
    await open('/queue');
    const boxes = page.getByRole('checkbox', { name: /^Choose the message to/ });
    await expect.poll(() => boxes.count()).toBe(21);
    await page.getByRole('checkbox', { name: 'Choose all 21' }).check();
    await boxes.first().uncheck();
    await page.getByRole('button', { name: 'Drop' }).click();
    const dialog = page.getByRole('dialog', { name: 'Drop 20 messages?' });
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    expect(await boxes.count()).toBe(21);
    await page.getByRole('button', { name: 'Drop' }).click();
    await dialog.getByRole('button', { name: 'Drop 20 messages' }).click();
    await page.getByText('20 messages dropped.').waitFor();
    await expect.poll(() => boxes.count()).toBe(1);
  });
});

test('a message is tried while it is typed, and sent only on demand', async () => {
  await withPage(async ({ page, open }) => {
    await open('/try');
    await page.getByRole('button', { name: 'Fill in an example' }).click();
    await page.getByText(/It would be refused: \d reasons?\./).waitFor();
    const field = page.getByLabel('Message', { exact: true });
    const before = (await journal('per_page=1'))[0]?.id;
    const example = await field.inputValue();
    await field.fill(
      example
        .replace('urgent', 'bulk')
        .replace(/^User-Agent.*\n/m, '')
        .replace('Your order', 'Tried first'),
    );
    await page.getByText('It would be accepted and signed.').waitFor();
    await page.getByText('DKIM-Signature: v=1').waitFor();
    expect((await journal('per_page=1'))[0]?.id).toBe(before);
    await page.getByRole('button', { name: 'Send it' }).click();
    await page.getByRole('button', { name: 'Send 1 message' }).click();
    await page.getByText('It is accepted as').waitFor();
    await waitFor(async () => (await journal('search=tried'))[0]);
  });
});

test('a verdict comes while one types, without a request, and without a gateway too', async () => {
  await withPage(async ({ page, context, open }) => {
    const asked: string[] = [];
    page.on('request', (request) => void asked.push(new URL(request.url()).pathname));
    const isOf = (part: string) => asked.filter((path) => path.includes(part));
    await open('/messages');
    await page.locator('.mark').first().waitFor();
    expect(isOf('/policy/')).toEqual([]);
    await open('/try');
    const field = page.getByLabel('Message', { exact: true });
    // Headers that no cure of the tests before has allowed.
    const example = 'From: shop@example.com\nTo: you@example.net\nSubject: x\nNo-Such: 1\nImportance: urgent\n\nHi\n';
    await field.fill(example);
    await page.getByText('It would be refused: 2 reasons.').waitFor();
    await page.getByRole('row').filter({ hasText: 'No-Such' }).getByText('On no list').waitFor();
    await field.fill(example.replace('shop@example.com', 'shop@elsewhere.example'));
    await page.getByText('is not a sending domain of account dev').first().waitFor();
    expect([isOf('/policy/judge.js').length, isOf('/rehearse')]).toEqual([1, []]);
    await context.setOffline(true);
    await field.fill(example.replace('urgent', 'high'));
    await page.getByText('It would be refused: 1 reason.').waitFor();
    await field.fill(example.replace('urgent', 'HIGH').replace('No-Such', 'X-Such'));
    await page.getByText('It would be accepted and signed.').waitFor();
    await page.getByText('This is judged in the browser.').waitFor();
    await page.getByText('Importance: high').first().waitFor();
    await context.setOffline(false);
  });
});

test('an address is put on the suppression list and taken off, a token made and revoked, and who signs out is out', async () => {
  await withPage(async ({ page, context, open }) => {
    await open('/suppressions');
    await page.getByText('Nobody is suppressed').waitFor();
    await page.getByRole('button', { name: 'Add an address' }).click();
    await page.getByLabel('Address', { exact: true }).fill('no address');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByRole('alert').waitFor();
    await page.getByLabel('Address', { exact: true }).fill('gone@example.net');
    await page.keyboard.press('Enter');
    await page.getByRole('row').filter({ hasText: 'gone@example.net' }).getByRole('button').click();
    await page.getByRole('button', { name: 'Remove 1 address' }).click();
    await page.getByText('Nobody is suppressed').waitFor();
    await page.getByRole('link', { name: 'Tokens' }).click();
    await page.getByRole('button', { name: 'Make a token' }).click();
    await page.getByLabel('What it is for').fill('A test');
    await page.getByRole('button', { name: 'Make the token' }).click();
    expect((await page.locator('.secret code').textContent())?.length).toBeGreaterThan(30);
    await page.getByRole('button', { name: 'I have copied it' }).click();
    await page.getByRole('row').filter({ hasText: 'A test' }).getByRole('button').click();
    await page.getByRole('button', { name: 'Revoke 1 token' }).click();
    await page.getByText('There is no token').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to the console' }).waitFor();
    const answer = await context.request.get(`${origin}/client/v4/accounts/dev/email/sending/suppressions`);
    expect(answer.status()).toBe(401);
  });
});

test('of hostile mail nothing runs, nothing is asked for, and the layout holds', async () => {
  await withPage(async ({ page, open }) => {
    const holds = async (): Promise<void> => {
      for (const viewport of [phone, desktop]) {
        await page.setViewportSize(viewport);
        expect(await sideways(page)).toBeLessThanOrEqual(0);
      }
    };
    await open('/messages');
    await page.locator('.mark', { hasText: 'RLO' }).first().waitFor();
    await holds();
    await open(`/messages/${hostileId}`);
    await page.getByRole('row').filter({ hasText: 'X-Attack' }).getByText('onerror=alert(1)').waitFor();
    await holds();
    await open(`/messages/${hostileId}?tab=compare`);
    await page.locator('.diff .added').first().waitFor();
    await holds();
    await open(`/messages/${hostileId}?tab=preview`);
    const frame = page.frameLocator('iframe.preview');
    await frame.getByText('A harmless sentence.').waitFor();
    await frame.getByText('Press me').click();
    await frame.getByText('Or me').click();
    const held =
      'script, img, svg, iframe, object, embed, video, form, input, link, meta, base, style, [href], [src], [onload]';
    expect(await frame.locator(held).count()).toBe(0);
    // Its own style is kept where it loads nothing.
    const styles = await page.evaluate(`(() => {
          const { contentDocument } = document.querySelector('iframe.preview');
          const { color, backgroundImage } = getComputedStyle(contentDocument.querySelector('p'));
          return [color, backgroundImage];
        })()`);
    expect(styles).toEqual(['rgb(170, 51, 51)', 'none']);
    await page.locator('.mark', { hasText: 'RLO' }).last().waitFor();
    await holds();
    await page.getByRole('button', { name: 'Text' }).click();
    await page.getByRole('button', { name: 'Show more' }).click();
    await holds();
    await open('/try');
    const field = page.getByLabel('Message', { exact: true });
    await field.fill(`From: shop@example.com\nTo: you@example.net\nSubject: x\n\n${'L'.repeat(1_000_000)}\n`);
    await page.getByText('It would be accepted and signed.').waitFor();
    await page.getByRole('button', { name: 'Show more' }).first().click();
    await holds();
    expect(await page.title()).not.toBe('taken');
  });
});

test('no page has a serious fault of access, scrolls sideways, or fails, on a desktop in light and a phone in dark', async () => {
  const [refused] = await journal('outcome=refused');
  await withPage(
    async ({ page, open }) => {
      for (const [path] of paths) {
        await page.emulateMedia({ colorScheme: 'light' });
        await page.setViewportSize(desktop);
        await open(path.replace('ID', refused?.id ?? ''));
        await calm(page);
        expect([path, await page.locator('.problem').allTextContents()]).toEqual([path, []]);
        expect([path, await accessFaults(page)]).toEqual([path, []]);
        for (const width of [1600, desktop.width, 1100, 900, 769]) {
          await page.setViewportSize({ ...desktop, width });
          expect([path, width, await sideways(page)]).toEqual([path, width, 0]);
        }
        await page.emulateMedia({ colorScheme: 'dark' });
        await page.setViewportSize(phone);
        expect([path, await sideways(page)]).toEqual([path, 0]);
        // What the page says is the same; how it is painted and where it stands is not.
        expect([path, await accessFaults(page, ['color-contrast', 'target-size'])]).toEqual([path, []]);
      }
    },
    { colorScheme: 'light', reducedMotion: 'reduce' },
  );
});

test('while the gateway does not answer, a page keeps what it shows, and says so', async () => {
  await withPage(async ({ page, context, open }) => {
    await page.clock.install();
    await open('/');
    await page.getByRole('heading', { name: 'Messages a minute' }).waitFor();
    await context.setOffline(true);
    await page.clock.runFor(11_000);
    await page.getByText('The gateway does not answer. This page is as it was at').waitFor();
    expect(await page.getByRole('heading', { name: 'Messages a minute' }).count()).toBe(1);
    await context.setOffline(false);
    await page.clock.runFor(11_000);
    await expect.poll(() => page.locator('.silence').count()).toBe(0);
  });
});

test('the keyboard alone skips the list of pages, opens one, and the focus is at its title', async () => {
  await withPage(async ({ page, open }) => {
    await open('/suppressions');
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip the list of pages');
    await page.keyboard.press('Tab');
    for (let presses = 0; presses < 12; presses += 1) {
      await page.keyboard.press('Tab');
      if ((await page.evaluate('document.activeElement.textContent')) === 'Domains') break;
    }
    await page.keyboard.press('Enter');
    const focused = '`${document.activeElement.tagName} ${document.activeElement.textContent}`';
    await expect.poll(() => page.evaluate(focused)).toBe('H1 Domains');
    expect(await page.title()).toBe('Domains · Postern');
  });
});

test('a session that ends while a page is open leads to signing in, and back to that page; all accounts can be looked at', async () => {
  await withPage(async ({ page, context, open }) => {
    await open('/messages?account=*');
    await page.getByRole('link', { name: 'Weekly report' }).first().click();
    await page.getByRole('row').filter({ hasText: 'X-Mailer' }).waitFor();
    await context.request.delete(`${origin}/console/session`, { headers: { 'x-postern-console': '1', origin } });
    await page.getByRole('link', { name: 'Queue' }).click();
    await page.getByText('The session has ended.').waitFor();
    await page.getByLabel('Token').fill(testToken);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Queue' }).waitFor();
    expect(new URL(page.url()).search).toBe('?account=*');
    expect(await page.locator('.problem').count()).toBe(0);
  });
});

test('a session that may only look is offered nothing to change', async () => {
  const made = await fetch(`${origin}/client/v4/accounts/dev/tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${testToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ credential: 'default', scopes: ['console:read'] }),
  });
  const { result } = (await made.json()) as { result: { token: string } };
  await withPage(
    async ({ page, context, open }) => {
      await open('/suppressions');
      await page.getByText('Nobody is suppressed').waitFor();
      expect(await page.getByRole('button', { name: 'Add an address' }).count()).toBe(0);
      expect(await page.getByRole('link', { name: 'Settings' }).count()).toBe(0);
      const answer = await context.request.post(`${origin}/client/v4/accounts/dev/email/sending/suppressions`, {
        headers: { 'x-postern-console': '1', origin },
        data: { address: 'a@example.net' },
      });
      expect(answer.status()).toBe(403);
    },
    { token: result.token },
  );
});

test('back leads to the place in a list, and to the rows that were loaded', async () => {
  const body = { from: 'shop@example.com', to: 'you@example.net', text: 'x' };
  const many = Array.from({ length: 110 }, (_, at) => sendByRest(origin, { ...body, subject: `Number ${at} of many` }));
  expect(new Set(await Promise.all(many))).toEqual(new Set([200]));
  await withPage(async ({ page, open }) => {
    await open('/messages?q=many');
    const rows = page.locator('a.row-link');
    await rows.first().waitFor();
    // The list loads on where its end comes into sight.
    await expect
      .poll(async () => {
        await page.evaluate('scrollTo(0, document.body.scrollHeight)');
        return await rows.count();
      })
      .toBe(110);
    const link = rows.nth(90);
    const subject = (await link.textContent()) ?? '';
    await link.scrollIntoViewIfNeeded();
    const y: number = await page.evaluate('scrollY');
    expect(y).toBeGreaterThan(1000);
    await link.click();
    await page.locator('h1', { hasText: subject }).waitFor();
    expect(await page.evaluate('scrollY')).toBe(0);
    await page.goBack();
    await expect.poll(() => page.evaluate('scrollY')).toBe(y);
    expect(await rows.count()).toBe(110);
    expect(await rows.nth(90).textContent()).toBe(subject);
    // A page that is loaded anew loads its rows up to where it was, however slowly they come.
    await page.route('**/journal?**', async (route) => {
      await sleep(1500);
      // The page may have been left meanwhile, and its request with it.
      await route.continue().catch(() => undefined);
    });
    await page.reload();
    await expect.poll(() => page.evaluate('scrollY')).toBe(y);
    expect(await rows.nth(90).textContent()).toBe(subject);
    await page.unroute('**/journal?**');
    // By a link the page begins at its beginning.
    await page.goForward();
    await page.getByRole('link', { name: 'Messages', exact: true }).first().click();
    await page.locator('h1', { hasText: 'Messages' }).waitFor();
    await expect.poll(() => page.evaluate('scrollY')).toBe(0);
  });
});
