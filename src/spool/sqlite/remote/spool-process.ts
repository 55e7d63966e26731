// The process that has the spool where several processes share one in SQLite. Its parent sends what to open, and is told when it
// is open. It ends when the parent says so, or when the parent is gone and the last process that used the spool has ended.

import { systemClock } from '../../../base/clock.ts';
import { errorMessage } from '../../../base/errors.ts';
import type { SpoolWorkerData } from '../sqlite-protocol.ts';
import { SpoolServer } from './spool-server.ts';

/** What the parent sends. */
export type ToSpoolProcess =
  | { readonly kind: 'open'; readonly data: SpoolWorkerData; readonly path: string }
  | { readonly kind: 'end' };

/** What the parent is told. */
export type FromSpoolProcess = { readonly kind: 'open' } | { readonly kind: 'failed'; readonly reason: string };

// Signals to a whole group of processes are for the parent, which says when it is time to end.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);

let server: SpoolServer | undefined;
let isEnding = false;

async function end(): Promise<void> {
  if (isEnding) return;
  isEnding = true;
  await server?.close();
  process.exit(0);
}

function tell(message: FromSpoolProcess, done = (): void => undefined): void {
  process.send?.(message, undefined, undefined, done);
}

async function open({ data, path }: Extract<ToSpoolProcess, { kind: 'open' }>): Promise<void> {
  try {
    server = new SpoolServer({ data, clock: systemClock, onLost: () => process.exit(1) });
    await server.open(path);
    tell({ kind: 'open' });
  } catch (thrown) {
    tell({ kind: 'failed', reason: errorMessage(thrown) }, () => process.exit(1));
  }
}

process.on('disconnect', () => void end());
process.on('message', (message: ToSpoolProcess) => void (message.kind === 'open' ? open(message) : end()));
