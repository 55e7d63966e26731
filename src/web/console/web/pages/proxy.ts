// The proxy applications: their state, where they listen, what goes through them.

import { h, type JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { el, foreign, State } from '../parts/element.ts';
import { type Column, column, Table } from '../parts/list.ts';
import { Plot } from '../parts/plot.ts';
import { awaited, empty, pageHead, panel } from '../parts/surfaces.ts';
import { useAnswer, useEvery } from '../state/api.ts';
import { accountOnlyPath } from '../state/session.ts';
import { writeCount, writeOctets } from '../text/amounts.ts';

interface Application {
  readonly id: string;
  readonly zone: string;
  readonly protocol: string;
  readonly hostname: string;
  readonly state: string;
  readonly reason: string;
  readonly listening: readonly string[];
  readonly counters: Readonly<
    Record<'open' | 'connections' | 'refused' | 'failed' | 'bytes_from_clients' | 'bytes_from_origins', number>
  >;
}

const notRunning = { word: 'Not running', tone: 'bad', icon: 'warning' } as const;

const columns: readonly Column<Application>[] = [
  column('tight', 'State', ({ state }) => h(State, { state, ...(state === 'failed' ? { words: notRunning } : {}) })),
  column('wide', 'Application', ({ hostname, protocol, listening, reason }) => [
    el('strong')(foreign(hostname, 120)),
    el('span.sub.mono')(protocol, listening.length > 0 ? ` at ${listening.slice(0, 4).join(', ')}` : null),
    reason ? el('span.sub')(foreign(reason)) : null,
  ]),
  column('number', 'Open', ({ counters }) => writeCount(counters.open)),
  column('number', 'Since the start', ({ counters }) => writeCount(counters.connections)),
  column('number', 'From clients', ({ counters }) => writeOctets(counters.bytes_from_clients)),
  column('number', 'From origins', ({ counters }) => writeOctets(counters.bytes_from_origins)),
];

/** What goes through all applications together, at a time in milliseconds since 1970. */
interface Sample {
  readonly at: number;
  readonly open: number;
  readonly octets: number;
}

const mostSamples = 360;

function sumUp(applications: readonly Application[]): Sample {
  const sum = (of: (counters: Application['counters']) => number): number =>
    applications.reduce((all, { counters }) => all + of(counters), 0);
  const octets = sum((each) => each.bytes_from_clients + each.bytes_from_origins);
  return { at: Date.now(), open: sum(({ open }) => open), octets };
}

/** Keeps the sum of each new answer for as long as the page is open: the gateway knows its figures only as they are now. */
function useSamples(answer: readonly Application[] | undefined): readonly Sample[] {
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  useEffect(() => {
    if (answer) setSamples((kept) => [...kept.slice(1 - mostSamples), sumUp(answer)]);
  }, [answer]);
  return samples;
}

function rates(samples: readonly Sample[]): readonly (number | null)[] {
  return samples.map(({ at, octets }, index) => {
    const last = samples[index - 1];
    return last && octets >= last.octets ? ((octets - last.octets) * 1000) / Math.max(at - last.at, 1) : null;
  });
}

function plots(samples: readonly Sample[]): JSX.Element {
  const times = samples.map(({ at }) => at);
  const open = samples.map((sample) => sample.open);
  return panel('While this page is open')(
    el('div.grid-2.flush')(
      h(Plot, {
        ...{ title: 'Open connections', times, write: writeCount },
        lines: [{ label: 'Open', colour: 'accent', values: open }],
      }),
      h(Plot, {
        ...{ title: 'Octets a second', times, write: writeOctets },
        lines: [{ label: 'Both ways', colour: 'busy', values: rates(samples) }],
      }),
    ),
  );
}

function nothingThere(): JSX.Element {
  const reference = el('a', { href: '/docs#createProxyApplication' })('its reference');
  const how = el('p')('Make one by the HTTP interface; ', reference, ' has examples to copy.');
  return empty('There is no application', 'proxy')(how);
}

/** The page. */
export function Page(): JSX.Element {
  const loaded = useAnswer<readonly Application[]>(accountOnlyPath('/proxy/traffic'));
  const samples = useSamples(loaded.value);
  useEvery(5000, loaded.refresh);
  return el('div')(
    pageHead('Proxy', 'Applications that forward TCP and UDP ports, and what goes through them now.'),
    awaited(loaded, 'Loading applications', (rows) =>
      rows.length === 0
        ? nothingThere()
        : [
            h(Table<Application>, { label: 'Applications', columns, rows, keyOf: ({ id }) => id }),
            samples.length > 1 && plots(samples),
          ],
    ),
  );
}
