// Builds every part, joins them, listens, drains, stops: the only file that knows them all.

import { join } from 'node:path';
import type { Account } from './accounts/account.ts';
import type { Accounts } from './accounts/accounts.ts';
import { createAccounts, type GlobalKeyHash, type TokenHash } from './accounts/create-accounts.ts';
import { createGuessing } from './accounts/guessing.ts';
import { createLimits, type LimitVerdict } from './accounts/limits.ts';
import { systemDns } from './admin/check-records.ts';
import { domainEndpoints } from './admin/domain-endpoints.ts';
import { type RecordFacts, spfSenders } from './admin/domain-records.ts';
import { suppressionEndpoints } from './admin/suppression-endpoints.ts';
import { tokenEndpoints } from './admin/token-endpoints.ts';
import { createBodyBudget, defaultBodyLimit } from './base/body-budget.ts';
import { type Clock, systemClock } from './base/clock.ts';
import type { DatabaseSync } from './base/database/database.ts';
import { ServingDatabase } from './base/database/serving-database.ts';
import { ConfigurationError } from './base/errors.ts';
import type { Logger } from './base/log.ts';
import { defaultTlsHost, type Keys } from './bootstrap.ts';
import { formatHostPort } from './config/addresses.ts';
import type { Config } from './config.ts';
import { createDelivery, type Delivery } from './deliver/delivery.ts';
import { laneOf, routeFor } from './deliver/router.ts';
import { edgeAccounts, type OpenEdge, openEdge } from './edge/open-edge.ts';
import { createSuppressionStore } from './feedback/suppression-store.ts';
import { type BoundHttp, createHttpApp, type HttpApp, type V4Plugin } from './http/app.ts';
import { serverCertificates } from './http/listener/server-certificates.ts';
import { createMetrics, type GaugeSource, type MetricFamily } from './http/metrics.ts';
import { createOutcomeWatch } from './ingress/rest/outcome-watch.ts';
import { restDoor } from './ingress/rest/rest-door.ts';
import { createSmtpDoor, type SmtpDoor } from './ingress/smtp/smtp-door.ts';
import type { OwnDoor } from './proxy/application/own-doors.ts';
import { createProxy, type Proxy, proxyAccounts } from './proxy/proxy.ts';
import { openIdempotencyKeys } from './spool/idempotency-keys.ts';
import type { Spool } from './spool/spool.ts';
import { spoolMetrics } from './spool/spool-metrics.ts';
import { openSqliteSpool, type SqliteSpool, type SqliteSpoolOptions } from './spool/sqlite/sqlite-spool.ts';
import {
  type Accepted,
  type BuildParts,
  build,
  createSubmit,
  examine,
  restAnswers,
  type Submit,
  type Violation,
} from './submit.ts';

/** A bound address. */
export interface Listening {
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

/** A running gateway. */
export interface Gateway {
  /** Every listener that is up, SMTP and HTTP. */
  readonly listening: readonly Listening[];
  /**
   * Stops accepting, lets DATA in flight finish, commits and records, closes (D97). Resolves within the drain time
   * and a second.
   */
  stop(): Promise<void>;
}

/** What the gateway is made from. */
export interface GatewayParts {
  readonly config: Config;
  readonly keys: Keys;
  /** Tokens of the configuration and the environment, as hashes. */
  readonly tokens: readonly TokenHash[];
  readonly globalKeys?: readonly GlobalKeyHash[];
  /** The embedded database, for accounts and limits; the spool has connections of its own. The gateway closes it. */
  readonly database: DatabaseSync;
  readonly log: Logger;
  /** Log lines lost since the start; none if absent. */
  readonly droppedLogLines?: () => number;
  readonly clock?: Clock;
}

/** Opens the spool of the embedded database; the queue commands open it beside a running server (D94). */
export function openSpool(
  config: Config,
  hooks: Pick<SqliteSpoolOptions, 'log' | 'onLost' | 'onRemoved'> = {},
): Promise<SqliteSpool> {
  const { database, dataDir, spool: limits } = config;
  return openSqliteSpool({ file: database.file, bodiesFolder: join(dataDir, 'bodies'), limits, ...hooks });
}

/** @throws Unavailable while the spool takes no mail */
function checkSpool({ unavailable }: Spool): void {
  if (unavailable) throw unavailable;
}

/** A gateway without its spool refuses everything and says that it is ready: the process ends, to be started again. */
function endProcess(error: Error): void {
  setImmediate(() => {
    throw error;
  });
}

/** What building a message needs, from configuration, keys and accounts; `postern check` builds with the same. */
export function buildParts(config: Config, keys: Keys, accounts: Accounts, clock: Clock): BuildParts {
  const { routes } = config.delivery;
  return {
    clock,
    hostname: config.smtp.hostname,
    platform: { domain: config.platform.domain, bounceDomain: config.platform.bounceDomain, hmacKey: keys.hmacKey },
    sendingDomain: (account, domain) => accounts.sendingDomain(account, domain),
    domainKeys: (domain) => keys.signing.get(domain) ?? [],
    platformKeys: keys.platform,
    wantsPlatformSignature: (account, recipients) =>
      recipients.some((recipient) => routeFor(routes, { account, recipient }).platformSignature),
  };
}

/** What the DNS records of a configuration's sending domains are made of. */
export function recordFacts({ platform, smtp, delivery }: Config): RecordFacts {
  return {
    bounceDomain: platform.bounceDomain,
    mailHost: smtp.hostname,
    senders: spfSenders(delivery.routes, smtp.hostname),
  };
}

function acceptedFacts({ entry, submission, stripped }: Accepted): Readonly<Record<string, unknown>> {
  return {
    session: entry.sessionId,
    id: entry.id,
    messageId: entry.messageId,
    clientMessageId: entry.clientMessageId,
    account: entry.account,
    credential: entry.credential,
    via: submission.via.kind,
    client: submission.via.remoteAddress,
    helo: submission.via.helo,
    from: entry.senderPath,
    recipients: entry.recipients.length,
    size: submission.size,
    ...(stripped.length > 0 ? { stripped } : {}),
  };
}

/** A limit that is reached as a reason (D42a). */
function rateViolation(account: Account, verdict: LimitVerdict): Violation | undefined {
  if (verdict.allowed) return undefined;
  const limit =
    verdict.code === 'E_RATE_LIMIT_EXCEEDED'
      ? `${account.limits.messagesPerMinute} messages a minute`
      : `${account.limits.recipientsPerDay} recipients a day`;
  return {
    code: verdict.code,
    message: `Account ${account.name} is limited to ${limit}; try again in ${verdict.retryAfterSeconds} s`,
    retryAfterSeconds: verdict.retryAfterSeconds,
  };
}

/** What listeners are to be bound to; a port 0 is known only once it is bound (D84). */
export function configuredDoors({ smtp, http }: Config): readonly OwnDoor[] {
  return [...smtp.listeners, http.listen, ...(http.tlsListen ? [http.tlsListen] : [])]
    .map(({ host, port }) => ({ host, port }))
    .filter(({ port }) => port !== 0);
}

/** What is open and must be ended: listeners and runners, then, in the order opened, what they write to. */
interface Running {
  door?: Pick<SmtpDoor, 'drain'>;
  http?: Pick<HttpApp, 'close'>;
  edge?: Pick<OpenEdge, 'close'>;
  delivery?: Pick<Delivery, 'drain'>;
  proxy?: Pick<Proxy, 'drain'>;
  isDraining: boolean;
  /** Told first of all. */
  onDrain?: () => void;
  readonly stores: (() => void | Promise<void>)[];
}

/** HTTP, which tells by /readyz that the rest is ending, has at most so long for its own end. */
const httpEndMs = 5000;
/** What a failed start has begun may take so long to end. */
const failedStartDrainMs = 3000;

/**
 * Ends everything, whatever of it is there: mail and proxy applications first, HTTP last, so that /readyz says 503 while
 * they drain (D97), then the stores. Every part is ended even if another cannot be; the first error is thrown then.
 */
async function stopAll(running: Running, { drainMs, clock }: { drainMs: number; clock: Clock }): Promise<void> {
  running.isDraining = true;
  running.onDrain?.();
  const deadline = clock.monotonic() + drainMs;
  // All at once: an attempt that delivery began while sessions drain would be cut at the deadline, perhaps between the
  // end of its data and the reply, and sent again after the next start.
  const mail = Promise.allSettled([
    running.door?.drain(drainMs),
    running.delivery?.drain(drainMs),
    running.proxy?.drain(drainMs),
  ]);
  const endOfHttpMs = Math.min(httpEndMs, drainMs / 2);
  let patience: NodeJS.Timeout | undefined;
  await Promise.race([mail, new Promise((resolve) => (patience = setTimeout(resolve, drainMs - endOfHttpMs)))]);
  clearTimeout(patience);
  const leftMs = Math.max(endOfHttpMs, deadline - clock.monotonic());
  const others = await Promise.allSettled([running.http?.close(leftMs), running.edge?.close(leftMs)]);
  const ends: PromiseSettledResult<unknown>[] = [...(await mail), ...others];
  for (const close of running.stores.toReversed()) {
    ends.push(...(await Promise.allSettled([(async () => close())()])));
  }
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed) throw failed.reason;
}

/**
 * Opens everything and listens. When a part fails, what was opened before it is closed again within a few seconds.
 * @throws ConfigurationError where the configuration or a listener is at fault; else what failed
 */
export async function openGateway(parts: GatewayParts): Promise<Gateway> {
  const { log, config } = parts;
  const clock = parts.clock ?? systemClock;
  const running: Running = { isDraining: false, stores: [() => parts.database.close()] };
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

async function openParts(parts: GatewayParts & { readonly clock: Clock }, running: Running): Promise<Gateway> {
  const { config, keys, log, database, clock } = parts;
  const accounts = createAccounts({
    accounts: config.accounts,
    tokens: parts.tokens,
    globalKeys: parts.globalKeys ?? [],
    database,
    clock,
  });
  const limits = createLimits(database, clock);
  running.stores.push(() => limits.close());
  const guessing = createGuessing();
  const bodies = createBodyBudget(config.limits.bodiesInFlightBytes ?? defaultBodyLimit());
  let boundHttp: BoundHttp = config.http.listen;
  const edge = openEdge({
    database,
    zones: config.zones,
    accounts: edgeAccounts(config.accounts, config.edgeAccounts),
    settings: config.edge,
    apiHosts: config.http.apiHosts,
    docsBaseUrl: () => config.http.docsBaseUrl ?? `http://${formatHostPort(boundHttp)}`,
    clock,
    log,
    onRequest: (count) => metrics.edgeRequest(count),
  });
  running.edge = edge;
  const suppressions = createSuppressionStore(database, clock);
  const suppressed = (account: Account, recipient: string) => suppressions.isSuppressed(account.id, recipient);
  let removedFailures = 0;
  const spool = await openSpool(config, {
    log,
    onLost: endProcess,
    onRemoved: ({ messages }) => (removedFailures += messages),
  });
  running.stores.push(() => spool.close());
  const delivery = createDelivery({
    spool,
    settings: config.delivery,
    clock,
    log,
    onOutcome: ({ entry, recipient, route, outcome }) => {
      metrics.outcome({ kind: outcome.kind, route });
      outcomes.tell(entry.sessionId, recipient, outcome.kind);
    },
  });
  running.delivery = delivery;
  const outcomes = createOutcomeWatch();
  const building = buildParts(config, keys, accounts, clock);
  const pipeline: Submit = createSubmit({
    ...building,
    spool,
    charge: ({ submitter: { account }, envelope }) =>
      rateViolation(account, limits.take(account, envelope.recipients.length)),
    refund: ({ submitter, envelope }) => limits.giveBack(submitter.account, envelope.recipients.length),
    laneOf: laneOf(config.delivery.routes),
    expireAfterSeconds: config.delivery.retry.expireAfterSeconds,
    onAccepted: (accepted) => {
      const { entry } = accepted;
      metrics.accepted({ recipients: entry.recipients.length, bytes: entry.head.length + entry.body.length });
      log.info(acceptedFacts(accepted), 'accepted');
      delivery.deliverNow(entry);
    },
    onRefused: (violations) => metrics.refused(violations[0]?.code ?? 'E_INTERNAL_SERVER_ERROR'),
  });
  // Asked before a message is built and signed, too.
  const submit: Submit = async (submission) => {
    checkSpool(spool);
    return await pipeline(submission);
  };
  const tls = (host: string): { readonly cert: string; readonly key: string } => {
    const found = keys.tls.get(host);
    if (!found) throw new ConfigurationError(`No certificate for ${host}`);
    return { cert: found.certificate, key: found.privateKey };
  };
  const door = createSmtpDoor({
    settings: config.smtp,
    accounts,
    submit,
    log,
    clock,
    tls,
    bodies,
    guessing,
    suppressed,
    rateLimit: (account, recipients) => {
      checkSpool(spool);
      return rateViolation(account, limits.ask(account, recipients));
    },
    onRefused: (code) => metrics.refused(code),
  });
  running.door = door;
  const listening: Listening[] = [];
  const proxy = createProxy({
    database,
    zones: config.zones,
    accounts: proxyAccounts(config.accounts, config.edgeAccounts),
    settings: config.proxy,
    file: config.file,
    tlsFolder: join(config.certsDir, 'tls'),
    ownDoors: () => [...configuredDoors(config), ...listening],
    drainMs: config.drainSeconds * 1000,
    clock,
    log,
  });
  running.proxy = proxy;
  const bodyRefusals: MetricFamily = {
    kind: 'counter',
    name: 'postern_body_refusals_total',
    help: 'Bodies refused because there was no room in memory, by door',
    label: 'door',
    read: () => Object.entries(bodies.refusals),
  };
  const ofSpool = spoolMetrics(spool, () => removedFailures);
  const gauges: readonly GaugeSource[] = [
    ...ofSpool.gauges,
    {
      name: 'postern_delivery_in_hand',
      help: 'Messages in hand, each once for every route that it goes by',
      read: () => delivery.metrics().inHand,
    },
    {
      name: 'postern_delivery_connections',
      help: 'Connections to next hops open now',
      read: () => delivery.metrics().connections,
    },
    {
      name: 'postern_delivery_left_to_spool',
      help: 'Accepted messages since the start that wait in the spool because their route had its share in hand',
      read: () => delivery.metrics().leftToSpool,
    },
    { name: 'postern_smtp_connections', help: 'SMTP connections open now', read: () => door.counts().connections },
    {
      name: 'postern_http_connections',
      help: 'HTTP and HTTPS connections open now',
      read: () => http.open().connections,
    },
    { name: 'postern_http_requests', help: 'HTTP answers under way now', read: () => http.open().answers },
    {
      name: 'postern_http_waiting_octets',
      help: 'Octets that clients sent behind requests whose answers are under way',
      read: () => http.open().waitingOctets,
    },
    {
      name: 'postern_edge_requests_open',
      help: 'Requests to the edge and upgraded connections open now',
      read: () => edge.requests(),
    },
    {
      name: 'postern_edge_origin_requests',
      help: 'Requests and upgraded connections that origins have open now',
      read: () => edge.open(),
    },
    {
      name: 'postern_log_lines_dropped',
      help: 'Log lines lost since the start, because the output took none',
      read: parts.droppedLogLines ?? (() => 0),
    },
    {
      kind: 'counter',
      name: 'postern_smtp_auth_failures_total',
      help: 'Failed AUTH commands',
      read: () => door.counts().authFailures,
    },
    {
      kind: 'counter',
      name: 'postern_http_auth_failures_total',
      help: 'Requests with a wrong token or key',
      read: () => http.authFailures(),
    },
    {
      name: 'postern_body_bytes_held',
      help: 'Memory counted for bodies under way, SMTP and HTTP',
      read: () => bodies.held,
    },
    { name: 'postern_body_bytes_limit', help: 'Memory that bodies under way may have', read: () => bodies.limit },
    {
      name: 'postern_auth_waiting',
      help: 'Logins, and answers to wrong tokens, that wait now, SMTP and HTTP',
      read: () => guessing.waiting,
    },
  ];
  const refusedConnections: MetricFamily = {
    kind: 'counter',
    name: 'postern_http_connections_refused_total',
    help: 'HTTP and HTTPS connections over a limit: of all, or of one address',
    label: 'limit',
    read: () => Object.entries(http.refusedConnections()),
  };
  const metrics = createMetrics(gauges, [...ofSpool.families, bodyRefusals, refusedConnections, ...proxy.metrics]);
  let isReady = false;
  const rest = restDoor({
    limits: config.rest.limits,
    submit,
    examine: (submission) => examine(submission, building),
    preview: async (submission) => {
      const built = await build(submission, building);
      return built.ok ? { ok: true, head: built.signed.head, bodyOctets: built.signed.body.length } : built;
    },
    keys: openIdempotencyKeys(database, clock),
    outcomes,
    log,
    suppressed,
    onRefused: (token) => metrics.refused(token),
  });
  const plugins: readonly V4Plugin[] = [
    rest,
    suppressionEndpoints({ suppressions, clock, log }),
    tokenEndpoints({ database, clock, log }),
    ...edge.plugins,
    domainEndpoints({
      domainKeys: (domain) => keys.signing.get(domain) ?? [],
      facts: recordFacts(config),
      dns: systemDns(),
    }),
    ...proxy.plugins,
  ];
  const accountOfZone = new Map(config.zones.map(({ id, account }) => [id, account]));
  const http = createHttpApp({
    answers: restAnswers,
    accounts,
    accountOfZone: (zone) => accountOfZone.get(zone),
    bodies,
    guessing,
    clock,
    log,
    ready: () => isReady && !running.isDraining && !spool.unavailable,
    takesRequests: () => isReady && !running.isDraining,
    metrics: () => metrics.render(),
    trustedProxies: config.edge.trustedProxies,
    plugins,
    front: edge.front,
    limits: config.http.limits,
  });
  running.http = http;
  const listenHttp = async (): Promise<readonly Listening[]> => {
    const { listen, tlsListen } = config.http;
    boundHttp = await http.listen(listen);
    const plain = { name: 'http', ...boundHttp };
    if (!tlsListen) return [plain];
    const bound = await http.listen(tlsListen, serverCertificates(keys.tls, defaultTlsHost(config)));
    return [plain, { name: 'https', ...bound }];
  };
  // Before anything listens: a configuration that breaks a rule takes no mail first.
  await proxy.seed();
  const bound = await listenHttp();
  await delivery.start();
  listening.push(...(await door.listen()), ...bound);
  await proxy.start();
  isReady = true;
  if (database instanceof ServingDatabase) {
    database.serve(true);
    running.onDrain = () => database.serve(false);
  }
  return {
    listening,
    stop: () => {
      outcomes.release();
      guessing.close();
      return stopAll(running, { drainMs: config.drainSeconds * 1000, clock });
    },
  };
}
