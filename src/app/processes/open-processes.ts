// Opens a server of several processes: everything that one process does once for all of them, then the supervisor.

import { systemClock } from '../../base/clock.ts';
import { ConfigurationError } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { Config, ConfigSource } from '../config/config.ts';
import type { Server } from '../gateway.ts';
import type { Listening } from '../wiring/addresses.ts';
import { restartFaults } from '../wiring/change-settings.ts';
import { loadSettings, readWholeText } from '../wiring/load-settings.ts';
import { Reloader } from '../wiring/reload.ts';
import { choosePorts } from './fixed-ports.ts';
import { Supervisor } from './supervisor.ts';

interface ProcessesParts {
  readonly config: Config;
  /** What it was read from. */
  readonly text: string;
  readonly place: ConfigSource;
  readonly log: Logger;
  /** Resolves at a signal to stop, even while the processes start. */
  readonly signalled: Promise<unknown>;
}

async function started(supervisor: Supervisor, signalled: Promise<unknown>): Promise<readonly Listening[]> {
  const starting = supervisor.start();
  try {
    const early = await Promise.race([starting, signalled.then(() => undefined)]);
    if (early) return early;
  } catch (error) {
    await supervisor.stop();
    throw error;
  }
  const failed = starting.catch(() => undefined);
  // Whatever the start waits for ends now.
  await supervisor.stop();
  await failed;
  return [];
}

/** Opens the server, in development behind its keys. @throws ConfigurationError, or Error with what a process said; none is left then */
export async function openProcesses({ config, text: first, place, log, signalled }: ProcessesParts): Promise<Server> {
  let inForce = config;
  const ports = await choosePorts(config);
  const file = place.file === undefined ? {} : { file: place.file };
  const supervisor = new Supervisor({
    count: config.processes,
    order: { text: first, ports, ...file },
    log,
    drainMs: () => inForce.drainSeconds * 1000,
  });
  const listening = await started(supervisor, signalled);
  let text = '';
  const reloader = new Reloader({
    load: async () => {
      // Judged here first, so that the log of one process tells what is wrong.
      text = await readWholeText(place);
      return await loadSettings({ ...place, text }, systemClock);
    },
    apply: async (settings) => {
      // The processes judge it too, where there are any.
      const faults = restartFaults(inForce, settings.config);
      if (faults.length > 0) throw new ConfigurationError(faults.join('\n'));
      const changed = await supervisor.reload(text);
      inForce = settings.config;
      if (settings.config.log.level !== log.level) log.level = settings.config.log.level;
      return changed;
    },
    clock: systemClock,
    log,
  });
  return {
    get config() {
      return inForce;
    },
    listening,
    reload: (why) => reloader.reload(why),
    destinations: () => supervisor.destinations(),
    async stop() {
      await reloader.stop();
      await supervisor.stop();
    },
    kill: () => supervisor.kill(),
  };
}
