// The proxy applications: their state, where they listen, what goes through them.

import { h, type JSX } from 'preact';
import { el, foreign, State } from '../parts/element.ts';
import { type Column, column, Table } from '../parts/list.ts';
import { awaited, empty, pageHead } from '../parts/surfaces.ts';
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

function nothingThere(): JSX.Element {
  const reference = el('a', { href: '/docs#createProxyApplication' })('its reference');
  const how = el('p')('Make one by the HTTP interface; ', reference, ' has examples to copy.');
  return empty('There is no application', 'proxy')(how);
}

/** The page. */
export function Page(): JSX.Element {
  const loaded = useAnswer<readonly Application[]>(accountOnlyPath('/proxy/traffic'));
  useEvery(5000, loaded.refresh);
  return el('div')(
    pageHead('Proxy', 'Applications that forward TCP and UDP ports, and what goes through them now.'),
    awaited(loaded, 'Loading applications', (rows) =>
      rows.length === 0
        ? nothingThere()
        : h(Table<Application>, { label: 'Applications', columns, rows, keyOf: ({ id }) => id }),
    ),
  );
}
