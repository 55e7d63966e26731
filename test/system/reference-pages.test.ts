// /docs and `/` of a running gateway in a real browser, and the examples of /docs sent as they stand there.
// UPDATE_SCREENSHOTS=1 writes docs/screenshots anew; then look at them.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { contrasts, launchBrowser, screenshotSizes, takeScreenshot, visitPage } from '../support/browser-pages.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { type Ended, requirePrograms, runProgram } from './programs.ts';

const schemes = ['light', 'dark'] as const;
const sizes = Object.entries(screenshotSizes);
const languages = ['curl', 'JavaScript', 'Python'] as const;

interface Described {
  readonly id: string;
  readonly tag: string;
}

let postern: PosternProcess;
let browser: Browser;
let origin: string;
let operations: readonly Described[];

beforeAll(async () => {
  requirePrograms('chromium-headless-shell', 'curl', 'python3');
  postern = await startPostern();
  origin = `http://127.0.0.1:${postern.ports['http']}`;
  const document = (await (await fetch(`${origin}/openapi.json`)).json()) as {
    readonly paths: Record<string, Record<string, { readonly operationId: string; readonly tags: readonly string[] }>>;
  };
  operations = Object.values(document.paths)
    .flatMap((methods) => Object.values(methods))
    .map(({ operationId, tags }) => ({ id: operationId, tag: tags[0] ?? '' }));
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  await postern?.cleanUp();
});

/** Text that stands in a column so narrow that its words are broken into letters. */
function squeezed(page: Page): Promise<readonly string[]> {
  return page.evaluate(`[...document.querySelectorAll('p, dt, dd, li, pre, summary, h1, h2, h3, h4')]
    .filter((element) => element.checkVisibility() && element.textContent.trim().length > 20)
    .filter((element) => element.getBoundingClientRect().width < 200)
    .map((element) => element.tagName + ' ' + element.textContent.slice(0, 40))`);
}

describe.each(['/', '/docs'])('%s', (path) => {
  test.each(sizes)(
    'on a %s it loads nothing but itself, complains of nothing, and is one document',
    async (_, viewport) => {
      await visitPage(
        browser,
        origin + path,
        { viewport },
        async (page, heard) => {
          expect(heard).toEqual({ complaints: [], requests: [origin + path] });
          expect([await page.locator('h1').count(), await page.locator('main').count()]).toEqual([1, 1]);
          expect(await page.locator('html').getAttribute('lang')).toBe('en');
          expect(await page.title()).toBe((await page.locator('h1').textContent())?.trim());
          // The style is in force: one that the policy refused would leave a serif face.
          expect(await page.evaluate('getComputedStyle(document.body).fontFamily')).toMatch(/^system-ui/);
        },
        'networkidle',
      );
    },
  );

  test('nothing scrolls sideways at any width, no column is too narrow for words, and contrasts are 4.5 or more', async () => {
    await visitPage(browser, origin + path, {}, async (page) => {
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme });
        const all = await contrasts(page);
        expect(all.length).toBeGreaterThan(10);
        expect(
          all.filter(({ ratio }) => ratio < 4.5),
          colorScheme,
        ).toEqual([]);
      }
      await page.evaluate(`document.querySelectorAll('details').forEach((each) => each.removeAttribute('name'))`);
      await page.evaluate(`document.querySelectorAll('details').forEach((each) => (each.open = true))`);
      for (const width of [320, 390, 768, 1280]) {
        await page.setViewportSize({ width, height: 844 });
        const widths = await page.evaluate(
          '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
        );
        expect(widths).toEqual([width, width]);
        expect(await squeezed(page), `${width} px`).toEqual([]);
      }
    });
  });

  test('its headings are an outline without a gap, also where no style is read', async () => {
    await visitPage(browser, origin + path, {}, async (page) => {
      await page.evaluate(`document.querySelector('style').remove()`);
      const levels: readonly number[] = await page.evaluate(
        `[...document.querySelectorAll('h1, h2, h3, h4')].map((heading) => Number(heading.tagName[1]))`,
      );
      expect(levels[0]).toBe(1);
      expect(levels.filter((level, index) => level > (levels[index - 1] ?? 0) + 1)).toEqual([]);
    });
  });

  test('pictures', async () => {
    await visitPage(browser, origin + path, {}, async (page) => {
      for (const [size, viewport] of sizes) {
        await page.setViewportSize(viewport);
        for (const colorScheme of schemes) {
          await page.emulateMedia({ colorScheme });
          await takeScreenshot(page, `${path === '/' ? 'home' : 'docs'}-${size}-${colorScheme}`);
        }
      }
    });
  });
});

test('a picture of an operation on a phone', async () => {
  const viewport = screenshotSizes.phone;
  await visitPage(browser, `${origin}/docs#listSuppressions`, { viewport }, async (page) => {
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme });
      await takeScreenshot(page, `docs-operation-phone-${colorScheme}`);
    }
  });
});

test('every operation stands in its group, once in the contents, with its three examples', async () => {
  await visitPage(browser, `${origin}/docs`, {}, async (page) => {
    const found: readonly unknown[] =
      await page.evaluate(`[...document.querySelectorAll('main section[id] > .operation')]
      .filter((section) => section.querySelector('.examples'))
      .map((section) => ({
        id: section.id,
        tag: section.parentElement.querySelector('h2').textContent,
        links: document.querySelectorAll('nav a[href="#' + section.id + '"]').length,
        examples: [...section.querySelectorAll('.examples details')].map((each) => each.querySelector('summary').textContent),
        empty: [...section.querySelectorAll('.examples pre')].filter((each) => each.textContent.length < 50).length,
      }))`);
    // A group is one section, also where its operations are at several places of the document.
    const grouped = [...Map.groupBy(operations, ({ tag }) => tag).values()].flat();
    expect(found).toEqual(grouped.map(({ id, tag }) => ({ id, tag, links: 1, examples: languages, empty: 0 })));
  });
});

function focused(page: Page): Promise<string> {
  return page.evaluate(`(() => {
    const { tagName, textContent } = document.activeElement;
    const outline = getComputedStyle(document.activeElement);
    return [tagName, textContent.trim(), outline.outlineStyle, outline.outlineWidth].join('|');
  })()`);
}

/** Presses Tab until the focus is on a link to `hash`; fails where it takes more than `most`. */
async function tabTo(page: Page, hash: string, most: number): Promise<void> {
  for (let presses = 0; presses < most; presses += 1) {
    await page.keyboard.press('Tab');
    if ((await page.evaluate(`document.activeElement.getAttribute('href')`)) === hash) return;
  }
  throw new Error(`No link to ${hash} among the first ${most} of the keyboard`);
}

const inView = (id: string) =>
  `(() => { const { top } = document.getElementById('${id}').getBoundingClientRect(); return top > -1 && top < innerHeight; })()`;

test('on a desktop the keyboard alone reaches the list at the side, and what it names', async () => {
  await visitPage(browser, `${origin}/docs`, { viewport: screenshotSizes.desktop }, async (page) => {
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('A|Skip the contents|solid|2px');
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('A|How to call it|solid|2px');
    await tabTo(page, '#listProxyProtocols', 120);
    await page.keyboard.press('Enter');
    expect(new URL(page.url()).hash).toBe('#listProxyProtocols');
    expect(await page.evaluate(inView('listProxyProtocols'))).toBe(true);
    // From there on the keyboard goes through the operation: to its examples, of which one is open.
    while (!(await focused(page)).startsWith('SUMMARY|Python')) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const open = page.locator('#listProxyProtocols details[open] summary');
    expect(await open.allTextContents()).toEqual(['Python']);
    // The list stays at the side.
    expect(await page.evaluate(`document.querySelector('nav').getBoundingClientRect().top`)).toBe(0);
  });
});

test('on a phone the keyboard opens the contents and reaches what they name', async () => {
  await visitPage(browser, `${origin}/docs`, { viewport: screenshotSizes.phone }, async (page) => {
    const firstLink = page.locator('nav a').first();
    expect(await firstLink.isVisible()).toBe(false);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('SUMMARY|Contents|solid|2px');
    await page.keyboard.press('Enter');
    expect(await firstLink.isVisible()).toBe(true);
    await tabTo(page, '#createToken', 30);
    await page.keyboard.press('Enter');
    expect(await page.evaluate(inView('createToken'))).toBe(true);
  });
});

/** Every example as a reader copies it, by operationId and language. */
type Examples = Readonly<Record<string, Readonly<Record<string, string>>>>;
let examples: Examples | undefined;

async function readExamples(): Promise<Examples> {
  examples ??= await visitPage<Examples>(browser, `${origin}/docs`, {}, (page) =>
    page.evaluate(`Object.fromEntries([...document.querySelectorAll('.operation:has(.examples)')].map((section) => [
      section.id,
      Object.fromEntries([...section.querySelectorAll('.examples details')].map((each) => [
        each.querySelector('summary').textContent,
        each.querySelector('pre').textContent,
      ])),
    ]))`),
  );
  return examples;
}

function run(command: string, args: readonly string[], input: string): Promise<Ended> {
  return runProgram(command, args, { input, env: { POSTERN_URL: origin, POSTERN_TOKEN: testToken } });
}

test.each([
  ['curl', '/bin/sh', ['-eu', '-s'], /"success":true.*"queued":\["ana@example\.net"\]/],
  ['Python', 'python3', ['-'], /^200 .*'success': True.*'queued': \['ana@example\.net'\]/],
  ['JavaScript', process.execPath, ['--input-type=module', '-'], /^200 \{\s*success: true/],
] as const)('the example for %s sends the message', async (language, command, args, wanted) => {
  const before = postern.captured().length;
  const example = (await readExamples())['sendMessage']?.[language] ?? '';
  const { code, output } = await run(command, args, example);
  expect([code, output]).toEqual([0, expect.stringMatching(wanted)]);
  await postern.until(() => postern.captured().length === before + 1);
  expect(postern.captured().at(-1)?.toString()).toContain('\r\nX-Campaign-ID: spring\r\n');
});

test('no example is malformed: each is carried out, or is about a thing that is not there', async () => {
  const ends: string[] = [];
  for (const [id, { curl = '' }] of Object.entries(await readExamples())) {
    const isStream = id.startsWith('watch');
    const { code, output } = await run(
      '/bin/sh',
      ['-eu', '-s'],
      curl.replace(/^curl /, isStream ? 'curl -s -m 2 ' : 'curl -s '),
    );
    if (isStream) {
      // 28: it was still open after the two seconds.
      ends.push(`${id} ${code === 28 ? 'done' : output}`);
      continue;
    }
    const { success, errors } = JSON.parse(output) as { success: boolean; errors: readonly { code: number }[] };
    ends.push(`${id} ${success ? 'done' : errors.map(({ code }) => code).join()}`);
  }
  expect(ends.length).toBe(operations.length);
  expect(ends.filter((end) => !/ (?:done|10000)$/.test(end))).toEqual([]);
  const named = ends.filter((end) => end.endsWith(' 10000'));
  expect(
    named.filter(
      (end) =>
        !/^(?:delete|revoke|get|replace|update|change|rotate|replay|resend|preview|verify|listWebhookDeliveries)/.test(
          end,
        ),
    ),
  ).toEqual([]);
});
