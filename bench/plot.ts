// Plain SVG plots without a package: lines on log axes, and bars. They are readable at 700 pixels, and light or dark as the reader's
// system is. `node bench/plot.ts FILE` makes docs/plots/mail.svg from a file that `npm run bench -- --all` has kept.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

/** A line of a plot: its name and its points; what is not above 0 has no place on a log axis and is left out. */
export interface Series {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** What a plot of lines shows. */
export interface LinePlot {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly series: readonly Series[];
}

/** What a plot of bars shows: groups, each with a bar for each of the names. */
export interface BarPlot {
  readonly title: string;
  readonly note: string;
  /** What each bar of a group is of. */
  readonly names: readonly string[];
  readonly groups: readonly { readonly name: string; readonly figures: readonly number[] }[];
}

const style = `<style>
svg { font: 14px system-ui, sans-serif; --paper: #fff; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --c0: #0969da; --c1: #bc4c00; --c2: #1a7f37; --c3: #8250df; }
@media (prefers-color-scheme: dark) { svg { --paper: #0d1117; --ink: #f0f6fc; --soft: #9198a1; --line: #3d444d; --c0: #4493f8; --c1: #f0883e; --c2: #3fb950; --c3: #ab7df8; } }
.paper { fill: var(--paper); } text { fill: var(--ink); } .soft { fill: var(--soft); font-size: 12px; } .title { font-weight: 600; }
.grid { stroke: var(--line); } .line { fill: none; stroke-width: 2; }
${[0, 1, 2, 3].map((at) => `.s${at} { stroke: var(--c${at}); } .f${at} { fill: var(--c${at}); }`).join('\n')}
</style>`;

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

interface TextPlace {
  readonly x: number;
  readonly y: number;
  readonly of?: string;
  readonly anchor?: 'start' | 'middle' | 'end';
}

function textAt({ x, y, of = '', anchor = 'start' }: TextPlace, text: string): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" class="${of}">${escaped(text)}</text>`;
}

function svg(title: string, height: number, parts: readonly string[]): string {
  const open = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 ${height}" width="700" height="${height}" role="img">`;
  const first = [
    open,
    `<title>${escaped(title)}</title>`,
    style,
    `<rect class="paper" width="700" height="${height}" rx="6"/>`,
  ];
  return `${[...first, textAt({ x: 16, y: 26, of: 'title' }, title), ...parts, '</svg>'].join('\n')}\n`;
}

/** A number as an axis has it: 0.1, 20, 5k, 1M. */
function short(figure: number): string {
  if (figure >= 1e6) return `${figure / 1e6}M`;
  if (figure >= 1e3) return `${figure / 1e3}k`;
  return `${Number(figure.toPrecision(2))}`;
}

/** A log axis over some figures: where one lies between 0 and 1, and what stands beside it. */
interface Axis {
  readonly at: (figure: number) => number;
  readonly ticks: readonly number[];
}

function logAxis(figures: readonly number[], least: number): Axis {
  const low = Math.log10(Math.min(...figures));
  const high = Math.max(Math.log10(Math.max(...figures)), low + least);
  const from = least > 0 ? Math.floor(low) : low;
  const until = least > 0 ? Math.ceil(high) : high;
  const decades = Array.from({ length: Math.ceil(until) - Math.floor(from) + 1 }, (_, at) => Math.floor(from) + at);
  const steps = until - from < 2.5 ? [1, 2, 5] : [1];
  const ticks = decades.flatMap((decade) => steps.map((step) => step * 10 ** decade));
  return {
    at: (figure) => (Math.log10(figure) - from) / (until - from || 1),
    ticks: ticks.filter((tick) => Math.log10(tick) > from - 1e-9 && Math.log10(tick) < until + 1e-9),
  };
}

/** Lines on log axes. */
export function linePlot(plot: LinePlot): string {
  const [left, right, top, bottom, height] = [64, 680, 76, 310, 360];
  const series = plot.series.map(({ name, points }) => ({ name, points: points.filter(([x, y]) => x > 0 && y > 0) }));
  const points = series.flatMap((one) => one.points);
  const [xAxis, yAxis] = [
    logAxis(
      points.map(([x]) => x),
      0,
    ),
    logAxis(
      points.map(([, y]) => y),
      1,
    ),
  ];
  const xOf = (figure: number): number => left + 8 + xAxis.at(figure) * (right - left - 16);
  const yOf = (figure: number): number => bottom - yAxis.at(figure) * (bottom - top);
  const parts: string[] = [];
  for (const tick of yAxis.ticks) {
    const y = yOf(tick);
    parts.push(`<line class="grid" x1="${left}" x2="${right}" y1="${y.toFixed(1)}" y2="${y.toFixed(1)}"/>`);
    parts.push(textAt({ x: left - 8, y: y + 4, of: 'soft', anchor: 'end' }, short(tick)));
  }
  for (const tick of xAxis.ticks)
    parts.push(textAt({ x: xOf(tick), y: bottom + 20, of: 'soft', anchor: 'middle' }, short(tick)));
  parts.push(
    textAt({ x: right, y: bottom + 40, of: 'soft', anchor: 'end' }, plot.x),
    textAt({ x: 16, y: 46, of: 'soft' }, plot.y),
  );
  let legend = left;
  series.forEach((one, at) => {
    const path = one.points.map(([x, y]) => `${xOf(x).toFixed(1)},${yOf(y).toFixed(1)}`);
    parts.push(`<polyline class="line s${at % 4}" points="${path.join(' ')}"/>`);
    for (const place of path) {
      const [x, y] = place.split(',');
      parts.push(`<circle class="f${at % 4}" cx="${x}" cy="${y}" r="3.5"/>`);
    }
    parts.push(
      `<circle class="f${at % 4}" cx="${legend + 5}" cy="60" r="5"/>`,
      textAt({ x: legend + 15, y: 65 }, one.name),
    );
    legend += 40 + one.name.length * 7.5;
  });
  return svg(plot.title, height, parts);
}

/** Bars from left to right, from 0 on. */
export function barPlot({ title, note, names, groups }: BarPlot): string {
  const [left, right, first, bar] = [230, 610, 78, 18];
  const most = Math.max(...groups.flatMap(({ figures }) => figures.filter((figure) => Number.isFinite(figure))));
  const parts = [textAt({ x: 16, y: 46, of: 'soft' }, note)];
  names.forEach((name, at) => {
    parts.push(`<circle class="f${at}" cx="${left + 5 + at * 130}" cy="61" r="5"/>`);
    parts.push(textAt({ x: left + 16 + at * 130, y: 66 }, name));
  });
  let y = first;
  for (const { name, figures } of groups) {
    parts.push(textAt({ x: left - 12, y: y + (figures.length * bar) / 2 + 5, anchor: 'end' }, name));
    figures.forEach((figure, at) => {
      if (!Number.isFinite(figure)) return;
      const width = Math.max(1, (figure / most) * (right - left));
      const place = y + at * bar;
      parts.push(
        `<rect class="f${at}" x="${left}" y="${place}" width="${width.toFixed(1)}" height="${bar - 3}" rx="2"/>`,
      );
      parts.push(textAt({ x: left + width + 8, y: place + 12, of: 'soft' }, Math.round(figure).toLocaleString('en')));
    });
    y += figures.length * bar + 14;
  }
  return svg(title, y + 6, parts);
}

/** Writes a plot into docs/plots/. */
export function keepPlot(name: string, text: string): void {
  const folder = join(import.meta.dirname, '../docs/plots');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}.svg`), text);
}

/** The rates of plain mail in a file of results: system, sessions, messages a second. */
function plainMail(text: string): readonly { system: string; sessions: string; rate: number }[] {
  return text.split('\n').flatMap((line) => {
    const [, what, system = '', sessions = '', rate = ''] = line.split('|').map((cell) => cell.trim());
    if (what !== 'mail: 4 KB, connections stay open' || system.endsWith('2 signatures')) return [];
    return [{ system: system.replace(', 1 signature', ''), sessions, rate: Number(rate.replaceAll(',', '')) }];
  });
}

/** The plot at the front of README.md: systems as the file names them, the fastest first. */
function frontPlot(file: string): void {
  const text = readFileSync(file, 'utf8');
  const rows = plainMail(text);
  const sessions = [...new Set(rows.map((row) => row.sessions))];
  const groups = [...Map.groupBy(rows, ({ system }) => system)].map(([name, ofSystem]) => ({
    name,
    figures: sessions.map((at) => ofSystem.find((row) => row.sessions === at)?.rate ?? Number.NaN),
  }));
  groups.sort((one, other) => Math.max(...other.figures) - Math.max(...one.figures));
  const [date, commit] = ['date', 'commit'].map((key) => new RegExp(`^${key} +(\\S{8,10})`, 'm').exec(text)?.[1] ?? '');
  const title = 'Messages a second, accepted, signed, safe on disk and relayed';
  const busy = /^state .*ABOVE/m.test(text) ? '; busy' : '';
  const note = `4 KB, one RSA-2048 signature; two cores shared with load and next hop; ${date}, ${commit}${busy}`;
  keepPlot('mail', barPlot({ title, note, names: sessions.map((count) => `${count} sessions`), groups }));
}

if (import.meta.main) {
  const { positionals } = parseArgs({ allowPositionals: true });
  const [file] = positionals;
  if (file === undefined) console.log('Usage: node bench/plot.ts bench/results/FILE.txt');
  else frontPlot(file);
}
