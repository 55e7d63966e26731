// Every call of `postern` that a page names in its text, in backticks, is a command that there is, with options that it takes.
// The calls in blocks of commands are run by test/system/documents.test.ts.

import { expect, test } from 'vitest';
import { runCommandLine } from '../src/cli/run.ts';
import { markdownPages, readPage } from './support/markdown.ts';

/** One call as it is written. */
interface NamedCall {
  readonly text: string;
  readonly where: string;
  /** The words before the first argument or option: `token create`. */
  readonly command: string;
  readonly options: readonly string[];
}

const calls: readonly NamedCall[] = markdownPages().flatMap((where) =>
  [...readPage(where).matchAll(/`(?:npm run -s postern -- |postern )([^`]+)`/g)].map(([, rest = '']) => {
    const words = rest.split(/\s+/);
    const end = words.findIndex((word) => !/^[a-z]+(?:-[a-z]+)*$/.test(word));
    return {
      text: `postern ${words.join(' ')}`,
      where,
      command: words.slice(0, end === -1 ? words.length : end).join(' '),
      options: words.filter((word) => word.startsWith('--')).map((word) => word.replace(/[=,;:].*$/, '')),
    };
  }),
);

async function helpOf(command: string): Promise<string> {
  let help = '';
  const out = { write: (text: string | Uint8Array) => (help += text.toString()) };
  const code = await runCommandLine([...command.split(' '), '--help'], {
    stdout: out,
    stderr: out,
    env: {},
    cwd: import.meta.dirname,
  });
  return code === 0 ? help : '';
}

const commands = [...new Set(calls.map(({ command }) => command))].filter((command) => command !== '').toSorted();

test('there are commands to look at', () => {
  expect(commands).toEqual(expect.arrayContaining(['check', 'config check', 'queue retry']));
});

test.each(commands)('postern %s', async (command) => {
  const help = await helpOf(command);
  const named = calls.filter((call) => call.command === command);
  expect([help === '' ? 'no such command' : 'a command', named.map(({ where }) => where)]).toEqual([
    'a command',
    expect.any(Array),
  ]);
  const unknown = named.filter(({ options }) => options.some((option) => !help.includes(`${option} `)));
  expect(unknown.map(({ text, where }) => `${where}: ${text}`)).toEqual([]);
});
