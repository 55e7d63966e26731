// How the proxy applications are: asked of the process that carries them, this one or another of the same server, and for /metrics (D84, D97).

import { within } from '../../base/load/maybe-promise.ts';
import type { CarrierAnswer, CarrierQuestion } from '../../base/process-group.ts';
import type { MetricFamily } from '../../web/http/metrics.ts';
import type { ApplicationStatus, Traffic } from '../application/application.ts';
import { formatPorts } from '../application/port-ranges.ts';
import type { DataPlane } from './data-plane.ts';

/** How an application is. */
interface ApplicationView {
  readonly status: ApplicationStatus;
  /** Absent where it was not asked for, or the data plane has not seen the application. */
  readonly traffic?: ReturnType<DataPlane['traffic']>;
}

/** Asks how applications are. What gives no answer in time is `pending`. */
export type SeeApplications = (question: CarrierQuestion) => Promise<(application: string) => ApplicationView>;

/** What the views are made from. */
export interface ApplicationViewsParts {
  readonly dataPlane: Pick<DataPlane, 'reconcile' | 'status' | 'traffic' | 'reports'>;
  readonly isCarrier: () => boolean;
  /** Asks the process that does; absent where there is one process alone. */
  readonly askCarrier?: ((question: CarrierQuestion) => Promise<CarrierAnswer | undefined>) | undefined;
}

/** How long an answer waits for the listeners, so that its status is true, in milliseconds. */
const settleMs = 5000;
/** How long an answer waits for another process, in milliseconds. */
const answerMs = 2000;

const noAnswer = { status: { state: 'pending', reason: 'the process that carries it has given no answer' } } as const;

type Told = ApplicationView & { readonly id: string };

/** Makes `see`, and `tell`, which answers what another process asks of this one. */
export function createApplicationViews({ dataPlane, isCarrier, askCarrier }: ApplicationViewsParts) {
  async function tell({ ids, traffic, follows = false }: CarrierQuestion): Promise<readonly Told[]> {
    if (follows) await within(settleMs, dataPlane.reconcile());
    return (ids ?? dataPlane.reports().map(({ plan }) => plan.id)).map((id) => {
      const status = dataPlane.status(id);
      const seen = traffic && dataPlane.traffic(id);
      if (!seen) return { id, status };
      return { id, status, traffic: traffic === 'all' ? seen : { ...seen, events: [], origins: [] } };
    });
  }

  async function ask(question: CarrierQuestion): Promise<readonly Told[]> {
    if (!askCarrier || isCarrier()) return await tell(question);
    // Following by itself, this process would listen beside the carrier. A supervisor that is gone throws: this process ends, too.
    const asked = askCarrier(question).catch(() => undefined);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the other process answers with what `tell` has made
    return ((await within(question.follows ? settleMs : answerMs, asked)) ?? []) as readonly Told[];
  }

  const see: SeeApplications = async (question) => {
    const told = new Map((await ask(question)).map((view) => [view.id, view]));
    return (application) => told.get(application) ?? noAnswer;
  };
  return { tell, see };
}

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
  const accountHelp = 'Connections and sessions of an account open now';
  const refusedHelp = 'Refused because a limit was reached: application, client, account, descriptors';
  const evictedHelp = 'UDP sessions ended to make room for others';
  return [
    bounded('descriptors', 'Descriptors', () => [open().descriptors, open().allowed]),
    bounded('listeners', 'Listening sockets', () => [open().listeners, open().maxListeners]),
    family('gauge', 'account_open', accountHelp, 'account', () => open().byAccount),
    family('counter', 'limit_refused_total', refusedHelp, 'limit', () => open().refused),
    family('counter', 'evicted_total', evictedHelp, 'reason', () => [['unanswered', open().evicted]]),
  ];
}

type ApplicationReport = ReturnType<DataPlane['reports']>[number];

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
