// What the applications carry, for /metrics: one series an application and number (D84, D97).

import type { MetricFamily } from '../../web/http/metrics.ts';
import type { Traffic } from '../application/application.ts';
import { formatPorts } from '../application/port-ranges.ts';
import type { DataPlane } from './data-plane.ts';
import type { ApplicationReport } from './data-plane-parts.ts';

/** What is bounded for all applications together: how much is open, and how much may be. */
function bounded(name: string, help: string, read: () => Readonly<Record<string, number>>): MetricFamily {
  return {
    kind: 'gauge',
    over: 'max',
    name: `postern_proxy_${name}`,
    help: `${help} of all proxy applications: open now, and allowed`,
    label: 'count',
    read: () => Object.entries(read()),
  };
}

/** What all applications together have open and may have, and what was refused or gave way for it. */
export function budgetMetrics(dataPlane: Pick<DataPlane, 'open'>): readonly MetricFamily[] {
  return [
    bounded('descriptors', 'Descriptors', () => {
      const { descriptors: open, allowed } = dataPlane.open();
      return { open, allowed };
    }),
    bounded('listeners', 'Listening sockets', () => {
      const { listeners: open, maxListeners: allowed } = dataPlane.open();
      return { open, allowed };
    }),
    {
      kind: 'gauge',
      name: 'postern_proxy_account_open',
      help: 'Connections and sessions of an account open now',
      label: 'account',
      read: () => dataPlane.open().byAccount,
    },
    {
      kind: 'counter',
      name: 'postern_proxy_limit_refused_total',
      help: 'Refused because a limit was reached: application, client, account, descriptors',
      label: 'limit',
      read: () => dataPlane.open().refused,
    },
    {
      kind: 'counter',
      name: 'postern_proxy_evicted_total',
      help: 'UDP sessions ended to make room for others',
      label: 'reason',
      read: () => [['unanswered', dataPlane.open().evicted]],
    },
  ];
}

/** The values of the labels that tell an application to a person as well. */
function labelsOf({ plan }: ApplicationReport): readonly string[] {
  return [plan.id, plan.name, `${plan.transport}/${formatPorts(plan.ports)}`];
}

const applicationLabels = ['application', 'hostname', 'protocol'] as const;

/** How each application is: its status, its origins, its certificate, and what of UDP went nowhere. */
export function reportMetrics(dataPlane: Pick<DataPlane, 'reports'>): readonly MetricFamily[] {
  return [
    {
      kind: 'gauge',
      name: 'postern_proxy_status',
      help: '1 for the state that an application is in: active, pending, failed',
      label: [...applicationLabels, 'state'],
      read: () => dataPlane.reports().map((report) => [[...labelsOf(report), report.status.state], 1]),
    },
    {
      kind: 'gauge',
      name: 'postern_proxy_origins',
      help: 'Origins of an application that are known now: healthy, or failing since their last connection',
      label: [...applicationLabels, 'health'],
      read: () =>
        dataPlane.reports().flatMap((report) => {
          const { known, failing } = report.origins;
          const labels = labelsOf(report);
          return [
            [[...labels, 'healthy'], known - failing],
            [[...labels, 'failing'], failing],
          ] as const;
        }),
    },
    {
      kind: 'gauge',
      name: 'postern_proxy_certificate_expires_seconds',
      help: 'When the certificate ends that an application shows to clients, seconds since 1970',
      label: applicationLabels,
      read: () =>
        dataPlane.reports().flatMap((report) => {
          const { certificateExpiresAt: at } = report.status;
          return at === undefined ? [] : [[labelsOf(report), Math.trunc(at / 1000)] as const];
        }),
    },
    {
      kind: 'counter',
      name: 'postern_proxy_datagrams_dropped_total',
      help: 'UDP: datagrams of open sessions that went nowhere, either way',
      label: applicationLabels,
      read: () => dataPlane.reports().map((report) => [labelsOf(report), report.datagramsDropped]),
    },
  ];
}

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
