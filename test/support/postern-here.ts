// A gateway in the process of the test, put together as `postern serve` does: where nothing is asked about the process, whose start
// costs more than most tests. What the process adds (signals, its log on standard output, its end) the tests of e2e that start one show.

import { rmSync } from 'node:fs';
import { openTokenStore } from '../../src/accounts/token-store.ts';
import { ensureDevelopmentToken } from '../../src/app/bootstrap/bootstrap.ts';
import { loadConfig } from '../../src/app/config/config.ts';
import { type GatewayParts, openGateway } from '../../src/app/gateway.ts';
import { openDatabaseOf } from '../../src/app/wiring/engine/open-stores.ts';
import { loadSettings } from '../../src/app/wiring/load-settings.ts';
import { openServerSocket } from '../../src/app/wiring/server-socket.ts';
import { tableMigrations } from '../../src/app/wiring/table-versions.ts';
import { systemClock } from '../../src/base/clock.ts';
import { openLog } from '../../src/base/log.ts';
import { makePlace, type PosternOptions, type RunningPostern, watching } from './postern-process.ts';

/** Such a gateway. */
export interface PosternHere extends RunningPostern {
  /** Drains and closes everything, as at SIGTERM; once more does nothing. */
  stop(): Promise<void>;
}

/** Starts it; its keys are those of the shipped configuration, and it makes none. */
export async function startHere(
  options: Pick<PosternOptions, 'config' | 'env' | 'folder'> & Pick<GatewayParts, 'aboutToListen'> = {},
): Promise<PosternHere> {
  const { folder, dataDir, certsDir, env } = await makePlace(options);
  const place = { env, cwd: folder };
  const config = loadConfig(place);
  let output = '';
  const { log } = openLog(config.log.level, { write: (text: string) => void (output += text) });
  const database = await openDatabaseOf(config, {
    patienceMs: 2000,
    onLost: (error) => log.fatal({ err: error }),
    log,
  });
  if ('url' in config.database) for (const one of tableMigrations.postgres) await database.migrate(one);
  const tokens = await openTokenStore(database);
  const load = () => loadSettings(place, systemClock);
  const { aboutToListen = () => Promise.resolve() } = options;
  const gateway = await openGateway({ ...(await load()), database, log, load, place, aboutToListen });
  await ensureDevelopmentToken(config, { env, tokens, clock: systemClock });
  const socket = await openServerSocket(dataDir, gateway, log);
  let ended: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    socket.close();
    return (ended ??= gateway.stop());
  };
  return {
    ...{ folder, dataDir, certsDir, env, stop, output: () => output, ...watching(() => output, dataDir) },
    ports: Object.fromEntries(gateway.listening.map(({ name, port }) => [name, port])),
    cleanUp: async () => {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
