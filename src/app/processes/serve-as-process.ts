// One of several processes that serve: gets its configuration from the supervisor, and ends when told to or when that is gone.

import cluster from 'node:cluster';
import { defaultBodyLimit } from '../../base/body-budget.ts';
import { systemClock } from '../../base/clock.ts';
import { ConfigurationError, endProcess, errorMessage, Unavailable } from '../../base/errors.ts';
import { settleHeap } from '../../base/load/compiled-code.ts';
import { type OpenLog, openLog, silentLog } from '../../base/log.ts';
import { defaultConnections } from '../../delivery/settings.ts';
import { loadKeys } from '../bootstrap/bootstrap.ts';
import { type Config, type ConfigSource, loadConfig } from '../config/config.ts';
import { configuredGlobalKeys, configuredTokens, type Environment, missingSecrets } from '../config/secrets.ts';
import { openGateway } from '../gateway.ts';
import { openDatabaseOf } from '../wiring/engine/open-stores.ts';
import { loadSettings } from '../wiring/load-settings.ts';
import { withPorts } from './fixed-ports.ts';
import { type StartOrder, type ToProcess, temporaryFailure } from './messages.ts';
import { type Channel, SupervisorLink } from './supervisor-link.ts';

/** The configuration of one of `count` processes, with its part of memory and connections; limits of one next hop are leased instead. */
function shareOfConfig(config: Config, count: number): Config {
  const bodies = config.limits.bodiesInFlightBytes ?? defaultBodyLimit();
  const { delivery } = config;
  return {
    ...config,
    limits: { ...config.limits, bodiesInFlightBytes: Math.floor(bodies / count) },
    delivery: { ...delivery, connections: Math.ceil((delivery.connections ?? defaultConnections) / count) },
  };
}

/** How the process is run. */
export interface ProcessParts {
  readonly env: Environment;
  readonly cwd: string;
  readonly signalled: Promise<unknown>;
  /** Has errors that nobody caught logged, and the process end. */
  readonly dieOnSurprise: (log: OpenLog) => void;
  /** How long a change of the database waits for a lock, in milliseconds. */
  readonly patienceMs: number;
}

/** How long the last lines of the log may take to be written, in milliseconds. */
const logPatienceMs = 1000;

const channel: Channel = {
  // A supervisor that is gone is told of by `disconnect`.
  send: (message, done) => void process.send?.(message, undefined, undefined, () => done?.()),
  on: (event, listener) => void process.on(event, listener),
};

/** What a process is started with, and its link to the supervisor. */
interface Started {
  readonly order: StartOrder;
  readonly link: SupervisorLink;
}

/** Says that this process hears, and waits for what it is to start with; undefined where the supervisor is gone. */
function greet(): Promise<Started | undefined> {
  return new Promise((resolve) => {
    process.once('disconnect', () => resolve(undefined));
    channel.on('message', (message: ToProcess) => {
      // The link is made at once, so that it hears what comes right behind.
      if (message.kind === 'start') resolve({ order: message, link: new SupervisorLink(channel, message) });
    });
    channel.send({ kind: 'hello' });
  });
}

async function open({ env, cwd, patienceMs }: ProcessParts, { order, link }: Started, openedLog: OpenLog) {
  const place: ConfigSource = { env, cwd, isServed: true, ...(order.file === undefined ? {} : { file: order.file }) };
  const placeOf = (text: string): ConfigSource => ({ ...place, text });
  const ownOf = (given: Config): Config => withPorts(shareOfConfig(given, order.count), order.ports);
  const config = ownOf(loadConfig(placeOf(order.text)));
  // As at a start: else whoever has such a token would be refused here, and served by the others.
  const missing = config.development ? [] : missingSecrets(config, env);
  if (missing.length > 0) throw new ConfigurationError(missing.join('\n'));
  const database = await openDatabaseOf(config, { patienceMs, onLost: endProcess, log: openedLog.log });
  let { text } = order;
  const gateway = await openGateway({
    config,
    keys: loadKeys(config),
    tokens: configuredTokens(config, env),
    globalKeys: configuredGlobalKeys(config, env),
    database,
    log: openedLog.log,
    droppedLogLines: openedLog.dropped,
    reloadLog: silentLog,
    place,
    group: link,
    load: async () => {
      const settings = await loadSettings(placeOf(text), systemClock);
      return { ...settings, config: ownOf(settings.config) };
    },
  });
  setTimeout(settleHeap, 2000).unref();
  link.obey({
    reload: (next) => {
      text = next;
      return gateway.reload('supervisor');
    },
    values: () => gateway.metrics(),
    destinations: async () => gateway.destinations(),
    ready: async () => gateway.isReady(),
    applications: (question) => gateway.applications(question),
  });
  return gateway;
}

function tellFailure(link: SupervisorLink, error: unknown): Promise<void> {
  const exitCode =
    error instanceof ConfigurationError ? error.exitCode : error instanceof Unavailable ? temporaryFailure : 1;
  return new Promise((resolve) => link.tell({ kind: 'failed', exitCode, reason: errorMessage(error) }, resolve));
}

/** Serves as one of several processes, until it is told to drain, gets a signal, or the supervisor is gone. @returns the exit code */
export async function serveAsProcess(parts: ProcessParts): Promise<number> {
  // Without this, node:cluster would end the process at once when the supervisor is gone.
  cluster.worker?.on('disconnect', () => {
    if (cluster.worker) cluster.worker.exitedAfterDisconnect = true;
  });
  const started = await greet();
  if (!started) return 1;
  const { order, link } = started;
  process.once('disconnect', () => link.gone());
  const openedLog = openLog('info', undefined, order.number);
  parts.dieOnSurprise(openedLog);
  const { log } = openedLog;
  try {
    // Whoever waits for a socket of the supervisor would wait for ever once that is gone.
    const withoutSupervisor = link.isGone.then(() => {
      throw new Error('the supervisor was gone before this process had started');
    });
    const gateway = await Promise.race([open(parts, started, openedLog), withoutSupervisor]);
    log.level = gateway.config.log.level;
    link.tell({ kind: 'serving', listening: gateway.listening });
    const why = await Promise.race([link.drained, parts.signalled]);
    if (why === 'gone') log.error('the supervisor is gone: this process drains and ends');
    else if (why !== 'drain') {
      link.tell({ kind: 'draining' });
      log.info({ signal: why }, 'draining');
    }
    await gateway.stop();
    return 0;
  } catch (error) {
    await tellFailure(link, error);
    return error instanceof ConfigurationError ? error.exitCode : 1;
  } finally {
    await openedLog.close(logPatienceMs);
    if (process.connected) process.disconnect();
  }
}
