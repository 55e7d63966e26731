// A start whose PostgreSQL is away, or whose tables others keep locked: it tries on, and says meanwhile that it is not ready.

import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { engineTraits } from '../config/settings.ts';
import type { Config } from '../config.ts';
import { WaitingDoor } from '../http/waiting-door.ts';

/** How long a start may take before it says that it is not ready, in milliseconds. */
const quietMs = 1000;
/** How long after a try in vain it tries again, in milliseconds. */
const againMs = 1000;

/** What such a start needs. */
export interface WaitingStart {
  readonly config: Pick<Config, 'database' | 'http'>;
  readonly log: Logger;
  /** Resolves at a signal to stop. */
  readonly signalled: Promise<unknown>;
}

/**
 * Starts, again and again while the database cannot be used. One in SQLite is of this machine: what is wrong with it ends the start.
 * @param start is to call what it is handed before it binds a place of HTTP; what it had opened is closed when it rejects
 * @returns undefined where a signal came while it waited
 * @throws what `start` throws and time does not mend, such as ConfigurationError
 */
export async function startWaiting<T>(
  { config, log, signalled }: WaitingStart,
  start: (aboutToListen: () => Promise<void>) => Promise<T>,
): Promise<T | undefined> {
  if (!engineTraits[config.database.engine].isShared) return await start(() => Promise.resolve());
  const { listen, adminListen, limits } = config.http;
  const door = new WaitingDoor({ places: [listen, ...(adminListen ? [adminListen] : [])], limits });
  let hasSignal = false;
  void signalled.then(() => (hasSignal = true));
  let told: string | undefined;
  try {
    for (;;) {
      const quiet = setTimeout(() => void door.open(), quietMs);
      const aboutToListen = (): Promise<void> => {
        clearTimeout(quiet);
        return door.close();
      };
      try {
        return await start(aboutToListen);
      } catch (thrown) {
        if (!(thrown instanceof Unavailable)) throw thrown;
        if (thrown.message !== told) log.error({ reason: thrown.message }, 'the start waits for the database');
        told = thrown.message;
      } finally {
        clearTimeout(quiet);
      }
      await door.open();
      await Promise.race([sleep(againMs), signalled]);
      if (hasSignal) return undefined;
    }
  } finally {
    await door.close();
  }
}
