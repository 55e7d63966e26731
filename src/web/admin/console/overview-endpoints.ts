// GET .../email/sending/overview: mail by minute, of all processes; how next hops are served is what this process sees.

import { Type } from 'typebox';
import { type DestinationView, serviceOf } from '../../../delivery/transport.ts';
import { type Figure, momentPrefix, percentile, waitingNames } from '../../../spool/figures/figure-store.ts';
import { allAccounts } from '../../../spool/figures/minute-figures.ts';
import type { Spool } from '../../../spool/spool.ts';
import { component, endpoint, endpointsOfBoth } from '../../http/endpoint.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import type { WaitingNow } from '../queue/queue-groups.ts';
import { countOrNull, isoTime, textOrNull, time, timeOrNull } from '../schemas.ts';
import { type FigureReader, minutesQuery, readSteps, type Steps, seriesHead, stepsOf, timeOfMinute } from './series.ts';

interface OverviewParts {
  readonly figures: FigureReader;
  readonly spool: Pick<Spool, 'tallies'>;
  readonly lines: () => Promise<WaitingNow>;
  /** Names of the routes that mail of an account may take (undefined: of all), and the next hops as this process serves them. */
  readonly routes: (account: string | undefined) => readonly string[];
  readonly destinations: () => readonly DestinationView[];
  readonly now: () => number;
}

const mostReasons = 10;
const count = Type.Integer();
const counts = { accepted: count, refused: count, delivered: count, deferred: count, failed: count };
const latency = countOrNull(
  'Milliseconds from acceptance to the next hop, right to a tenth; null where nothing was delivered',
);
const measured = { ...counts, latency_p50_ms: latency, latency_p99_ms: latency };

const waitingThen = {
  queued: countOrNull('The most recipients that waited at the beginning of a minute; null where nobody looked'),
  oldest_seconds: countOrNull(
    'How long the oldest message that waited had been here then; null where that is not known of one account',
  ),
};

/** The answer. */
export const overview = component('Overview', {
  ...seriesHead,
  series: Type.Array(Type.Object({ at: time, ...measured, ...waitingThen })),
  totals: Type.Object(measured),
  queue: Type.Object({ messages: count, recipients: count, failed: count, oldest_at: timeOrNull }),
  reasons: Type.Array(Type.Object({ code: Type.String(), field: textOrNull(), count }), {
    description: 'The most frequent reasons of refusal',
  }),
  routes: Type.Array(
    Type.Object({
      name: Type.String(),
      ...{ delivered: count, deferred: count, failed: count, connections: count },
      state: Type.String({
        description:
          '`idle`, `served`, the first trouble of its next hops, or what mail waits for, as this process sees them',
      }),
    }),
  ),
});

type Named = Omit<Figure, 'account'>;

/** Adds up the figures whose names begin so, by what stands behind. */
function sumsBehind(figures: readonly Named[], prefix: string): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const { name, count: times } of figures) {
    const behind = name.slice(prefix.length);
    if (name.startsWith(prefix)) sums.set(behind, (sums.get(behind) ?? 0) + times);
  }
  return sums;
}

function measure(figures: readonly Named[]) {
  const sums = sumsBehind(figures, '');
  const steps = new Map([...sumsBehind(figures, 'latency ')].map(([step, times]) => [Number(step), times]));
  const sum = (name: string): number => sums.get(name) ?? 0;
  return {
    ...{ accepted: sum('accepted'), refused: sum('refused') },
    ...{ delivered: sum('delivered'), deferred: sum('deferred'), failed: sum('failed') },
    latency_p50_ms: percentile(steps, 0.5),
    latency_p99_ms: percentile(steps, 0.99),
  };
}

/** What waited. @param looked whether anybody looked then: who has nothing that waits is not told of */
function waitingOf(figures: readonly Named[], looked: boolean) {
  const moment = (name: string): number | undefined => figures.find((figure) => figure.name === name)?.count;
  const queued = moment(waitingNames.recipients) ?? (looked ? 0 : null);
  return { queued, oldest_seconds: queued === 0 ? 0 : (moment(waitingNames.oldestSeconds) ?? null) };
}

function seriesOf(figures: readonly Named[], { starts }: Steps, looks: ReadonlySet<number>) {
  const byStart = Map.groupBy(figures, ({ minute }) => minute);
  return starts.map((start) => {
    const own = byStart.get(start) ?? [];
    return { at: timeOfMinute(start), ...measure(own), ...waitingOf(own, looks.has(start)) };
  });
}

function reasonsOf(figures: readonly Named[]) {
  return [...sumsBehind(figures, 'reason ')]
    .toSorted(([, left], [, right]) => right - left)
    .slice(0, mostReasons)
    .map(([about, times]) => {
      const [code = '', field] = about.split(' ');
      return { code, field: field ?? null, count: times };
    });
}

/** How the next hops of a route are served: `idle` where none is known, `served`, or the first trouble, or what mail waits for. */
function stateOf(hops: readonly DestinationView[]): string {
  if (hops.length === 0) return 'idle';
  return serviceOf(hops.find(({ trouble }) => trouble) ?? hops.find(({ waits }) => waits) ?? {});
}

function routesOf(figures: readonly Named[], parts: OverviewParts, account: string | undefined) {
  const hops = Map.groupBy(parts.destinations(), ({ route }) => route);
  const sums = sumsBehind(figures, 'route ');
  const names = new Set([...parts.routes(account), ...[...sums.keys()].map((key) => key.slice(key.indexOf(' ') + 1))]);
  return [...names].map((name) => {
    const own = hops.get(name) ?? [];
    const sum = (kind: string): number => sums.get(`${kind} ${name}`) ?? 0;
    return {
      name,
      ...{ delivered: sum('delivered'), deferred: sum('deferred'), failed: sum('failed') },
      connections: own.reduce((all, { connections }) => all + connections, 0),
      state: stateOf(own),
    };
  });
}

async function queueOf({ spool, lines }: OverviewParts, account: string | undefined) {
  const tallies = (await spool.tallies()).filter((tally) => account === undefined || tally.account === account);
  const sum = (of: (tally: (typeof tallies)[number]) => number): number =>
    tallies.reduce((all, each) => all + of(each), 0);
  const waiting = (await lines()).lines.filter((line) => account === undefined || line.account === account);
  const oldest = waiting.reduce((least, { oldestAcceptedAt }) => Math.min(least, oldestAcceptedAt), Infinity);
  const recipients = sum((tally) => tally.recipients.queued);
  return {
    messages: sum(({ messages }) => messages.queued),
    recipients,
    failed: sum(({ messages }) => messages.failed),
    // What waits by line is some seconds old, and may have left meanwhile.
    oldest_at: oldest === Infinity || recipients === 0 ? null : isoTime(oldest),
  };
}

async function overviewOf(parts: OverviewParts, account: string | undefined, minutes: number) {
  const now = parts.now();
  const steps = stepsOf(minutes, now);
  const figures = await readSteps(parts.figures, steps, { account });
  const looks = await readSteps(parts.figures, steps, { account: allAccounts, prefix: momentPrefix });
  return {
    ...{ minutes, step_minutes: steps.step, now: isoTime(now) },
    series: seriesOf(figures, steps, new Set(looks.map(({ minute }) => minute))),
    totals: measure(figures),
    queue: await queueOf(parts, account),
    reasons: reasonsOf(figures),
    routes: routesOf(figures, parts, account),
  };
}

const getOverview = endpoint({
  at: 'GET',
  operationId: 'getOverview',
  summary: (whose) => `Tell how mail ${whose} goes, minute by minute`,
  query: minutesQuery,
  result: overview,
  answer: ({ of, query: { minutes = '60' }, inTurn }, parts: OverviewParts) =>
    inTurn(() => overviewOf(parts, of, Number(minutes))),
});

/** The endpoint, for one account and for all. */
export function overviewEndpoints(parts: OverviewParts): V4Plugin {
  return endpointsOfBoth({ path: '/email/sending/overview', tag: 'Overview' }, parts, [getOverview]);
}
