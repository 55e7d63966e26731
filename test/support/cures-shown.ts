// What the console shows to cure refusals, read in a browser and copied by its buttons as a person would, and pasted.

import { writeFileSync } from 'node:fs';
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import { runProgram } from '../system/programs.ts';
import type { ConsolePage } from './console-pages.ts';

/** A cure as it stands on a page. */
export interface CureShown {
  /** The message that it is shown for, by its id in the journal. */
  readonly id: string;
  /** The credential whose entry the words send the lines to; undefined: the program has to be changed. */
  readonly credential: string | undefined;
  /** What `Copy the lines` copies. */
  readonly lines: string;
  /** What `Copy the change` copies: a diff of the configuration file. */
  readonly change: string | undefined;
}

/** Presses a button and gives what it copied. */
async function copied(page: Page, button: Locator): Promise<string> {
  await page.evaluate("navigator.clipboard.writeText('nothing yet')");
  await button.click();
  const read = (): Promise<string> => page.evaluate('navigator.clipboard.readText()');
  await expect.poll(read, { timeout: 10_000 }).not.toBe('nothing yet');
  return await read();
}

async function read(page: Page, box: Locator, id: string): Promise<CureShown> {
  const change = box.getByRole('button', { name: 'Copy the change' });
  const diff = (await change.count()) === 0 ? undefined : await copied(page, change);
  const lines = box.getByRole('button', { name: 'Copy the lines' });
  if ((await lines.count()) === 0) return { id, credential: undefined, lines: '', change: diff };
  const words = (await box.locator('p').first().textContent()) ?? '';
  const credential = /at credential "([^"]+)"/.exec(words)?.[1];
  if (credential === undefined) throw new Error(`It does not say where the lines go: ${words}`);
  return { id, credential, lines: await copied(page, lines), change: diff };
}

/** The cure of each cause on the page of refusals, with its newest example. */
export async function curesOfRefusals({ page, open }: ConsolePage): Promise<readonly CureShown[]> {
  await open('/refusals');
  const causes = page.getByRole('table', { name: 'Causes of refusals' });
  await causes.waitFor();
  const openers = causes.locator('button.opener');
  const found: CureShown[] = [];
  for (let at = 0; at < (await openers.count()); at += 1) {
    await openers.nth(at).click();
    const cause = causes.locator('tr.opened');
    const example = await cause.getByRole('link', { name: 'Newest example' }).getAttribute('href');
    found.push(await read(page, cause.locator('.cure'), example?.split('/').at(-1) ?? ''));
    await openers.nth(at).click();
  }
  return found;
}

/** The cures on the pages of messages, of each reason that has one of its own. */
export async function curesOfMessages(
  { page, open }: ConsolePage,
  ids: readonly string[],
): Promise<readonly CureShown[]> {
  const found: CureShown[] = [];
  for (const id of ids) {
    await open(`/messages/${id}`);
    const boxes = page.locator('.reasons .cure').filter({ has: page.getByRole('button') });
    await boxes.first().waitFor();
    for (const box of await boxes.all()) found.push(await read(page, box, id));
  }
  return found;
}

/** Puts lines below the name of a credential, which is the last entry of that name in a file in block style. */
export function pasteLines(text: string, { credential, lines }: Pick<CureShown, 'credential' | 'lines'>): string {
  const all = text.split('\n');
  const at = all.findLastIndex((line) => line.trim() === `- name: ${credential}`);
  const indent = ' '.repeat((all[at]?.indexOf('-') ?? 0) + 2);
  return all.toSpliced(at + 1, 0, ...lines.split('\n').map((line) => `${indent}${line}`)).join('\n');
}

/** Gives a file's text with a diff applied by patch(1). */
export async function patchText(folder: string, text: string, diff: string): Promise<string> {
  const file = `${folder}/patched.yaml`;
  writeFileSync(file, text);
  const { code, output } = await runProgram('patch', ['--silent', '--output=-', file], { input: diff });
  if (code !== 0) throw new Error(`patch ended with ${code}: ${output}`);
  return output;
}
