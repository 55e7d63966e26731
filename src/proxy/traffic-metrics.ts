// What the applications carry, for /metrics: one series an application and number (D84, D97).

import type { MetricFamily } from '../http/metrics.ts';
import type { DataPlane, Traffic } from './application.ts';

/** The families; an application that is gone is no longer in them. */
export function trafficMetrics(dataPlane: Pick<DataPlane, 'totals'>): readonly MetricFamily[] {
  const family = (
    kind: MetricFamily['kind'],
    name: string,
    help: string,
    read: (traffic: Traffic) => number,
  ): MetricFamily => ({
    kind,
    name: `postern_proxy_${name}`,
    help,
    label: 'application',
    read: () => [...dataPlane.totals()].map(([id, traffic]) => [id, read(traffic)]),
  });
  return [
    family('gauge', 'connections_open', 'Connections and sessions of an application open now', ({ open }) => open),
    family('counter', 'connections_total', 'Connections and sessions opened', ({ connections }) => connections),
    family('counter', 'refused_total', 'Refused by a firewall list or a limit', ({ refused }) => refused),
    family('counter', 'failed_total', 'Ended because no origin could be reached', ({ failed }) => failed),
    family('counter', 'client_bytes_total', 'Octets from clients', ({ bytesFromClients }) => bytesFromClients),
    family('counter', 'origin_bytes_total', 'Octets from origins', ({ bytesFromOrigins }) => bytesFromOrigins),
  ];
}
