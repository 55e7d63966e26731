// What the applications carry, for /metrics: one series an application and number (D84, D97).

import type { MetricFamily } from '../../web/http/metrics.ts';
import type { Traffic } from '../application/application.ts';
import { formatPorts } from '../application/port-ranges.ts';
import type { DataPlane } from './data-plane.ts';
import type { ApplicationReport } from './data-plane-parts.ts';

/** Makes a family. @param label the names of its labels */
function family(
  kind: MetricFamily['kind'],
  name: string,
  help: string,
  label: MetricFamily['label'],
  read: MetricFamily['read'],
): MetricFamily {
  return { kind, name: `postern_proxy_${name}`, help, label, read };
}

/** What all applications together have open and may have, and what was refused or gave way for it. */
export function budgetMetrics(dataPlane: Pick<DataPlane, 'open'>): readonly MetricFamily[] {
  const open = () => dataPlane.open();
  const bounded = (name: string, help: string, read: () => readonly [open: number, allowed: number]): MetricFamily => ({
    ...family('gauge', name, `${help} of all proxy applications: open now, and allowed`, 'count', () => {
      const [now, allowed] = read();
      return Object.entries({ open: now, allowed });
    }),
    over: 'max',
  });
  const refusedHelp = 'Refused because a limit was reached: application, client, account, descriptors';
  const evictedHelp = 'UDP sessions ended to make room for others';
  return [
    bounded('descriptors', 'Descriptors', () => [open().descriptors, open().allowed]),
    bounded('listeners', 'Listening sockets', () => [open().listeners, open().maxListeners]),
    family(
      'gauge',
      'account_open',
      'Connections and sessions of an account open now',
      'account',
      () => open().byAccount,
    ),
    family('counter', 'limit_refused_total', refusedHelp, 'limit', () => open().refused),
    family('counter', 'evicted_total', evictedHelp, 'reason', () => [['unanswered', open().evicted]]),
  ];
}

/** The values of the labels that tell an application to a person as well. */
function labelsOf({ plan }: ApplicationReport): readonly string[] {
  return [plan.id, plan.name, `${plan.transport}/${formatPorts(plan.ports)}`];
}

const applicationLabels = ['application', 'hostname', 'protocol'] as const;

/** How each application is: its status, its origins, its certificate, and what of UDP went nowhere. */
export function reportMetrics(dataPlane: Pick<DataPlane, 'reports'>): readonly MetricFamily[] {
  type Rows = readonly (readonly [readonly string[], number])[];
  const each = (rows: (report: ApplicationReport, labels: readonly string[]) => Rows) => () =>
    dataPlane.reports().flatMap((report) => rows(report, labelsOf(report)));
  const statusHelp = '1 for the state that an application is in: active, pending, failed';
  const originsHelp = 'Origins of an application that are known now: healthy, or failing since their last connection';
  const certificateHelp = 'When the certificate ends that an application shows to clients, seconds since 1970';
  const droppedHelp = 'UDP: datagrams of open sessions that went nowhere, either way';
  const status = each(({ status: { state } }, labels) => [[[...labels, state], 1]]);
  const origins = each(({ origins: { known, failing } }, labels) => [
    [[...labels, 'healthy'], known - failing],
    [[...labels, 'failing'], failing],
  ]);
  const certificates = each(({ status: { certificateExpiresAt: at } }, labels) =>
    at === undefined ? [] : [[labels, Math.trunc(at / 1000)]],
  );
  const dropped = each(({ datagramsDropped }, labels) => [[labels, datagramsDropped]]);
  return [
    family('gauge', 'status', statusHelp, [...applicationLabels, 'state'], status),
    family('gauge', 'origins', originsHelp, [...applicationLabels, 'health'], origins),
    family('gauge', 'certificate_expires_seconds', certificateHelp, applicationLabels, certificates),
    family('counter', 'datagrams_dropped_total', droppedHelp, applicationLabels, dropped),
  ];
}

/** What each application has carried; one that is gone is no longer told. */
export function trafficMetrics(dataPlane: Pick<DataPlane, 'totals'>): readonly MetricFamily[] {
  const each = (kind: MetricFamily['kind'], name: string, help: string, read: (traffic: Traffic) => number) =>
    family(kind, name, help, 'application', () => [...dataPlane.totals()].map(([id, traffic]) => [id, read(traffic)]));
  return [
    each('gauge', 'connections_open', 'Connections and sessions of an application open now', ({ open }) => open),
    each('counter', 'connections_total', 'Connections and sessions opened', ({ connections }) => connections),
    each('counter', 'refused_total', 'Refused by a firewall list or a limit', ({ refused }) => refused),
    each('counter', 'failed_total', 'Ended because no origin could be reached', ({ failed }) => failed),
    each('counter', 'client_bytes_total', 'Octets from clients', ({ bytesFromClients }) => bytesFromClients),
    each('counter', 'origin_bytes_total', 'Octets from origins', ({ bytesFromOrigins }) => bytesFromOrigins),
  ];
}
