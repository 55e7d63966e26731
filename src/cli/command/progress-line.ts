import type { CommandIo } from './command.ts';

const everyMs = 100;
const barWidth = 30;

/** Shows how far a long command is, on one line that is overwritten. */
export type ProgressLine = ReturnType<typeof progressLine>;

/** Makes the line on standard error, where that is a terminal. @param what stands before the bar: `Reading events` */
export function progressLine(stderr: CommandIo['stderr'], what: string) {
  const isWatched = stderr.isTTY === true;
  let shownAt = Number.NEGATIVE_INFINITY;
  return {
    /** Whether somebody sees the line. */
    isWatched,
    /** Shows that `done` of `all` is done, in any unit; 0 where nobody knows how much there is. @param note `1,204 messages` */
    show(done: number, all: number, note = ''): void {
      const now = performance.now();
      if (!isWatched || now - shownAt < everyMs) return;
      shownAt = now;
      const part = Math.min(1, done / all);
      const bar = all > 0 && '#'.repeat(Math.round(part * barWidth)).padEnd(barWidth, '.');
      stderr.write(`\r${what} ${bar ? `[${bar}] ${Math.floor(part * 100)} % ` : ''}${note}\x1b[K`);
    },
    end(): void {
      if (shownAt > 0) stderr.write('\r\x1b[K');
      shownAt = Number.NEGATIVE_INFINITY;
    },
  };
}
