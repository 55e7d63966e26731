// The proxy applications: their state, where they listen, what goes through them.

import { h, type JSX } from 'preact';
import { el } from '../parts/element.ts';
import { type Column, numbers, Table, tight } from '../parts/list.ts';
import { Plot } from '../parts/plot.ts';
import { Empty, Loading, listed, PageHead, Panel } from '../parts/surfaces.ts';
import { Foreign, State } from '../parts/text.ts';
import { useAnswer, useEvery } from '../state/loading.ts';
import { type Sample, useSamples } from '../state/samples.ts';
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
  tight('state', 'State', ({ state }) => h(State, { state, ...(state === 'failed' ? { words: notRunning } : {}) })),
  {
    key: 'name',
    title: 'Application',
    kind: 'wide',
    cell: ({ hostname, protocol, listening, reason }) => [
      h('strong', { key: 'name' }, h(Foreign, { text: hostname, most: 120 })),
      h(
        'span',
        { key: 'where', class: 'sub mono' },
        protocol,
        listening.length > 0 ? ` at ${listening.slice(0, 4).join(', ')}` : null,
      ),
      reason ? h('span', { key: 'reason', class: 'sub' }, h(Foreign, { text: reason })) : null,
    ],
  },
  numbers('open', 'Open', ({ counters }) => writeCount(counters.open)),
  numbers('all', 'Since the start', ({ counters }) => writeCount(counters.connections)),
  numbers('in', 'From clients', ({ counters }) => writeOctets(counters.bytes_from_clients)),
  numbers('out', 'From origins', ({ counters }) => writeOctets(counters.bytes_from_origins)),
];

/** What goes through all applications together. */
interface Traffic {
  readonly open: number;
  readonly octets: number;
}

const everyMs = 5000;

function sumUp(applications: readonly Application[]): Traffic {
  const sum = (of: (counters: Application['counters']) => number): number =>
    applications.reduce((all, { counters }) => all + of(counters), 0);
  return { open: sum(({ open }) => open), octets: sum((each) => each.bytes_from_clients + each.bytes_from_origins) };
}

/** Octets a second between each two samples. */
function rates(samples: readonly Sample<Traffic>[]): readonly (number | null)[] {
  return samples.map((sample, index) => {
    const last = samples[index - 1];
    if (!last || sample.figures.octets < last.figures.octets) return null;
    return ((sample.figures.octets - last.figures.octets) * 1000) / Math.max(sample.at - last.at, 1);
  });
}

/** The page. */
export function ProxyPage(): JSX.Element {
  const loaded = useAnswer<readonly Application[]>(accountOnlyPath('/proxy/traffic'));
  const { value, refresh } = loaded;
  const samples = useSamples(value, sumUp);
  useEvery(everyMs, refresh);
  const times = samples.map(({ at }) => at);
  return el(
    'div',
    h(PageHead, {
      title: 'Proxy',
      lead: 'Applications that forward TCP and UDP ports, and what goes through them now.',
    }),
    h(Loading, { loaded, what: 'Loading applications' }),

    listed(
      value,
      h(
        Empty,
        { title: 'There is no application', icon: 'proxy' },
        el(
          'p',
          'Make one by the HTTP interface; ',
          h('a', { href: '/docs#createProxyApplication' }, 'its reference'),
          ' has examples to copy.',
        ),
      ),
      (rows) => h(Table<Application>, { label: 'Applications', columns, rows, keyOf: ({ id }) => id }),
    ),
    value && value.length > 0 && samples.length > 1
      ? h(
          Panel,
          { title: 'While this page is open' },
          el(
            'div.grid-2.flush',
            h(Plot, {
              title: 'Open connections',
              times,
              write: writeCount,
              lines: [{ label: 'Open', colour: 'accent', values: samples.map(({ figures }) => figures.open) }],
            }),
            h(Plot, {
              title: 'Octets a second',
              times,
              write: writeOctets,
              lines: [{ label: 'Both ways', colour: 'busy', values: rates(samples) }],
            }),
          ),
        )
      : null,
  );
}
