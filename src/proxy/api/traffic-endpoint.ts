// GET /accounts/{account_id}/proxy/traffic: what the applications of an account carry, of all its zones at once.

import { Type } from 'typebox';
import { endpoint, endpointsOf } from '../../web/http/endpoint.ts';
import { succeed } from '../../web/http/envelope.ts';
import type { V4Plugin } from '../../web/http/v4-app.ts';
import type { StoredApplication } from '../application/application.ts';
import type { ProxyZone } from '../application/zone.ts';
import type { SeeApplications } from '../plane/application-views.ts';
import type { ApplicationStore } from '../store/application-store.ts';
import { showTraffic } from './application-answer.ts';
import { shownCounters } from './application-schema.ts';

/** What the endpoint needs. */
export interface TrafficEndpointParts {
  readonly zones: readonly ProxyZone[];
  readonly store: Pick<ApplicationStore, 'list'>;
  readonly see: SeeApplications;
}

const mostApplications = 200;
/** Applications that are read of a zone at once. */
const perPage = 100;

const application = Type.Object(
  {
    id: Type.String(),
    zone: Type.String(),
    zone_id: Type.String(),
    protocol: Type.String({ example: 'tcp/22' }),
    hostname: Type.String(),
    state: Type.Enum(['active', 'pending', 'failed']),
    reason: Type.String(),
    counters: Type.Object(shownCounters, {
      description: 'Since the process that carries them began; `open` is now',
    }),
    listening: Type.Array(Type.String()),
  },
  { title: 'ApplicationTraffic' },
);

async function applicationsOf({ zones, store }: TrafficEndpointParts, account: string) {
  const found: { readonly zone: ProxyZone; readonly application: StoredApplication }[] = [];
  let total = 0;
  for (const zone of zones.filter((each) => each.account === account)) {
    const pages = Math.ceil(Math.max(1, mostApplications - found.length) / perPage);
    for (let page = 1; page <= pages; page += 1) {
      const list = await store.list(zone.id, { page, perPage, order: 'protocol', direction: 'asc' });
      if (page === 1) total += list.total;
      for (const each of list.applications)
        if (found.length < mostApplications) found.push({ zone, application: each });
      if (list.total <= page * perPage) break;
    }
  }
  return { found, total };
}

const listTraffic = endpoint({
  at: 'GET /traffic',
  operationId: 'listProxyTraffic',
  summary: 'Tell what the proxy applications of an account carry',
  description: `At most ${mostApplications} applications; \`result_info.total_count\` tells how many there are. The counters are those of the process that carries them, since its start.`,
  result: Type.Array(application),
  async answer({ account, reply }, parts: TrafficEndpointParts) {
    const { found, total } = await applicationsOf(parts, account.id);
    const viewOf = await parts.see({ ids: found.map(({ application: { id } }) => id), traffic: 'sums' });
    const shown = found.map(({ zone, application: { id, fields } }) => {
      const { status, traffic } = viewOf(id);
      const { counters, listening } = showTraffic(traffic);
      const { state, reason } = status;
      const about = { id, zone: zone.name, zone_id: zone.id, protocol: fields.protocol, hostname: fields.dns.name };
      return { ...about, state, reason, counters, listening };
    });
    return succeed(reply, shown, { result_info: { count: shown.length, total_count: total } });
  },
});

/** The endpoint. */
export function trafficEndpoint(parts: TrafficEndpointParts): V4Plugin {
  const place = { path: '/accounts/:account_id/proxy', tag: 'Proxy applications' };
  return endpointsOf({ ...place, reads: ['proxy:read', 'console:read'] }, parts, [listTraffic]);
}
