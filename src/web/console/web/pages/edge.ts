// The zones of the edge: which errors they answered with, over time.

import { type ComponentChildren, h, type JSX } from 'preact';
import { el } from '../parts/element.ts';
import { type Column, column, MinutesSelect, shownMinutes, Table } from '../parts/list.ts';
import { type Line, Plot } from '../parts/plot.ts';
import { awaited, empty, pageHead, panel } from '../parts/surfaces.ts';
import { useAnswer, useEvery } from '../state/api.ts';
import { accountOnlyPath } from '../state/session.ts';
import type { EdgeFailures } from '../state/shapes.ts';
import { writeCount, writeCounted } from '../text/amounts.ts';

type Zone = EdgeFailures['zones'][number];
type Code = Zone['codes'][number];

/** Behind the first line, which is whole. */
const dashes = ['dash', 'dot', 'long', 'mixed', 'sparse'] as const;

const colours = ['bad', 'warn', 'busy', 'accent', 'quiet', 'good'] as const;

const columns: readonly Column<Code>[] = [
  column('tight', 'Code', ({ code }) => el('strong')(code)),
  // Of the URL only its path is taken: the description is on this host, whatever name it has elsewhere.
  column('wide', 'What it means', ({ code }) =>
    el('a', { href: `/errors/${code}` })(`What error ${code} means, and what to do`),
  ),
  column('number', 'Times', ({ count }) => writeCount(count)),
];

function linesOf(codes: readonly Code[]): readonly Line[] {
  return codes.slice(0, colours.length).map(({ code, series }, index) => ({
    ...{ label: String(code), colour: colours[index] ?? 'quiet', values: series },
    ...(index > 0 ? { dash: dashes[index - 1] ?? 'dash' } : {}),
  }));
}

function zonePanel(zone: Zone, times: readonly number[], step: number): JSX.Element {
  const { zone: title, id, codes, requests, failed } = zone;
  return panel({
    key: id,
    title,
    note: `${writeCounted(requests, 'request')}, of which ${writeCount(failed)} failed.`,
  })(
    codes.length > 0 &&
      el('div.stack')(
        times.length > 0 &&
          h(Plot, {
            ...{ title: step === 1 ? 'Failures a minute' : `Failures every ${step} minutes`, times },
            ...{ lines: linesOf(codes), write: writeCount },
          }),
        h(Table<Code>, { label: `Failures of ${title}`, columns, rows: codes, keyOf: ({ code }) => String(code) }),
      ),
  );
}

function shown({ zones, at, step_minutes: step }: EdgeFailures): ComponentChildren {
  if (zones.length === 0)
    return empty('This account has no zone', 'edge')('Name one under zones in the configuration, with its origin.');
  const times = at.map((time) => Date.parse(time));
  return zones.toSorted((one, two) => two.failed - one.failed).map((zone) => zonePanel(zone, times, step));
}

/** The page. */
export function Page(): JSX.Element {
  const minutes = shownMinutes();
  const loaded = useAnswer<EdgeFailures>(accountOnlyPath(`/edge/failures?minutes=${encodeURIComponent(minutes)}`));
  useEvery(10_000, loaded.refresh);
  return el('div')(
    pageHead(
      'Edge',
      'The web sites that Postern stands before, and what went wrong with them. Each code leads to what it means.',
      h(MinutesSelect, null),
    ),
    awaited(loaded, 'Loading zones', shown),
  );
}
