// Reads the configuration again while everything runs: one reload after another, counted, and told in the log. What it cannot
// take whole changes nothing.

import type { Clock } from '../base/clock.ts';
import { ConfigurationError, errorMessage, Unavailable } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { GaugeSource, MetricFamily } from '../http/metrics.ts';
import type { Settings } from './in-force.ts';

/** How a reload ended. */
export type ReloadOutcome =
  /** What changed, in a few words each; empty where nothing did. */
  | { readonly ok: true; readonly changed: readonly string[] }
  /** Nothing changed; one line each. */
  | { readonly ok: false; readonly faults: readonly string[] };

/** What a reload works with. */
export interface ReloaderParts {
  /** Reads and checks the configuration and all that it names. @throws ConfigurationError with a line for each fault */
  readonly load: () => Promise<Settings>;
  /** Takes the settings on, or throws and has changed nothing. @returns what changed */
  readonly apply: (settings: Settings) => Promise<readonly string[]>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Logger;
}

/** Reloads. */
export interface Reloader {
  /**
   * Reloads; whoever asks while one runs shares the one after it. Never rejects.
   * @param why who asked, for the log: `SIGHUP`, `command`
   */
  reload(why: string): Promise<ReloadOutcome>;
  /** Begins no more. Resolves when the one under way is over. */
  stop(): Promise<void>;
  readonly gauges: readonly GaugeSource[];
  readonly families: readonly MetricFamily[];
}

/** What keeps a reload, one line each; of something unexpected what lies behind it, too. */
function faultsOf(error: unknown): readonly string[] {
  const isExpected = error instanceof ConfigurationError;
  const cause = isExpected || !(error instanceof Error) ? undefined : error.cause;
  const text = errorMessage(error);
  return (cause === undefined ? text : `${text}: ${errorMessage(cause)}`).split('\n');
}

/** Makes it; nothing is read before `reload`. */
export function createReloader(parts: ReloaderParts): Reloader {
  const { log, clock } = parts;
  const results = { success: 0, failure: 0 };
  let isLastGood = true;
  let loadedAt = clock.now();
  let isStopped = false;
  let running: Promise<ReloadOutcome> | undefined;
  let next: Promise<ReloadOutcome> | undefined;

  async function once(why: string): Promise<ReloadOutcome> {
    try {
      if (isStopped) throw new ConfigurationError('The server is stopping');
      const changed = await parts.apply(await parts.load());
      results.success += 1;
      isLastGood = true;
      loadedAt = clock.now();
      log.info({ why, changed }, 'configuration reloaded');
      return { ok: true, changed };
    } catch (error) {
      results.failure += 1;
      isLastGood = false;
      const faults = faultsOf(error);
      const isExpected = error instanceof ConfigurationError || error instanceof Unavailable;
      log.error({ why, faults, ...(isExpected ? {} : { err: error }) }, 'reload failed');
      return { ok: false, faults };
    }
  }

  function reload(why: string): Promise<ReloadOutcome> {
    if (running) {
      // The one under way may have read the file before it was written: those who ask now share one that begins later.
      next ??= running.then(() => {
        next = undefined;
        return reload(why);
      });
      return next;
    }
    running = once(why).finally(() => {
      running = undefined;
    });
    return running;
  }

  return {
    reload,
    async stop() {
      isStopped = true;
      await running;
    },
    gauges: [
      {
        name: 'postern_config_last_reload_successful',
        help: '1 where the configuration in force is the one that was read last, 0 where the last reload was refused',
        read: () => (isLastGood ? 1 : 0),
      },
      {
        name: 'postern_config_loaded_timestamp_seconds',
        help: 'When the configuration in force was read, seconds since 1970',
        read: () => loadedAt / 1000,
      },
    ],
    families: [
      {
        kind: 'counter',
        name: 'postern_config_reloads_total',
        help: 'Reloads of the configuration since the start, by result: success or failure',
        label: 'result',
        read: () => Object.entries(results),
      },
    ],
  };
}
