// How mail goes at the moment: a minute at a time over the last hours.

import { h, type JSX } from 'preact';
import { el } from '../parts/element.ts';
import { MinutesSelect, shownMinutes } from '../parts/filter-bar.ts';
import { Icon } from '../parts/icon.ts';
import { type Column, numbers, Table, tight } from '../parts/list.ts';
import { Plot } from '../parts/plot.ts';
import { ButtonLink, Empty, Loading, PageHead, Panel } from '../parts/surfaces.ts';
import { Foreign, State, Time } from '../parts/text.ts';
import { type StateWords, stateWords } from '../parts/words.ts';
import { useAnswer, useEvery } from '../state/loading.ts';
import { linkTo } from '../state/location.ts';
import { accountPath } from '../state/session.ts';
import type { Overview } from '../state/shapes.ts';
import { writeCount, writeDuration } from '../text/amounts.ts';

const counted = ['accepted', 'delivered', 'deferred', 'failed', 'refused'] as const;

/** What each number counts. A message to many recipients is accepted or refused once, and delivered to each. */
const units = {
  accepted: 'message',
  delivered: 'recipient',
  deferred: 'attempt',
  failed: 'recipient',
  refused: 'message',
} as const;

/** How many of a hundred these are; undefined where there are none. Never 100 where it is not so. */
function shareOf(part: number, whole: number): string | undefined {
  if (part === 0) return undefined;
  const share = (100 * part) / whole;
  if (share < 0.1) return 'under\u00a00.1\u00a0%';
  if (part < whole && share > 99.9) return 'over\u00a099.9\u00a0%';
  return `${Math.round(share * 10) / 10}\u00a0%`;
}

function shares({
  accepted,
  refused,
  delivered,
  failed,
}: Overview['totals']): Readonly<Record<string, string | undefined>> {
  return {
    refused: shareOf(refused, accepted + refused),
    delivered: shareOf(delivered, delivered + failed),
    failed: shareOf(failed, delivered + failed),
  };
}

function Figure({
  words,
  count,
  href,
}: {
  readonly words: StateWords;
  readonly count: JSX.Element | string;
  readonly href: string;
}): JSX.Element {
  return el(
    'div.figure',
    el('dt', h('span', { class: `ink-${words.tone}` }, h(Icon, { name: words.icon })), h('a', { href }, words.word)),
    el('dd', count),
  );
}

function Figures({ overview, minutes }: { readonly overview: Overview; readonly minutes: string }): JSX.Element {
  const { totals, queue } = overview;
  const span = { '60': '1h', '360': '6h', '1440': '24h' }[minutes];
  const share = shares(totals);
  return el(
    'dl.figures',
    counted.map((name) =>
      h(Figure, {
        key: name,
        words: stateWords(name),
        count: el(
          'span',
          writeCount(totals[name]),
          el('small', [totals[name] === 1 ? units[name] : `${units[name]}s`, share[name]].filter(Boolean).join(', ')),
        ),
        href: linkTo('/messages', {}, { outcome: name, span }),
      }),
    ),
    h(Figure, {
      words: { word: 'In the queue', tone: 'quiet', icon: 'queue' },
      count: el(
        'span',
        writeCount(queue.recipients),
        el(
          'small',
          queue.recipients === 1 ? 'recipient' : 'recipients',
          queue.oldest_at ? [', oldest ', h(Time, { key: 'oldest', at: queue.oldest_at, style: 'ago' })] : null,
        ),
      ),
      href: linkTo('/queue'),
    }),
  );
}

function Plots({ overview }: { readonly overview: Overview }): JSX.Element {
  const { series, step_minutes: step, totals } = overview;
  const each = step === 1 ? 'a minute' : `every ${step} minutes`;
  const times = series.map(({ at }) => Date.parse(at));
  const ms = (name: 'latency_p50_ms' | 'latency_p99_ms'): (number | null)[] =>
    series.map((minute) => minute[name] ?? null);
  /** The messages of the time that a point stands for. */
  const linkOf = (time: number): string =>
    linkTo(
      '/messages',
      {},
      { span: new Date(time).toISOString(), until: new Date(time + step * 60_000).toISOString() },
    );
  return el(
    'div.grid-2',
    h(Plot, {
      ...{ title: `Messages ${each}`, times, write: writeCount, linkOf },
      lines: [
        { label: 'Accepted', colour: 'busy', values: series.map(({ accepted }) => accepted) },
        { label: 'Delivered', colour: 'good', dash: 'dash', values: series.map(({ delivered }) => delivered) },
        { label: 'Refused', colour: 'bad', dash: 'dot', values: series.map(({ refused }) => refused) },
      ],
    }),
    h(Plot, {
      ...{ title: 'From acceptance to the next hop', times, write: writeDuration },
      lines: [
        { label: 'Half within', colour: 'accent', values: ms('latency_p50_ms'), whole: totals.latency_p50_ms ?? null },
        {
          ...{ label: '99 of 100 within', colour: 'warn', dash: 'dash', values: ms('latency_p99_ms') },
          whole: totals.latency_p99_ms ?? null,
        },
      ],
    }),
    h(Plot, {
      ...{ title: `Put off and failed ${each}`, times, write: writeCount, linkOf },
      lines: [
        { label: 'Deferred', colour: 'warn', dash: 'dash', values: series.map(({ deferred }) => deferred) },
        { label: 'Failed', colour: 'bad', values: series.map(({ failed }) => failed) },
      ],
    }),
    h(Plot, {
      ...{ title: 'Recipients in the queue', times, write: writeCount },
      lines: [{ label: 'Waiting', colour: 'quiet', values: series.map(({ queued }) => queued) }],
    }),
    h(Plot, {
      ...{ title: 'Age of the oldest message in the queue', times, write: writeDuration },
      lines: [
        {
          label: 'Age',
          colour: 'warn',
          values: series.map(({ oldest_seconds: seconds }) => (seconds === null ? null : seconds * 1000)),
        },
      ],
    }),
  );
}

type Route = Overview['routes'][number];

const routeColumns: readonly Column<Route>[] = [
  tight('state', 'State', ({ state }) => h(State, { state })),
  { key: 'name', title: 'Route', kind: 'wide', cell: ({ name }) => el('strong', el('bdi', name)) },
  numbers('delivered', 'Delivered', ({ delivered }) => writeCount(delivered)),
  numbers('deferred', 'Deferred', ({ deferred }) => writeCount(deferred)),
  numbers('failed', 'Failed', ({ failed }) => writeCount(failed)),
  numbers('connections', 'Connections', ({ connections }) => writeCount(connections)),
];

function Reasons({ reasons }: { readonly reasons: Overview['reasons'] }): JSX.Element {
  const most = reasons.reduce((max, { count }) => Math.max(max, count), 1);
  if (reasons.length === 0)
    return h(
      Empty,
      { title: 'Nothing was refused', icon: 'check' },
      'Everything that was handed in during this time was accepted.',
    );
  return el(
    'ul.bar-list.card',
    reasons.map(({ code, field, count }) =>
      h(
        'li',
        { key: `${code} ${field}` },
        h(
          'a',
          { href: linkTo('/messages', {}, { outcome: 'refused', code, field: field ?? undefined }) },
          field ? h(Foreign, { text: field, most: 60, brief: true }) : 'The message as a whole',
          el('span.soft', ` ${code}`),
        ),
        el('b', writeCount(count)),
        h('meter', { min: 0, max: most, value: count, 'aria-hidden': 'true' }),
      ),
    ),
  );
}

function isQuiet({ totals, queue, reasons }: Overview): boolean {
  return queue.recipients === 0 && reasons.length === 0 && counted.every((name) => totals[name] === 0);
}

/** The page. */
export function OverviewPage(): JSX.Element {
  const minutes = shownMinutes();
  const loaded = useAnswer<Overview>(accountPath(`/email/sending/overview?minutes=${encodeURIComponent(minutes)}`));
  const { value, refresh } = loaded;
  useEvery(10_000, refresh);
  return el(
    'div',
    h(
      PageHead,
      { title: 'Overview', lead: 'How mail goes at the moment. It moves on by itself.' },
      h(MinutesSelect, null),
    ),
    h(Loading, { loaded, what: 'Loading figures' }),

    value ? h(Figures, { overview: value, minutes }) : null,
    value && isQuiet(value)
      ? el(
          'div.panel',
          h(
            Empty,
            { title: 'No mail in this time', icon: 'overview' },
            el('p', 'Hand in a message by SMTP or HTTP, or try one here without sending it.'),
            h(ButtonLink, { to: '/try', icon: 'try' }, 'Try a message'),
          ),
        )
      : null,
    value && !isQuiet(value) ? h(Plots, { overview: value }) : null,
    value
      ? el(
          'div.grid-2',
          h(
            Panel,
            {
              title: 'Top reasons of refusal',
              actions: h('a', { href: linkTo('/refusals') }, 'All refusals with their cures'),
            },
            h(Reasons, { reasons: value.reasons }),
          ),
          h(
            Panel,
            { title: 'Routes' },
            value.routes.length === 0
              ? h(Empty, { title: 'There is no route', icon: 'queue' }, 'Name one under routes in the configuration.')
              : h(Table<Route>, {
                  label: 'Routes',
                  columns: routeColumns,
                  rows: value.routes,
                  keyOf: ({ name }) => name,
                }),
          ),
        )
      : null,
  );
}
