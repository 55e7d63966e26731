// Plots over time, drawn by uPlot. Every series has a name, a dash beside its colour, and a table for who cannot see it.

import { h, type JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { goTo } from '../state/session.ts';
import { theme } from '../state/theme.ts';
import { writeClockMarks, writeDuration, writeExactTime, writeMark, writeTime } from '../text/amounts.ts';
import { el } from './element.ts';

/** A line of a plot. */
export interface Line {
  readonly label: string;
  /** Name of the colour: a custom property of the style. */
  readonly colour: 'good' | 'busy' | 'warn' | 'bad' | 'accent' | 'quiet';
  /** What tells the line from the others without its colour; absent: it is whole. */
  readonly dash?: Dash;
  readonly values: readonly (number | null)[];
  /** What stands in the legend: of all the time that is shown; absent: the newest value. */
  readonly whole?: number | null;
}

interface PlotProps {
  readonly title: string;
  /** Milliseconds since 1970, ascending, one for each value. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  readonly write: (value: number) => string;
  /** Where a point leads to, by its time: it is followed by a click, and by the links of the table. */
  readonly linkOf?: (time: number) => string;
}

/** The values that have none beside them: a line cannot show them. */
function aloneAt(plot: uPlot, series: number): number[] {
  const values = Array.from(plot.data[series] ?? []);
  return values.flatMap((value, index) =>
    value !== null && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null ? [index] : [],
  );
}

/** Steps of the axis of values: whole numbers, since half a message is none. */
const wholeSteps = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));

/** The same for lengths of time in milliseconds: 1, 2, 5, 10, 20, 50 ... ms, then whole seconds, minutes and hours. */
const timeSteps = [
  ...wholeSteps.filter((step) => step <= 500),
  ...[1, 2, 5, 10, 20, 30].map((count) => count * 1000),
  ...[1, 2, 5, 10, 20, 30].map((count) => count * 60_000),
  ...[1, 2, 4, 6, 12, 24, 48, 120, 240].map((count) => count * 3_600_000),
];

const dashes = { dash: [6, 3], dot: [2, 3], long: [14, 4], mixed: [8, 3, 2, 3], sparse: [2, 8] } as const;

type Dash = keyof typeof dashes;

/** A colour of the style as it is now, light or dark: a canvas knows no `light-dark()`, which a colour that is set resolves. */
function colourOf(element: HTMLElement, name: string): string {
  element.style.color = `var(--${name})`;
  const { color } = getComputedStyle(element);
  element.style.color = '';
  return color;
}

function optionsFor(room: HTMLElement, { title, lines, write }: PlotProps): uPlot.Options {
  const soft = colourOf(room, 'soft');
  const [mark, incrs] = write === writeDuration ? [writeMark, timeSteps] : [write, wholeSteps];
  const axis: uPlot.Axis = {
    stroke: soft,
    font: '11px system-ui',
    grid: { stroke: colourOf(room, 'line'), width: 1 },
    ticks: { show: false },
    gap: 4,
  };
  return {
    ...{ width: room.clientWidth, height: room.clientHeight, padding: [8, 18, 0, 0] },
    title: '',
    legend: { show: false },
    cursor: { points: { size: 5 }, drag: { x: false, y: false } },
    scales: {
      // A minute at the least.
      x: { range: (_plot, first, last) => [Math.min(first, last - 60), last] },
      y: { range: (_plot, _low, high) => [0, Math.max(high * 1.1, 1)] },
    },
    axes: [
      { ...axis, values: (_plot, splits) => [...writeClockMarks(splits)], size: 26 },
      { ...axis, values: (_plot, splits) => splits.map(mark), size: 56, incrs },
    ],
    series: [
      {},
      ...lines.map(({ label, colour, dash }) => ({
        ...{ label: `${title}: ${label}`, stroke: colourOf(room, colour), width: 1.75 },
        points: { show: true, size: 4, fill: colourOf(room, colour), filter: aloneAt },
        ...(dash ? { dash: [...dashes[dash]] } : {}),
      })),
    ],
  };
}

function Legend({ lines, write }: Pick<PlotProps, 'lines' | 'write'>): JSX.Element {
  return el('p.legend')(
    lines.map(({ label, colour, dash, values, whole }) => {
      const last = whole === undefined ? values.findLast((value) => value !== null) : whole;
      return el('span', { key: label })(
        el('svg', { class: `swatch ink-${colour}`, viewBox: '0 0 28 4', 'aria-hidden': 'true', focusable: 'false' })(
          h('path', { d: 'M0 2h28', 'stroke-dasharray': dash && dashes[dash].join(' ') }),
        ),
        label,
        el('b')(last === undefined || last === null ? '–' : write(last)),
      );
    }),
  );
}

/** The figures of the drawing, the newest first. */
function Figures({ times, lines, write, title, linkOf }: PlotProps): JSX.Element {
  const now = times.at(-1) ?? 0;
  return el('details')(
    el('summary')('As a table'),
    el('div.figures-room', { tabIndex: 0, role: 'region', 'aria-label': `${title} as a table` })(
      el('table')(
        el('thead')(
          el('tr')(
            el('th', { scope: 'col' })('Time'),
            lines.map(({ label }) => el('th', { scope: 'col', key: label })(label)),
          ),
        ),
        el('tbody')(
          times
            .map((time, index) => ({ time, index }))
            .toReversed()
            .slice(0, 60)
            .map(({ time, index }) =>
              el('tr', { key: time })(
                el('th', { scope: 'row' })(
                  el(linkOf ? 'a' : 'time', { href: linkOf?.(time), title: writeExactTime(time) })(
                    writeTime(time, now),
                  ),
                ),
                lines.map(({ label, values }) => {
                  const value = values[index];
                  return el('td', { key: label })(value === null || value === undefined ? '–' : write(value));
                }),
              ),
            ),
        ),
      ),
    ),
  );
}

/** Draws a plot, and draws it anew when its room or the colours change. @returns its room and the drawing */
function useDrawing(props: PlotProps) {
  const room = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const data = (): uPlot.AlignedData => [
    props.times.map((time) => time / 1000),
    ...props.lines.map(({ values }) => [...values]),
  ];
  const scheme = theme.value;
  const names = props.lines.map(({ label }) => label).join();
  useEffect(() => {
    const box = room.current;
    if (!box) return undefined;
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsFor(box, props), data(), box);
    };
    draw();
    const system = matchMedia('(prefers-color-scheme: dark)');
    system.addEventListener('change', draw);
    const size = new ResizeObserver(() => plot.current?.setSize({ width: box.clientWidth, height: box.clientHeight }));
    size.observe(box);
    return () => {
      size.disconnect();
      system.removeEventListener('change', draw);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [scheme, names]);
  useEffect(() => plot.current?.setData(data()));
  return { room, plot };
}

/** A plot. */
export function Plot(props: PlotProps): JSX.Element {
  const { room, plot } = useDrawing(props);
  const { title, lines, write, linkOf, times } = props;
  /** Follows the point that the mouse is nearest to. */
  const onClick = (): void => {
    const time = times[plot.current?.cursor.idx ?? -1];
    if (linkOf && time !== undefined) goTo(linkOf(time));
  };
  return el('figure.plot')(
    el('figcaption')(el('h3')(title)),
    h(Legend, { lines, write }),
    h('div', { class: linkOf ? 'plot-room linked' : 'plot-room', ref: room, 'aria-hidden': 'true', onClick }),
    h(Figures, props),
  );
}
