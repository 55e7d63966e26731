// Connects what is served over HTTP: the API, the edge and the proxy applications, on one port or ports of their own (D67).

import type { OpenEdge } from '../../edge/open-edge.ts';
import { restAnswers } from '../../pipeline/submit.ts';
import type { LiveStreams } from '../../web/admin/journal/live-endpoint.ts';
import type { Console } from '../../web/console/console.ts';
import type { HttpApp, HttpAppParts } from '../../web/http/app.ts';
import type { ListenerTls } from '../../web/http/listener/listener.ts';
import { serverCertificates } from '../../web/http/listener/server-certificates.ts';
import { counter, gauge, type MetricSources } from '../../web/http/metrics.ts';
import { defaultTlsHost } from '../bootstrap/bootstrap.ts';
import type { Listening } from './addresses.ts';
import type { ConsoleSources } from './console/console-endpoints.ts';
import { type Live, madeOf, type Settings, type Shared } from './in-force.ts';
import type { EdgeRoutes } from './live/live-edge.ts';
import type { ProxyRoutes } from './live/live-proxy.ts';
import type { Mail } from './mail.ts';
import type { Webhooks } from './webhooks.ts';

/** Connections to the admin listener, which `http.limits` does not count, so that it answers when the others are full. */
const adminLimits = { connections: 1000, connectionsPerAddress: 100 } as const;

/** What the HTTP side is made from. */
export interface HttpParts extends Shared {
  /** The settings that the routes are made from. A reload makes other routes. */
  readonly settings: Pick<Settings, 'config' | 'keys'>;
  readonly mail: Mail;
  readonly webhooks: Webhooks;
  readonly streams: () => Promise<LiveStreams>;
  readonly edge: EdgeRoutes;
  readonly proxy: ProxyRoutes;
  readonly pages: Console;
  readonly sources: ConsoleSources;
  /** Whether the gateway has started and has not begun to stop. */
  readonly isServing: () => boolean;
  /** Whether it serves and takes mail. */
  readonly isReady: () => boolean;
}

function consoleOf({ settings: { config }, pages }: HttpParts): Partial<HttpAppParts> {
  const { development, console: own } = config;
  if (!own.enabled) return {};
  const { publicUrl } = own;
  return pages.under({
    accounts: config.accounts,
    ...(publicUrl === undefined ? {} : { publicUrl }),
    ...(development ? { linked: development } : {}),
  });
}

/** Makes the parts that answer over HTTP under some settings, at the start and at each reload. */
export function httpAppParts(parts: HttpParts): HttpAppParts {
  const { accounts, bodies, guessing, metrics, edge, isServing, isReady, group, log } = parts;
  const { config } = parts.settings;
  const accountOfZone = new Map(config.zones.map(({ id, account }) => [id, account]));
  return {
    answers: restAnswers,
    accounts,
    accountOfZone: (zone) => accountOfZone.get(zone),
    bodies,
    guessing,
    log,
    ready: async () => (group ? await group.isReady() : isReady()),
    takesRequests: isServing,
    metrics: () => metrics.render(),
    trustedProxies: config.edge.trustedProxies,
    plugins: async () => (await import('./endpoints.ts')).endpoints(parts),
    headerPages: async (...of) => await (await import('../../web/headers/header-pages.ts')).headerPages(...of),
    front: edge.front,
    ...consoleOf(parts),
    limits: config.http.limits,
    ...(group ? { sharedConnections: (door) => group.connections(door) } : {}),
    ...(config.http.adminListen ? { admin: { limits: adminLimits } } : {}),
    ...(config.http.metricsToken ? { metricsToken: { sha256: config.http.metricsToken.sha256 } } : {}),
  };
}

/** The certificates of HTTPS under some settings. @throws Error where the one that is shown by default is missing */
export function httpsCertificates({ config, keys }: Pick<Settings, 'config' | 'keys'>): ListenerTls {
  return serverCertificates(keys.tls, defaultTlsHost(config));
}

/** Binds HTTP, and HTTPS and the API's own listener where configured. @throws ConfigurationError naming what cannot be bound */
export async function listenHttp(http: HttpApp, live: Live): Promise<Listening[]> {
  const { listen, tlsListen, adminListen } = live.current.config.http;
  const bound: Listening[] = [{ name: 'http', ...(await http.listen(listen)) }];
  if (tlsListen) {
    const certificates = madeOf(live, httpsCertificates);
    const tls = { ...certificates(), contextOf: (serverName: string) => certificates().contextOf(serverName) };
    bound.push({ name: 'https', ...(await http.listen(tlsListen, tls)) });
  }
  if (adminListen) bound.push({ name: 'admin', ...(await http.listenAdmin(adminListen)) });
  return bound;
}

/** What HTTP and the edge tell /metrics. */
export function httpMetrics(http: HttpApp, edge: Pick<OpenEdge, 'open' | 'requests'>): MetricSources {
  return {
    families: [
      gauge('postern_http_connections', 'HTTP and HTTPS connections open now', () => http.open().connections),
      gauge('postern_http_admin_connections', 'Those among them to the admin listener', () => http.adminConnections()),
      gauge('postern_http_requests', 'HTTP answers under way now', () => http.open().answers),
      gauge(
        'postern_http_waiting_octets',
        'Octets that clients sent behind requests whose answers are under way',
        () => http.open().waitingOctets,
      ),
      gauge('postern_edge_requests_open', 'Requests to the edge and upgraded connections open now', () =>
        edge.requests(),
      ),
      gauge('postern_edge_origin_requests', 'Requests and upgraded connections that origins have open now', () =>
        edge.open(),
      ),
      counter('postern_http_auth_failures_total', 'Requests with a wrong token or key', () => http.authFailures()),
      {
        kind: 'counter',
        name: 'postern_http_connections_refused_total',
        help: 'HTTP and HTTPS connections over a limit: of all, or of one address; admin_ of the admin listener',
        label: 'limit',
        read: () => Object.entries(http.refusedConnections()),
      },
    ],
  };
}
