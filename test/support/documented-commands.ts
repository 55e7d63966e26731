// The commands of a document as they are written there: its `sh` blocks, each with the `json` block behind it, which is
// the answer it shows.

/** One block of commands. */
export interface DocumentedCommand {
  /** Line of the document where the block begins, from 1. */
  readonly line: number;
  readonly script: string;
  /** The answer that the document shows; a string in it may hold `...` for any text. */
  readonly answer: unknown;
}

const fence = /^```(\w*)\n([\s\S]*?)^```$/gm;

/** Finds the blocks that a word stands in. */
export function documentedCommands(markdown: string, word: RegExp): readonly DocumentedCommand[] {
  const blocks = [...markdown.matchAll(fence)].map(({ index, 1: language = '', 2: text = '' }) => ({
    index,
    language,
    text,
  }));
  return blocks.flatMap(({ index, language, text }, at) => {
    if (language !== 'sh' || !word.test(text)) return [];
    const next = blocks[at + 1];
    const answer: unknown = next?.language === 'json' ? JSON.parse(next.text) : undefined;
    return [{ line: markdown.slice(0, index).split('\n').length, script: text, answer }];
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
