import type { CommandIo } from './command.ts';

/** Milliseconds before the first line, and from one line to the next. */
const tellEveryMs = 5000;

/** Makes what tells on standard error how far a long command is: a line every five seconds, of the words that it is called with then. */
export function tellProgress({ stderr }: CommandIo): (words: string) => void {
  let toldAt = performance.now();
  return (words) => {
    if (performance.now() - toldAt < tellEveryMs) return;
    toldAt = performance.now();
    stderr.write(`${words}\n`);
  };
}
