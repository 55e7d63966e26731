// postern serve runs the gateway in the foreground until SIGTERM or SIGINT (D95, D97).

import cluster from 'node:cluster';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openTokenStore } from '../accounts/token-store.ts';
import {
  bootstrap,
  type DevelopmentToken,
  ensureDevelopmentToken,
  readKeys,
  wholeKeys,
} from '../app/bootstrap/bootstrap.ts';
import { fileWarnings } from '../app/bootstrap/check-files.ts';
import { type Config, type ConfigSource, loadConfig, readConfigText } from '../app/config/config.ts';
import { configuredGlobalKeys, configuredTokens } from '../app/config/secrets.ts';
import { engineTraits } from '../app/config/settings.ts';
import { mostProcesses } from '../app/config/value-types.ts';
import type { Server } from '../app/gateway.ts';
import { openDatabaseOf } from '../app/wiring/engine/open-stores.ts';
import { openServerSocket } from '../app/wiring/server-socket.ts';
import { systemClock } from '../base/clock.ts';
import type { Database } from '../base/database/database.ts';
import { ConfigurationError, endProcess, Unavailable, UsageError } from '../base/errors.ts';
import { settleHeap } from '../base/load/compiled-code.ts';
import { type Logger, type OpenLog, openLog } from '../base/log.ts';
import { offerSignIn, openSessionStore } from '../web/console/session-store.ts';
import { createWaitingDoor } from '../web/http/waiting-door.ts';
import { renderBanner, renderSignIn, renderTokenNote } from './banner.ts';
import { type CommandIo, defineCommand } from './command/command.ts';

/** How long a start may take before it says that it is not ready, in milliseconds. */
const quietMs = 1000;
/** How long after a try in vain it tries again, in milliseconds. */
const againMs = 1000;

/** Starts, again and again while PostgreSQL cannot be used. @returns undefined where a signal came @throws what time does not mend */
async function startWaiting<T>(
  config: Pick<Config, 'database' | 'http'>,
  { log, signalled }: { readonly log: Logger; readonly signalled: Promise<unknown> },
  start: (aboutToListen: () => Promise<void>) => Promise<T>,
): Promise<T | undefined> {
  if (!engineTraits[config.database.engine].isShared) return await start(() => Promise.resolve());
  const { listen, adminListen, limits } = config.http;
  const door = createWaitingDoor({ places: [listen, ...(adminListen ? [adminListen] : [])], limits });
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

const logPatienceMs = 1000;

/** When what was compiled during the start is written, in milliseconds after it: the start's own work is over. */
const settleMs = 2000;

/** How long a change waits for a lock that another program holds, in milliseconds: a client is waiting for the answer. */
const servingPatienceMs = 2000;

/** Signals to stop. A second signal ends the process at once, after what `onSecond` was given. */
function untilSignal(): {
  readonly first: Promise<NodeJS.Signals>;
  readonly onSecond: (end: () => void) => void;
} {
  let atSecond: (() => void) | undefined;
  const first = new Promise<NodeJS.Signals>((resolve) => {
    const onSignal = (signal: NodeJS.Signals): void => {
      resolve(signal);
      process.once(signal, () => {
        atSecond?.();
        process.exit(1);
      });
    };
    process.once('SIGTERM', onSignal);
    process.once('SIGINT', onSignal);
    // A terminal sends SIGHUP when it is closed. Then nobody is left to stop the process.
    if (process.stdout.isTTY) process.once('SIGHUP', onSignal);
  });
  return { first, onSecond: (end) => (atSecond = end) };
}

/** Handles SIGHUP; one that comes early is kept. @returns what sets the server that gets it; undefined once it stops */
function onHangup(): (server: Server | undefined) => void {
  let server: Server | undefined;
  let isWaiting = false;
  const reload = (): void => {
    if (server) void server.reload('SIGHUP');
    else isWaiting = true;
  };
  if (!process.stdout.isTTY) process.on('SIGHUP', reload);
  return (given) => {
    server = given;
    if (given && isWaiting) reload();
  };
}

/** Logs an error that nobody caught and ends the process. The spool is safe on disk at every moment, so nothing is lost. */
function dieOnSurprise({ log, close }: OpenLog): void {
  let isDying = false;
  const die = async (err: unknown): Promise<void> => {
    log.fatal({ err }, 'an unexpected error ends the process');
    await close(logPatienceMs);
    process.exit(1);
  };
  process.on('uncaughtException', (error) => {
    if (isDying) return;
    isDying = true;
    void die(error);
  });
}

/** Makes a link that signs in to the console once, in development where the console is served. @returns its path */
async function signInPath({ development, console: pages }: Config, database: Database): Promise<string | undefined> {
  if (!development || !pages.enabled) return undefined;
  return await offerSignIn(await openSessionStore(database), { ...development, now: systemClock.now() });
}

/** @param signIn the path of a link that signs in to the console */
function banner(
  { config, listening }: Server,
  { token, signIn }: { readonly token: DevelopmentToken | undefined; readonly signIn: string | undefined },
): string | undefined {
  if (!token) return undefined;
  const consoleText = renderSignIn(signIn, { publicUrl: config.console.publicUrl, listening });
  if (token.kind !== 'made') return renderTokenNote(token, consoleText);
  const listener = config.smtp.listeners.find(({ tls, credential }) => tls === 'starttls' && !credential);
  const route = config.delivery.routes.at(-1);
  const account = config.accounts.find(({ name }) => name === token.account);
  return renderBanner({
    token: token.token,
    account: token.account,
    domain: account?.sendingDomains[0]?.name ?? 'example.com',
    listening,
    listenerName: listener?.name ?? '',
    consoleText,
    certificateFile: join(config.certsDir, 'tls', config.smtp.hostname, 'fullchain.pem'),
    ...(route?.type === 'capture' ? { captureFolder: route.folder } : {}),
  });
}

/** What is served, with the text that the configuration was read from: a pipe cannot be read again. */
interface Serving {
  readonly config: Config;
  readonly text: string;
  /** Where the configuration is read from at a reload. */
  readonly place: ConfigSource;
  readonly io: CommandIo;
  readonly openedLog: OpenLog;
}

/** What is made and checked once, before the gateway or the processes open. */
async function prepare({ config, io, openedLog: { log } }: Serving, database: Database) {
  // Other gateways may keep a table locked for long: this is where the start waits for that.
  if ('url' in config.database) {
    const { tableMigrations } = await import('../app/wiring/table-versions.ts');
    for (const one of tableMigrations.postgres) await database.migrate(one);
  }
  const parts = { env: io.env, tokens: await openTokenStore(database), clock: systemClock };
  // What is missing ends the start, but hides no warning.
  for (const line of config.warnings) log.warn(line);
  const made = await bootstrap(config, parts);
  const read = readKeys(config);
  for (const line of [...made.missing, ...fileWarnings(config, read.keys, parts.clock.now())]) log.warn(line);
  const keys = wholeKeys(read);
  for (const file of made.made) log.info({ file }, 'made for development');
  return { keys, parts };
}

/** Opens a gateway in this process, or several processes. @param aboutToListen called before a place of HTTP is bound */
async function openServer(serving: Serving, signalled: Promise<unknown>, aboutToListen: () => Promise<void>) {
  const { config, place, io, openedLog } = serving;
  const { log } = openedLog;
  const database = await openDatabaseOf(config, { patienceMs: servingPatienceMs, onLost: endProcess, log });
  let isInUse = false;
  try {
    const { keys, parts } = await prepare(serving, database);
    isInUse = config.processes === 1;
    if (!isInUse) await aboutToListen();
    const server: Server = isInUse
      ? await (await import('../app/gateway.ts')).openGateway({
          config,
          keys,
          tokens: configuredTokens(config, io.env),
          globalKeys: configuredGlobalKeys(config, io.env),
          database,
          log,
          droppedLogLines: openedLog.dropped,
          load: async () => (await import('../app/wiring/load-settings.ts')).loadSettings(place, systemClock),
          place,
          aboutToListen,
        })
      : await (await import('../app/processes/open-processes.ts')).openProcesses({ ...serving, log, signalled });
    const isListening = server.listening.length > 0;
    const token = isListening ? await ensureDevelopmentToken(config, parts) : undefined;
    const signIn = isListening ? await signInPath(config, database) : undefined;
    if (!isInUse) await database.close();
    return { server, token, signIn };
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** Says that the server listens, in the log and in development by the banner. */
async function announce(
  { server, token, signIn }: Awaited<ReturnType<typeof openServer>>,
  { io, openedLog: { log, drain } }: Serving,
) {
  const { config, listening } = server;
  if (listening.length === 0) return;
  log.info({ listeners: listening, dataDir: config.dataDir }, 'listening');
  if (token?.kind === 'given' && token.revoked.length > 0) {
    const { account, credential, revoked } = token;
    log.warn({ account, credential, lastFour: revoked }, 'POSTERN_TOKEN replaces a token of an earlier start: revoked');
  }
  const text = banner(server, { token, signIn });
  if (text === undefined) return;
  // At a terminal, log and banner appear in one place: earlier lines of the log must come first.
  await drain(logPatienceMs);
  io.stderr.write(text);
}

/** Opens everything and serves until a signal. When something cannot be opened, what was opened before is closed again. */
async function serve(serving: Serving): Promise<void> {
  const { config, openedLog } = serving;
  const { log } = openedLog;
  const handHangups = onHangup();
  // Other servers open their logs anew by them. Node would open a debugger's port by the first, and end by the second without draining.
  for (const other of ['SIGUSR1', 'SIGUSR2'] as const)
    process.on(other, () => log.warn({ signal: other }, 'the signal means nothing: SIGHUP reloads, SIGTERM stops'));
  dieOnSurprise(openedLog);
  // Handled from the first moment on: one that comes early ends the gateway once it is open. A container's first process needs a handler.
  const { first: signalled, onSecond } = untilSignal();
  const opened = await startWaiting(config, { log, signalled }, (aboutToListen) =>
    openServer(serving, signalled, aboutToListen),
  );
  if (!opened) return;
  const { server } = opened;
  onSecond(() => server.kill?.());
  handHangups(server);
  const socket = await openServerSocket(config.dataDir, server, log);
  await announce(opened, serving);
  // A process that is killed later leaves what the next start needs.
  setTimeout(settleHeap, settleMs).unref();
  const signal = await signalled;
  handHangups(undefined);
  socket.close();
  log.info({ signal, drainSeconds: server.config.drainSeconds }, 'draining');
  await server.stop();
  log.info('stopped');
}

/** The configuration that the command line names. @throws UsageError for a wrong number of processes */
function configOf(
  io: CommandIo,
  { config: file, processes }: { readonly config?: string; readonly processes?: string },
) {
  const isNumber = /^[1-9]\d?$/.test(processes ?? '') && Number(processes) <= mostProcesses;
  if (processes !== undefined && processes !== 'auto' && !isNumber) {
    const want = `a whole number, 1 to ${mostProcesses}, or auto`;
    throw new UsageError(`--processes: got ${JSON.stringify(processes)}, want ${want}`);
  }
  const env = processes === undefined ? io.env : { ...io.env, POSTERN_PROCESSES: processes };
  const place = { env, cwd: io.cwd, ...(file === undefined ? {} : { file }) };
  try {
    const text = readConfigText(place);
    return { config: loadConfig({ ...place, text }), text, place: { ...place, isServed: true } };
  } catch (error) {
    if (processes === undefined || !(error instanceof ConfigurationError)) throw error;
    throw new ConfigurationError(error.message.replaceAll(/^POSTERN_PROCESSES: processes: /gm, '--processes: '));
  }
}

/** postern serve */
export const command = defineCommand({
  summary: 'Run the gateway in the foreground until SIGTERM',
  details: `With the shipped configuration: SMTP on 127.0.0.1:2587 (STARTTLS) and 127.0.0.1:2465 (TLS), REST
and health on 127.0.0.1:8080, mail captured into data/capture/new; keys, a certificate and a token are made at the first start.
POSTERN_RELAY=smtp://host:port relays for real. The environment's POSTERN_* wins over the file; docs/operations.md
lists it all. SIGHUP reads the configuration again, as "postern reload" does. SIGTERM stops accepting, finishes what is
in flight and exits 0. With --processes (or processes: in the file) several processes share the work and a PostgreSQL,
under a supervisor that starts them again when they die; docs/upkeep.md tells what holds over all of them.`,
  options: {
    processes: { value: 'N', summary: 'share the work between so many processes; auto: one for each core (default 1)' },
  },
  examples: [
    'postern serve',
    'POSTERN_RELAY=smtp://127.0.0.1:1025 postern serve',
    'postern serve --config /etc/postern/postern.yaml',
    'postern serve --processes auto',
  ],
  exitCodes: {
    1: 'the database could not be opened (one in PostgreSQL that is away is waited for), or something unexpected happened',
    78: 'the configuration is wrong, or a listener cannot be bound',
  },
  run: async ({ options }, io) => {
    if (cluster.isWorker) {
      // The supervisor reads the configuration again for all. A signal that goes to every process of a service must not end this.
      for (const signal of ['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => undefined);
      const signalled = untilSignal().first;
      const { serveAsProcess } = await import('../app/processes/serve-as-process.ts');
      return await serveAsProcess({ ...io, signalled, dieOnSurprise, patienceMs: servingPatienceMs });
    }
    const { config, text, place } = configOf(io, options);
    const openedLog = openLog(config.log.level);
    try {
      await serve({ config, text, place, io, openedLog });
      return 0;
    } finally {
      await openedLog.close(logPatienceMs);
    }
  },
});
