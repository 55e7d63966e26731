// npm run bench:growth: what one unit of work costs as something grows. `--help` tells the options. Each case prints a table and a line
// of JSON; `--write` puts tables and plots into the documents.

import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { headOf, resultFile } from './all.ts';
import { git } from './checkout.ts';
import type { GrowthCase, Point } from './growth/case.ts';
import { configuredCases } from './growth/configured.ts';
import { measureInputs } from './growth/inputs.ts';
import { messageCases } from './growth/messages.ts';
import { runningCases } from './growth/running.ts';
import { storedCases } from './growth/stored.ts';
import { keepPlot, linePlot } from './plot.ts';
import { loadWarning } from './process-usage.ts';

const cases: readonly GrowthCase[] = [...messageCases, ...runningCases, ...storedCases, ...configuredCases];

const usage = `Usage: npm run bench:growth -- [options]
  --only LIST    cases (default all, under 20 minutes):
${cases.map(({ name, title, sizes, unit }) => `                   ${name.padEnd(13)} ${title}: ${sizes[0]} to ${sizes.at(-1)} ${unit}`).join('\n')}
  --sizes LIST   sizes in place of a case's own
  --small        few and small sizes, which only show that it works
  --write        puts tables into docs/performance.md and plots into docs/plots/
  --out FILE     where a line of JSON of each case is appended (default bench/results/DATE-COMMIT-growth.jsonl; none with --small)
  --inputs       in place of cases: every kind of hostile input at an eighth, a quarter, a half and all of what the limits let in
  --input TEXT   of these the kinds whose name has TEXT in it`;

/** What a case has found, and in which state the machine was. */
interface Result {
  readonly name: string;
  readonly date: string;
  readonly commit: string;
  readonly state: string;
  readonly points: readonly Point[];
}

/** A figure as a table has it: three digits that count. */
function shown(figure: number | undefined): string {
  if (figure === undefined || !Number.isFinite(figure)) return '-';
  const digits = Math.abs(figure) >= 100 ? 0 : Math.abs(figure) >= 10 ? 1 : 2;
  return figure.toLocaleString('en', { maximumFractionDigits: digits });
}

function tableOf({ unit }: GrowthCase, points: readonly Point[]): string {
  const columns = [...new Set(points.flatMap(({ figures }) => Object.keys(figures)))];
  const isRefused = points.some(({ refusal }) => refusal !== undefined);
  const heads = [unit, ...columns, ...(isRefused ? ['refused'] : [])];
  const rows = points.map(({ size, label, figures, refusal = '' }) => [
    label ?? size.toLocaleString('en'),
    ...columns.map((column) => shown(figures[column])),
    ...(isRefused ? [refusal.split(/\r?\n/)[0]?.replaceAll('|', '/').slice(0, 140) ?? ''] : []),
  ]);
  const rule = heads.map((_, at) => (isRefused && at === heads.length - 1 ? '---' : '---:'));
  return [heads, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** The upright axis has figures of several units where the lines belong together; each line tells its own. */
function plotOf({ title, unit, plot }: GrowthCase, points: readonly Point[]): string | undefined {
  if (!plot) return undefined;
  const series = plot.columns.map((name) => ({
    name,
    points: points.map(({ size, figures }) => [size, figures[name] ?? 0] as const),
  }));
  const some = series.filter((one) => one.points.some(([x, y]) => x > 0 && y > 0));
  return some.length === 0 ? undefined : linePlot({ title, x: unit, y: plot.y, series: some });
}

/** Puts the text of a case between its marks in docs/performance.md, where it has them. */
function writeDocument(given: GrowthCase, result: Result): void {
  const file = join(import.meta.dirname, '../docs/performance.md');
  const text = readFileSync(file, 'utf8');
  const [begin, end] = [`<!-- growth ${given.name}: begin -->`, `<!-- growth ${given.name}: end -->`];
  const [from, until] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || until < 0) throw new Error(`docs/performance.md has no place for ${given.name}`);
  const plot = plotOf(given, result.points);
  if (plot !== undefined) keepPlot(`growth-${given.name}`, plot);
  const image = plot === undefined ? '' : `![${given.title}](plots/growth-${given.name}.svg)\n\n`;
  const how = `\`npm run bench:growth -- --only ${given.name}\`, ${result.date}, ${result.commit}, two cores, ${result.state}.`;
  const made = `${begin}\n### ${given.title}\n\n${given.note}\n${how}\n\n${image}${tableOf(given, result.points)}\n\n`;
  writeFileSync(file, `${text.slice(0, from)}${made}${text.slice(until)}`);
}

/** Of the beginning: what the cases do themselves does not count. */
const state = loadWarning();

async function measureCase(given: GrowthCase, sizes: readonly number[]): Promise<Result> {
  const began = performance.now();
  console.log(`\n### ${given.title}\n\n${given.note}\n`);
  const points: Point[] = [];
  for await (const point of given.measure(sizes)) {
    const figures = Object.entries(point.figures).map(
      ([name, figure]) => [name, Number(figure.toPrecision(4))] as const,
    );
    points.push({ ...point, figures: Object.fromEntries(figures) });
    console.log(`  ${point.label ?? point.size} ${point.refusal ?? ''}`);
  }
  console.log(`\n${tableOf(given, points)}\n\n${Math.round((performance.now() - began) / 1000)} s`);
  const date = new Date().toISOString().slice(0, 10);
  return { name: given.name, date, commit: git('rev-parse', '--short', 'HEAD'), state, points };
}

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    sizes: { type: 'string' },
    small: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    out: { type: 'string' },
    inputs: { type: 'boolean', default: false },
    input: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

async function main(): Promise<void> {
  for (const line of headOf()) console.log(line);
  if (values.inputs || values.input !== undefined) return await measureInputs(values.input ?? '', values.out);
  const names = values.only?.split(',') ?? cases.map(({ name }) => name);
  const unknown = names.filter((name) => !cases.some((one) => one.name === name));
  if (unknown.length > 0) throw new Error(`--only ${unknown.join(',')}: there is none of this name`);
  const out = values.out ?? (values.small ? undefined : resultFile('-growth.jsonl'));
  const failed: string[] = [];
  for (const given of cases.filter(({ name }) => names.includes(name))) {
    const sizes = values.sizes?.split(',').map(Number) ?? (values.small ? given.small : given.sizes);
    try {
      const result = await measureCase(given, sizes);
      console.log(JSON.stringify(result));
      if (out !== undefined) appendFileSync(out, `${JSON.stringify(result)}\n`);
      if (values.write) writeDocument(given, result);
    } catch (error) {
      console.error(`${given.name} failed:`, error);
      failed.push(given.name);
    }
  }
  if (failed.length > 0) throw new Error(`Not measured: ${failed.join(', ')}`);
}

if (values.help) console.log(usage);
else {
  process.once('SIGINT', () => process.exit(130)).once('SIGTERM', () => process.exit(143));
  await main();
  // Nothing is left to do, whatever still runs.
  process.exit();
}
