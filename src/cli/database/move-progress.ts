// Shows how far a move is: on one line at a terminal, and a line now and then elsewhere.

import type { MoveProgress } from '../../move/move-data.ts';
import type { CommandIo } from '../command/command.ts';
import { ProgressLine } from '../command/progress-line.ts';

/** Milliseconds between two lines where nobody sits at a terminal. */
const tellEveryMs = 5000;

/** Makes what a move tells its progress to. */
export function moveProgress(io: CommandIo): { show(progress: MoveProgress): void; end(): void } {
  const line = new ProgressLine(io.stderr, 'Moving');
  let toldAt = performance.now();
  return {
    show({ step, rows, allRows, octets }) {
      const note = `${step}: ${rows.toLocaleString('en')} rows, ${(octets / 2 ** 20).toFixed(0)} MiB`;
      if (line.isWatched) line.show(rows, allRows, note);
      else if (performance.now() - toldAt >= tellEveryMs) {
        toldAt = performance.now();
        io.stderr.write(`${note} of ${allRows.toLocaleString('en')} rows\n`);
      }
    },
    end: () => line.end(),
  };
}
