// How mail goes at the moment: a minute at a time over the last hours.

import { type ComponentChildren, h, type JSX } from 'preact';
import { brief, el, Icon, State, type StateWords, stateWords, Time } from '../parts/element.ts';
import { type Column, column, MinutesSelect, shownMinutes, Table } from '../parts/list.ts';
import { type Line, Plot } from '../parts/plot.ts';
import { awaited, buttonLink, empty, pageHead, panel } from '../parts/surfaces.ts';
import { useAnswer, useEvery } from '../state/api.ts';
import { accountPath, linkTo } from '../state/session.ts';
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

function figure({ tone, icon, word }: StateWords, href: string, count: number, more: ComponentChildren): JSX.Element {
  return el('div.figure', { key: word })(
    el('dt')(el('span', { class: `ink-${tone}` })(h(Icon, { name: icon })), el('a', { href })(word)),
    el('dd')(el('span')(writeCount(count), el('small')(more))),
  );
}

function Figures({ overview, minutes }: { readonly overview: Overview; readonly minutes: string }): JSX.Element {
  const { totals, queue } = overview;
  const span = { '60': '1h', '360': '6h', '1440': '24h' }[minutes];
  const { accepted, refused, delivered, failed } = totals;
  const shares: Readonly<Record<string, string | undefined>> = {
    refused: shareOf(refused, accepted + refused),
    delivered: shareOf(delivered, delivered + failed),
    failed: shareOf(failed, delivered + failed),
  };
  return el('dl.figures')(
    counted.map((name) => {
      const unit = totals[name] === 1 ? units[name] : `${units[name]}s`;
      const more = [unit, shares[name]].filter(Boolean).join(', ');
      return figure(stateWords(name), linkTo('/messages', {}, { outcome: name, span }), totals[name], more);
    }),
    figure({ word: 'In the queue', tone: 'quiet', icon: 'queue' }, linkTo('/queue'), queue.recipients, [
      queue.recipients === 1 ? 'recipient' : 'recipients',
      queue.oldest_at ? [', oldest ', h(Time, { at: queue.oldest_at, style: 'ago' })] : null,
    ]),
  );
}

function Plots({ overview }: { readonly overview: Overview }): JSX.Element {
  const { series, step_minutes: step, totals } = overview;
  const each = step === 1 ? 'a minute' : `every ${step} minutes`;
  const times = series.map(({ at }) => Date.parse(at));
  const of = (name: Exclude<keyof (typeof series)[number], 'at'>) => series.map((entry) => entry[name]);
  const ages = of('oldest_seconds').map((seconds) => (seconds === null ? null : seconds * 1000));
  const { latency_p50_ms: half, latency_p99_ms: most } = totals;
  const latencies: readonly Line[] = [
    { label: 'Half within', colour: 'accent', values: of('latency_p50_ms'), whole: half },
    { label: '99 of 100 within', colour: 'warn', dash: 'dash', values: of('latency_p99_ms'), whole: most },
  ];
  /** The messages of the time that a point stands for. */
  const linkOf = (time: number): string => {
    const [span, until] = [time, time + step * 60_000].map((ms) => new Date(ms).toISOString());
    return linkTo('/messages', {}, { span, until });
  };
  return el('div.grid-2')(
    h(Plot, {
      ...{ title: `Messages ${each}`, times, write: writeCount, linkOf },
      lines: [
        { label: 'Accepted', colour: 'busy', values: of('accepted') },
        { label: 'Delivered', colour: 'good', dash: 'dash', values: of('delivered') },
        { label: 'Refused', colour: 'bad', dash: 'dot', values: of('refused') },
      ],
    }),
    h(Plot, { title: 'From acceptance to the next hop', times, write: writeDuration, lines: latencies }),
    h(Plot, {
      ...{ title: `Put off and failed ${each}`, times, write: writeCount, linkOf },
      lines: [
        { label: 'Deferred', colour: 'warn', dash: 'dash', values: of('deferred') },
        { label: 'Failed', colour: 'bad', values: of('failed') },
      ],
    }),
    h(Plot, {
      ...{ title: 'Recipients in the queue', times, write: writeCount },
      lines: [{ label: 'Waiting', colour: 'quiet', values: of('queued') }],
    }),
    h(Plot, {
      ...{ title: 'Age of the oldest message in the queue', times, write: writeDuration },
      lines: [{ label: 'Age', colour: 'warn', values: ages }],
    }),
  );
}

type Route = Overview['routes'][number];

const routeColumns: readonly Column<Route>[] = [
  column('tight', 'State', ({ state }) => h(State, { state })),
  column('wide', 'Route', ({ name }) => el('strong')(el('bdi')(name))),
  column('number', 'Delivered', ({ delivered }) => writeCount(delivered)),
  column('number', 'Deferred', ({ deferred }) => writeCount(deferred)),
  column('number', 'Failed', ({ failed }) => writeCount(failed)),
  column('number', 'Connections', ({ connections }) => writeCount(connections)),
];

function routesPanel({ routes: rows }: Overview): JSX.Element {
  return panel('Routes')(
    rows.length === 0
      ? empty('There is no route', 'queue')('Name one under routes in the configuration.')
      : h(Table<Route>, { label: 'Routes', columns: routeColumns, rows, keyOf: ({ name }) => name }),
  );
}

function reasonsPanel({ reasons }: Overview): JSX.Element {
  const actions = el('a', { href: linkTo('/refusals') })('All refusals with their cures');
  const none = 'Everything that was handed in during this time was accepted.';
  const most = reasons.reduce((max, { count }) => Math.max(max, count), 1);
  const list = reasons.map(({ code, field, count }) =>
    el('li', { key: `${code} ${field}` })(
      el('a', { href: linkTo('/messages', {}, { outcome: 'refused', code, field: field ?? undefined }) })(
        field ? brief(field, 60) : 'The message as a whole',
        el('span.soft')(` ${code}`),
      ),
      el('b')(writeCount(count)),
      h('meter', { min: 0, max: most, value: count, 'aria-hidden': 'true' }),
    ),
  );
  return panel({ title: 'Top reasons of refusal', actions })(
    list.length === 0 ? empty('Nothing was refused', 'check')(none) : el('ul.bar-list.card')(list),
  );
}

function noMail(): JSX.Element {
  return el('div.panel')(
    empty('No mail in this time', 'overview')(
      el('p')('Hand in a message by SMTP or HTTP, or try one here without sending it.'),
      buttonLink('/try', 'try', 'Try a message'),
    ),
  );
}

function isQuiet({ totals, queue, reasons }: Overview): boolean {
  return queue.recipients === 0 && reasons.length === 0 && counted.every((name) => totals[name] === 0);
}

/** The page. */
export function Page(): JSX.Element {
  const minutes = shownMinutes();
  const loaded = useAnswer<Overview>(accountPath(`/email/sending/overview?minutes=${encodeURIComponent(minutes)}`));
  useEvery(10_000, loaded.refresh);
  return el('div')(
    pageHead('Overview', 'How mail goes at the moment. It moves on by itself.', h(MinutesSelect, null)),
    awaited(loaded, 'Loading figures', (overview) => [
      h(Figures, { overview, minutes }),
      isQuiet(overview) ? noMail() : h(Plots, { overview }),
      el('div.grid-2')(reasonsPanel(overview), routesPanel(overview)),
    ]),
  );
}
