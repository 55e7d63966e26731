// The commands of a document as they are written there: its `sh` blocks, each with the `json` block behind it, which is
// the answer it shows.

import { fencedBlocks } from './markdown.ts';

/** One block of commands. */
export interface DocumentedCommand {
  /** Line of the document where the block begins, from 1. */
  readonly line: number;
  readonly script: string;
  /** The answer that the document shows; a string in it may hold `...` for any text. Undefined where it shows none. */
  readonly answer: unknown;
}

/** Every block of commands in a page. */
export function documentedCommands(markdown: string): readonly DocumentedCommand[] {
  const blocks = fencedBlocks(markdown);
  return blocks.flatMap(({ line, language, text }, at) => {
    if (language !== 'sh') return [];
    const next = blocks[at + 1];
    // An answer stands right behind its command, with a word such as "answers" between them at most.
    const isAnswer = next?.language === 'json' && next.line - (line + text.split('\n').length) <= 4;
    return [{ line, script: text, answer: isAnswer ? (JSON.parse(next.text) as unknown) : undefined }];
  });
}

/** Puts an answer in the document's words: a string that fits a documented one with `...` becomes that one. */
export function inTheWordsOf(documented: unknown, actual: unknown): unknown {
  if (typeof documented === 'string' && typeof actual === 'string' && documented.includes('...')) {
    const [head = '', tail = ''] = documented.split('...');
    const fits = actual.startsWith(head) && actual.endsWith(tail) && actual.length > head.length + tail.length;
    return fits ? documented : actual;
  }
  if (Array.isArray(documented) && Array.isArray(actual)) {
    return actual.map((item: unknown, index) => inTheWordsOf(documented[index], item));
  }
  if (typeof documented !== 'object' || documented === null || typeof actual !== 'object' || actual === null)
    return actual;
  const words = documented as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.entries(actual).map(([name, value]) => [name, inTheWordsOf(words[name], value)]));
}
