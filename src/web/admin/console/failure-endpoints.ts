// GET .../edge/failures: the errors that an account's zones answered, by code, minute by minute, of all processes.

import { Type } from 'typebox';
import type { Figure } from '../../../spool/figures/figure-store.ts';
import { component, endpoint, endpointsOf } from '../../http/endpoint.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { isoTime } from '../schemas.ts';
import { type FigureReader, minutesQuery, readSteps, type Steps, seriesHead, stepsOf, timeOfMinute } from './series.ts';

interface FailureParts {
  readonly figures: FigureReader;
  readonly zonesOf: (account: string) => readonly { readonly id: string; readonly name: string }[];
  /** The start of the URLs of pages about errors; undefined: they are named by their path, which the API's own host has. */
  readonly docsBaseUrl: () => string | undefined;
  readonly now: () => number;
}

const mostZones = 100;

/** The answer. */
export const failures = component('EdgeFailures', {
  ...seriesHead,
  at: Type.Array(Type.String({ format: 'date-time' }), { description: 'The beginning of each entry of `series`' }),
  zones: Type.Array(
    Type.Object({
      zone: Type.String(),
      id: Type.String(),
      requests: Type.Integer(),
      failed: Type.Integer(),
      codes: Type.Array(
        Type.Object({
          code: Type.Integer({ example: 522 }),
          count: Type.Integer(),
          documentation_url: Type.String(),
          series: Type.Array(Type.Integer()),
        }),
      ),
    }),
  ),
});

type Named = Omit<Figure, 'account'>;

function codesOf(figures: readonly Named[], { starts }: Steps, docsBaseUrl: string) {
  const byCode = Map.groupBy(figures, ({ name }) => name.split(' ')[1] ?? '');
  return [...byCode]
    .map(([code, own]) => {
      const byStart = new Map(own.map(({ minute, count }) => [minute, count]));
      return {
        code: Number(code),
        count: own.reduce((sum, { count }) => sum + count, 0),
        documentation_url: `${docsBaseUrl}/errors/${code}`,
        series: starts.map((start) => byStart.get(start) ?? 0),
      };
    })
    .toSorted((left, right) => right.count - left.count);
}

function zoneFailures(
  zone: { readonly id: string; readonly name: string },
  figures: readonly Named[],
  at: { readonly steps: Steps; readonly docsBaseUrl: string },
) {
  const [requests = [], failed = []] = [true, false].map((isRequest) =>
    figures.filter(({ name }) => name.startsWith('edge requests ') === isRequest),
  );
  const codes = codesOf(failed, at.steps, at.docsBaseUrl);
  return {
    zone: zone.name,
    id: zone.id,
    requests: requests.reduce((sum, { count }) => sum + count, 0),
    failed: codes.reduce((sum, { count }) => sum + count, 0),
    codes,
  };
}

const listFailures = endpoint({
  at: 'GET',
  operationId: 'listEdgeFailures',
  summary: 'Tell which errors the zones of an account answered, by code and minute',
  description: `At most ${mostZones} zones, those with the most errors first.`,
  query: minutesQuery,
  result: failures,
  async answer({ account, query, inTurn }, parts: FailureParts) {
    const now = parts.now();
    const steps = stepsOf(Number(query.minutes ?? '60'), now);
    const wanted = { account: account.name, prefix: 'edge ' };
    const figures = await inTurn(() => readSteps(parts.figures, steps, wanted));
    const byZone = Map.groupBy(figures, ({ name }) => name.split(' ')[2] ?? '');
    const at = { steps, docsBaseUrl: parts.docsBaseUrl() ?? '' };
    const zones = parts
      .zonesOf(account.id)
      .map((zone) => zoneFailures(zone, byZone.get(zone.name) ?? [], at))
      .toSorted((left, right) => right.failed - left.failed)
      .slice(0, mostZones);
    return {
      ...{ minutes: steps.minutes, step_minutes: steps.step, now: isoTime(now) },
      at: steps.starts.map(timeOfMinute),
      zones,
    };
  },
});

/** The endpoint. */
export function failureEndpoints(parts: FailureParts): V4Plugin {
  const place = { path: '/accounts/:account_id/edge/failures', tag: 'Edge', reads: 'console:read' } as const;
  return endpointsOf(place, parts, [listFailures]);
}
