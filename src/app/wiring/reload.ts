// Reads the configuration again while everything runs, one reload after another. One that cannot be taken whole changes nothing.

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

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

interface ReloaderParts {
  /** Reads and checks the configuration and all that it names. @throws ConfigurationError with a line for each fault */
  readonly load: () => Promise<Settings>;
  /** Puts the settings in force, or throws and has changed nothing. @returns what changed */
  readonly apply: (settings: Settings) => Promise<readonly string[]>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Logger;
}

/** Reloads the configuration. It reads nothing before `reload`. */
export class Reloader implements MetricSources {
  readonly #parts: ReloaderParts;
  readonly #results = { success: 0, failure: 0 };
  #loadedAt: number;
  #lastReload: LoadState['last_reload'] = null;
  #isStopped = false;
  #last: Promise<unknown> = Promise.resolve();
  // The reload under way may have read the file before it was changed, so calls made now share one that begins later.
  readonly #again = onceAndAgain((why: string) => this.#reload(why));
  readonly families = [
    gauge(
      'postern_config_last_reload_successful',
      '1 where the configuration in force is the one that was read last, 0 where the last reload was refused',
      () => (this.#lastReload?.ok === false ? 0 : 1),
      'min',
    ),
    gauge(
      'postern_config_loaded_timestamp_seconds',
      'When the configuration in force was read, seconds since 1970',
      () => this.#loadedAt / 1000,
      'max',
    ),
    {
      kind: 'counter',
      over: 'max',
      name: 'postern_config_reloads_total',
      help: 'Reloads of the configuration since the start, by result: success or failure',
      label: 'result',
      read: () => Object.entries(this.#results),
    } as const,
  ];

  constructor(parts: ReloaderParts) {
    this.#parts = parts;
    this.#loadedAt = parts.clock.now();
  }

  /** Reloads; calls made while one runs share the next. Never rejects. @param why who asked, for the log: `SIGHUP`, `command` */
  reload(why: string): Promise<ReloadOutcome> {
    const outcome = this.#again(why);
    this.#last = outcome;
    return outcome;
  }

  /** Begins no more reloads. Resolves when the one under way has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#last;
  }

  /** When the configuration in force was read, and how the last reload ended. */
  state(): LoadState {
    return { loaded_at: isoTime(this.#loadedAt), last_reload: this.#lastReload };
  }

  async #reload(why: string): Promise<ReloadOutcome> {
    const { load, apply, clock, log } = this.#parts;
    try {
      if (this.#isStopped) throw new ConfigurationError('The server is stopping');
      const changed = await apply(await load());
      this.#results.success += 1;
      this.#loadedAt = clock.now();
      this.#lastReload = { at: isoTime(this.#loadedAt), why, ok: true, changed: [...changed], faults: [] };
      log.info({ why, changed }, 'configuration reloaded');
      return { ok: true, changed };
    } catch (error) {
      this.#results.failure += 1;
      const faults = faultsOf(error);
      this.#lastReload = { at: isoTime(clock.now()), why, ok: false, changed: [], faults: [...faults] };
      const isExpected = error instanceof ConfigurationError || error instanceof Unavailable;
      log.error({ why, faults, ...(isExpected ? {} : { err: error }) }, 'reload failed');
      return { ok: false, faults };
    }
  }
}
