import { onceAndAgain } from '../load/once-at-a-time.ts';
import type { Changes } from './database.ts';

/** Milliseconds between two looks, well within the second of D94. */
const followMs = 500;

/**
 * Looks for what other processes have changed: regularly, and at once where the database tells of it.
 * @param subject as `Changes.on` takes it
 * @param look must not throw; never runs twice at a time, and runs once more where it was asked for meanwhile
 * @returns ends this, and waits for a look under way
 */
export function followChanges(changes: Changes, subject: string, look: () => Promise<void>): () => Promise<void> {
  const lookAgain = onceAndAgain(look);
  let looking = Promise.resolve();
  const ask = (): void => void (looking = lookAgain());
  const timer = setInterval(ask, followMs).unref();
  const ignore = changes.on(subject, ask);
  return async () => {
    ignore();
    clearInterval(timer);
    await looking;
  };
}
