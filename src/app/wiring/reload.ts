// Reads the configuration again while everything runs. Reloads run one after another, are counted, and are logged. A
// configuration that cannot be taken whole changes nothing.

import type { Clock } from '../../base/clock.ts';
import { ConfigurationError, errorMessage, Unavailable } from '../../base/errors.ts';
import { onceAndAgain } from '../../base/load/once-at-a-time.ts';
import type { Logger } from '../../base/log.ts';
import { gauge, type MetricSources } from '../../web/http/metrics.ts';
import type { LoadState } from './console/console-endpoints.ts';
import type { Settings } from './in-force.ts';

/** How a reload ended. */
export type ReloadOutcome =
  /** The reload succeeded: what changed, in a few words each; empty where nothing did. */
  | { readonly ok: true; readonly changed: readonly string[] }
  /** The reload failed and nothing changed: the faults, one line each. */
  | { readonly ok: false; readonly faults: readonly string[] };

/** Reloads the configuration. */
export interface Reloader extends MetricSources {
  /**
   * Reloads. All calls made while a reload runs share the next one. Never rejects.
   * @param why who asked, for the log: `SIGHUP`, `command`
   */
  reload(why: string): Promise<ReloadOutcome>;
  /** Begins no more reloads. Resolves when the one under way has ended. */
  stop(): Promise<void>;
  /** When the configuration in force was read, and how the last reload ended; milliseconds since 1970. */
  state(): LoadState;
}

/** How many faults are told at most: a file may have one in each of its many lines. */
const maxFaults = 100;

/** Why a reload failed, one line each; for an unexpected error its causes, too. */
function faultsOf(error: unknown): readonly string[] {
  const isExpected = error instanceof ConfigurationError;
  const cause = isExpected || !(error instanceof Error) ? undefined : error.cause;
  const text = errorMessage(error);
  const lines = (cause === undefined ? text : `${text}: ${errorMessage(cause)}`).split('\n');
  if (lines.length <= maxFaults) return lines;
  return [...lines.slice(0, maxFaults), `and ${lines.length - maxFaults} more; postern config check tells all`];
}

/** Makes the reloader. It reads nothing before `reload`. */
export function createReloader(parts: {
  /** Reads and checks the configuration and all that it names. @throws ConfigurationError with a line for each fault */
  readonly load: () => Promise<Settings>;
  /** Puts the settings in force, or throws and has changed nothing. @returns what changed */
  readonly apply: (settings: Settings) => Promise<readonly string[]>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Logger;
}): Reloader {
  const { log, clock } = parts;
  const results = { success: 0, failure: 0 };
  let isLastGood = true;
  let loadedAt = clock.now();
  let lastReload: LoadState['lastReload'];
  let isStopped = false;
  let last: Promise<unknown> = Promise.resolve();

  // The reload under way may have read the file before it was changed, so calls made now share one that begins later.
  const again = onceAndAgain(async (why: string): Promise<ReloadOutcome> => {
    try {
      if (isStopped) throw new ConfigurationError('The server is stopping');
      const changed = await parts.apply(await parts.load());
      results.success += 1;
      isLastGood = true;
      loadedAt = clock.now();
      lastReload = { at: loadedAt, why, ok: true, lines: changed };
      log.info({ why, changed }, 'configuration reloaded');
      return { ok: true, changed };
    } catch (error) {
      results.failure += 1;
      isLastGood = false;
      const faults = faultsOf(error);
      lastReload = { at: clock.now(), why, ok: false, lines: faults };
      const isExpected = error instanceof ConfigurationError || error instanceof Unavailable;
      log.error({ why, faults, ...(isExpected ? {} : { err: error }) }, 'reload failed');
      return { ok: false, faults };
    }
  });

  return {
    reload(why) {
      const outcome = again(why);
      last = outcome;
      return outcome;
    },
    async stop() {
      isStopped = true;
      await last;
    },
    state: () => ({ loadedAt, ...(lastReload ? { lastReload } : {}) }),
    families: [
      gauge(
        'postern_config_last_reload_successful',
        '1 where the configuration in force is the one that was read last, 0 where the last reload was refused',
        () => (isLastGood ? 1 : 0),
        'min',
      ),
      gauge(
        'postern_config_loaded_timestamp_seconds',
        'When the configuration in force was read, seconds since 1970',
        () => loadedAt / 1000,
        'max',
      ),
      {
        kind: 'counter',
        over: 'max',
        name: 'postern_config_reloads_total',
        help: 'Reloads of the configuration since the start, by result: success or failure',
        label: 'result',
        read: () => Object.entries(results),
      },
    ],
  };
}
