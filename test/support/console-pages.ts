// The console in a real browser for the system tests: signed-in pages, what they asked for and complained of, and axe-core's
// faults.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { testToken } from './postern-process.ts';

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** A page of the console, and what happened while it was open. */
export interface ConsolePage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Everything that the browser asked for. */
  readonly requests: string[];
  /** Scripts that failed, dialogs, and what the browser complained of. */
  readonly complaints: string[];
  /** Opens a page of the console, such as `/messages?outcome=refused`, and waits for its title. */
  readonly open: (path: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** What the browser remarks on and nobody did wrong: hints about forms, and a policy that held against a message. */
const remarks = /^\[DOM\]|violates the following Content Security Policy|^Failed to load resource/;

/** Opens a browser context of its own, signed in with a token; null: not signed in. */
export async function openConsolePage(
  browser: Browser,
  origin: string,
  options: BrowserContextOptions & { readonly token?: string | null } = {},
): Promise<ConsolePage> {
  const { token = testToken, ...rest } = options;
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'], ...rest });
  const page = await context.newPage();
  // Several browsers at once on a busy machine take long; only a failure waits so long.
  page.setDefaultTimeout(45_000);
  const requests: string[] = [];
  const complaints: string[] = [];
  context.on('request', (request) => requests.push(request.url()));
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    if (!remarks.test(message.text())) complaints.push(message.text());
  });
  if (token !== null) {
    const answer = await context.request.post(`${origin}/console/session`, {
      data: { token },
      headers: { 'x-postern-console': '1', origin },
    });
    if (!answer.ok()) throw new Error(`Signing in: ${answer.status()} ${await answer.text()}`);
  }
  return {
    ...{ page, context, requests, complaints },
    async open(path) {
      await page.goto(`${origin}/console${path}`, { waitUntil: 'load' });
      await page
        .locator('main h1')
        .waitFor()
        .catch(async (cause: unknown) => {
          const shown = await page.locator('body').textContent();
          throw new Error(`${path} has no heading. It shows: ${shown}; complaints: ${complaints.join('; ')}`, {
            cause,
          });
        });
    },
    async close() {
      // Requests that a test still holds back end with the page, and nobody waits for them.
      await page.unrouteAll({ behavior: 'ignoreErrors' });
      await context.close();
    },
  };
}

/** A fault that axe-core finds. */
export interface AccessFault {
  readonly rule: string;
  readonly impact: string;
  readonly nodes: readonly string[];
}

/**
 * The serious and critical faults of the page as it is now, by the rules of WCAG 2.2 A and AA.
 * @param rules only these; absent: all
 */
export async function accessFaults(page: Page, rules?: readonly string[]): Promise<readonly AccessFault[]> {
  // Evaluated by the browser's own protocol, which the policy of the page does not concern.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axeSource);
  const only = rules ?? ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
  return await page.evaluate(`axe.run(document, {
    runOnly: { type: '${rules ? 'rule' : 'tag'}', values: ${JSON.stringify(only)} },
    resultTypes: ['violations'],
    iframes: false,
  }).then(({ violations }) => violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, impact, nodes }) => ({ rule: id, impact, nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => html.slice(0, 160) + ' ' + failureSummary) })))`);
}

/** How far the page, or a table in its frame, goes beyond its right edge, in CSS pixels: 0 where the layout holds. */
export function sideways(page: Page): Promise<number> {
  return page.evaluate(`Math.max(...[document.documentElement, ...document.querySelectorAll('.table-room')]
    .map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))`);
}
