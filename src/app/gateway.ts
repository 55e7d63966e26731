// Builds every part of the gateway, connects the parts, listens, drains and stops. src/app/wiring has the code that connects them.

import { join } from 'node:path';
import { createAccounts } from '../accounts/accounts.ts';
import { Guessing } from '../accounts/guessing.ts';
import { createMinuteCounts } from '../accounts/minute-window.ts';
import { openTokenStore } from '../accounts/token-store.ts';
import type { ToldCounts } from '../accounts/told-counts.ts';
import { BodyBudget, defaultBodyLimit } from '../base/body-budget.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { Database } from '../base/database/database.ts';
import { ConfigurationError } from '../base/errors.ts';
import { lazily } from '../base/load/lazily.ts';
import type { Logger } from '../base/log.ts';
import type { CarrierAnswer, CarrierQuestion, MetricValues, ProcessGroup } from '../base/process-group.ts';
import type { DestinationView } from '../delivery/transport.ts';
import { customErrorMigrations } from '../edge/custom/custom-error-store.ts';
import { applicationMigrations } from '../proxy/store/application-tables.ts';
import { createQueueLines } from '../web/admin/queue/queue-groups.ts';
import { openConsole } from '../web/console/console.ts';
import { HttpApp } from '../web/http/app.ts';
import { createMetrics } from '../web/http/metrics.ts';
import type { Config, ConfigSource } from './config/config.ts';
import { GatewayAddresses, type Listening } from './wiring/addresses.ts';
import { CertificateWatch } from './wiring/certificate-watch.ts';
import { changeSettings } from './wiring/change-settings.ts';
import type { ConsoleSources, LoadState } from './wiring/console/console-endpoints.ts';
import { type Figures, openFigures } from './wiring/console/figures.ts';
import { httpAppParts, httpMetrics, httpsCertificates, listenHttp } from './wiring/http.ts';
import { type Live, liveAccounts, pageMarksOf, type Settings, type Shared } from './wiring/in-force.ts';
import { LiveEdge } from './wiring/live/live-edge.ts';
import { type LiveProxy, openLiveProxy, proxyConfigured } from './wiring/live/live-proxy.ts';
import { certificateOf, type Mail, openMail } from './wiring/mail.ts';
import { observeMetrics, processMetrics } from './wiring/metrics/process-metrics.ts';
import { Reloader, type ReloadOutcome } from './wiring/reload.ts';
import { type Running, stopAll } from './wiring/running.ts';
import { openWebhooks, type Webhooks } from './wiring/webhooks.ts';

/** A server at work, of one process or of several. */
export interface Server {
  /** Every listener that is open now, SMTP and HTTP; empty where a signal came before. */
  readonly listening: readonly Listening[];
  readonly config: Config;
  /** Puts the configuration in force anew, whole or not at all; connections stay open. Never rejects. @param why who asked */
  reload(why: string): Promise<ReloadOutcome>;
  destinations(): readonly DestinationView[] | Promise<readonly DestinationView[]>;
  /** Stops accepting connections, lets DATA in flight finish, and closes everything (D97), within the drain time and a second. */
  stop(): Promise<void>;
  /** Ends processes of the server beside this one at once. */
  kill?(): void;
}

/** A running gateway: a server of this process alone, or one of the processes of a server. */
export interface Gateway extends Server {
  metrics(): Promise<MetricValues>;
  /** Whether it serves and takes mail: this process alone. */
  isReady(): boolean;
  applications(question: CarrierQuestion): Promise<CarrierAnswer>;
}

/** What the gateway is made from. */
export interface GatewayParts
  extends Omit<Settings, 'globalKeys' | 'pageMarks'>,
    Partial<Pick<Settings, 'globalKeys'>> {
  /** The database of all tables but the spool's, which has connections of its own. The gateway closes it. */
  readonly database: Database;
  readonly log: Logger;
  /** Log lines lost since the start; none if absent. */
  readonly droppedLogLines?: () => number;
  /** Reads the configuration again for a reload; where absent, every reload is refused. */
  readonly load?: () => Promise<Settings>;
  /** Where the file is that the configuration came from, and what it is read with; absent: the console shows no changes of it. */
  readonly place?: ConfigSource;
  /** Where reloads are told; absent: `log`. */
  readonly reloadLog?: Logger;
  /** Milliseconds from one check for renewed certificates to the next; 60,000 if absent. */
  readonly certificatesEveryMs?: number;
  readonly clock?: Clock;
  /** The processes that share the work, this one among them; absent: there is one. */
  readonly group?: ProcessGroup | undefined;
  /** Called before a place of HTTP is bound: whoever listens there meanwhile leaves it. */
  readonly aboutToListen?: () => Promise<void>;
}

type Opening = GatewayParts & { readonly clock: Clock };

const failedStartDrainMs = 3000;

/** Opens everything and listens; what fails closes the rest. @throws ConfigurationError where the configuration or a port is at fault */
export async function openGateway(parts: GatewayParts): Promise<Gateway> {
  const { log, config } = parts;
  const clock = parts.clock ?? systemClock;
  const running: Running = { isDraining: false, stores: [() => parts.database.close()], askers: [parts.database] };
  try {
    return await openParts({ ...parts, clock }, running);
  } catch (error) {
    const drainMs = Math.min(config.drainSeconds * 1000, failedStartDrainMs);
    await stopAll(running, { drainMs, clock }).catch((err: unknown) => {
      log.error({ err }, 'not everything could be closed after a failed start');
    });
    throw error;
  }
}

/** Whether the gateway takes requests: from the end of its start to the beginning of its drain. */
interface Readiness {
  isReady: boolean;
  /** How the configuration in force came to be; absent before there is what reloads it. */
  loadState?: () => LoadState;
}

/** What counts together with the other gateways of the database, where the configuration asks for it (D91a). */
async function shareLimits({ config, database, clock, log }: Opening): Promise<ToldCounts | undefined> {
  if (config.database.engine !== 'postgres' || !config.database.shareLimits) return undefined;
  const { ToldCounts: Counts } = await import('../accounts/told-counts.ts');
  return await Counts.open(database, { clock, log, minutes: createMinuteCounts(() => clock.monotonic()) });
}

async function httpPartsOf(made: {
  readonly parts: Opening;
  readonly shared: Shared;
  readonly mail: Mail;
  readonly webhooks: Webhooks;
  readonly figures: Figures;
  readonly addresses: GatewayAddresses;
  readonly readiness: Readiness;
  readonly running: Running;
}) {
  const { parts, shared, mail, webhooks, figures, addresses, readiness, running } = made;
  const { live, group, clock, log } = shared;
  const startedAt = clock.now();
  const isServing = (): boolean => readiness.isReady && !running.isDraining;
  const isReady = (): boolean => isServing() && !mail.fault();
  const streams = lazily(async () => {
    const { LiveStreams } = await import('../web/admin/journal/live-endpoint.ts');
    return new LiveStreams({ journal: mail.journal, events: mail.spool.events, places: group?.places }, isServing);
  });
  const isServed = (): boolean => live.current.config.console.enabled;
  const pages = await openConsole({ ...shared, minutes: group?.minutes, isServing, isServed });
  const lines = createQueueLines(mail.spool, clock);
  figures.sample(mail.spool, lines);
  const sources: ConsoleSources = {
    ...{ spool: mail.spool, figures, lines, clock, log },
    destinations: () => mail.delivery.destinations(),
    docsBaseUrl: () => addresses.docsBaseUrl(),
    loadState: () => readiness.loadState?.() ?? { loaded_at: new Date(startedAt).toISOString(), last_reload: null },
    place: parts.place,
  };
  return { ...shared, mail, webhooks, streams, pages, sources, isServing, isReady };
}

async function openProxy({ database, group, metrics, ownDoors, clock, log }: Shared, config: Config) {
  const proxyParts = {
    ...proxyConfigured(config),
    ...{ database, ownDoors, clock, log },
    tlsFolder: join(config.certsDir, 'tls'),
    askCarrier: group && ((question: CarrierQuestion) => group.askCarrier(question)),
  };
  // What comes with its first use finds its tables up to date: that use may be while another program holds the lock.
  for (const one of [customErrorMigrations, applicationMigrations]) await database.migrate(one);
  return await openLiveProxy(proxyParts, (families) => metrics.add({ families }));
}

/** Makes every part, in order, and adds each to `running` as soon as it exists. Nothing listens yet. */
async function makeParts(parts: Opening, running: Running, readiness: Readiness) {
  const { config, keys, log, database, group, clock, tokens, globalKeys = [] } = parts;
  const store = await openTokenStore(database);
  const first = createAccounts({ accounts: config.accounts, tokens, globalKeys, store, clock });
  const live: Live = { current: { config, keys, tokens, globalKeys, pageMarks: pageMarksOf(config), accounts: first } };
  const accounts = liveAccounts(live);
  const onFailure = group && ((address: string) => group.tellFailure(address));
  const guessing = new Guessing({ onFailure, places: group?.places });
  group?.hearFailures((address) => guessing.heard(address));
  const bodies = new BodyBudget(config.limits.bodiesInFlightBytes ?? defaultBodyLimit());
  const told = await shareLimits(parts);
  if (told) running.stores.push(() => told.close());
  const metrics = createMetrics(group && ((own) => group.sumMetrics(own)));
  const inForce = (): Config => live.current.config;
  const addresses = new GatewayAddresses(inForce);
  const figures = await openFigures({ database, config: inForce, clock, log }, running);
  const edge = new LiveEdge({
    ...{ database, group, told, clock, log },
    limits: () => inForce().edge.limits,
    docsBaseUrl: () => addresses.docsBaseUrl(),
    onRequest: (count) => {
      metrics.edgeRequest(count);
      figures.edgeRequest(count);
    },
    onCutOff: (zone) => metrics.rulesCutOff(zone),
  });
  running.edge = edge;
  const firstEdge = await edge.prepare(config);
  firstEdge.commit();
  const shared: Shared = {
    ...{ live, accounts, tokens: store, database, bodies, guessing, metrics, group, told, clock, log },
    onDuty: (begin) => (group ? group.onDuty(begin) : begin()),
    ownDoors: () => addresses.ownDoors(),
  };
  const mail = await openMail(shared, running);
  const { events } = mail.spool;
  figures.follow(events);
  const webhooks = await openWebhooks(shared, events, running);
  const proxy = await openProxy(shared, config);
  running.proxy = proxy;
  const httpParts = await httpPartsOf({ ...{ parts, shared, mail, webhooks, figures, addresses }, readiness, running });
  const http = new HttpApp(httpAppParts({ ...httpParts, settings: live.current, edge: firstEdge, proxy }));
  running.http = http;
  return { ...shared, addresses, edge, mail, webhooks, proxy, httpParts, http };
}

/** Makes what renews parts while the gateway runs: certificates by themselves, the configuration when a reload is asked for. */
function makeRenewal(parts: Opening, made: Awaited<ReturnType<typeof makeParts>>, running: Running) {
  const { live, mail, http, clock, log } = made;
  const certificates = new CertificateWatch({
    ...{ live, clock, log },
    onRenewed: ({ host }) => {
      const { current } = live;
      if (host === current.config.smtp.hostname) mail.door.showCertificate(certificateOf(current.keys, host));
      if (current.config.http.tlsListen) http.showCertificate(httpsCertificates(current));
    },
    everyMs: parts.certificatesEveryMs,
  });
  const { group } = parts;
  const agree = group && (() => group.agree());
  const changing = { ...made, certificates, agree, isDraining: () => running.isDraining };
  const reloader = new Reloader({
    load: parts.load ?? (() => Promise.reject(new ConfigurationError('There is no configuration to read again'))),
    apply: (settings) => changeSettings(changing, settings),
    clock,
    log: parts.reloadLog ?? log,
  });
  return { certificates, reloader };
}

async function startProxy(proxy: LiveProxy, { group, log }: Opening, onDuty: Shared['onDuty']): Promise<void> {
  if (!group) return await proxy.start();
  const notStarted = (err: unknown): void => log.error({ err }, 'the proxy applications could not be started');
  onDuty(() => void proxy.start().catch(notStarted));
}

async function openParts(parts: Opening, running: Running): Promise<Gateway> {
  const readiness: Readiness = { isReady: false };
  const made = await makeParts(parts, running, readiness);
  const { live, addresses, edge, mail, webhooks, proxy, http, metrics, bodies, guessing, onDuty, clock } = made;
  const { certificates, reloader } = makeRenewal(parts, made, running);
  readiness.loadState = () => reloader.state();
  const ofProcess = processMetrics({ bodies, guessing, droppedLogLines: parts.droppedLogLines ?? (() => 0) });
  const given = [mail, webhooks, httpMetrics(http, edge), ofProcess, certificates, reloader];
  for (const one of [...given, observeMetrics(() => live.current.config)]) metrics.add(one);
  // Before anything listens, so that no mail is taken under a configuration whose applications break a rule.
  await proxy.seed();
  await mail.delivery.start();
  onDuty(() => mail.notifier.start());
  await webhooks.configure();
  await webhooks.start();
  mail.tlsReporter.start();
  addresses.setMail(await mail.door.listen());
  // Last, since one of several processes shares the port: what comes to it before it is ready is 503, while others would answer.
  await parts.aboutToListen?.();
  addresses.setHttp(await listenHttp(http, live));
  await startProxy(proxy, parts, onDuty);
  certificates.start();
  readiness.isReady = true;
  return {
    get listening() {
      return addresses.listening;
    },
    get config() {
      return live.current.config;
    },
    reload: (why) => reloader.reload(why),
    isReady: made.httpParts.isReady,
    destinations: () => mail.delivery.destinations(),
    metrics: () => metrics.values(),
    applications: (question) => proxy.tell(question),
    async stop() {
      // A reload under way is finished before anything is closed, so that it cannot open something afterwards.
      await reloader.stop();
      certificates.stop();
      mail.outcomes.release();
      guessing.close();
      await stopAll(running, { drainMs: live.current.config.drainSeconds * 1000, clock });
    },
  };
}
