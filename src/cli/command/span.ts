// Spans of time on the command line.

import { UsageError } from '../../base/errors.ts';

const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

/**
 * Reads a span of time from the value of an option: `30d`, `12h`, `90m`; at most 100 years.
 * @param option its name, for the error
 * @returns milliseconds
 * @throws UsageError
 */
export function parseSpan(text: string, option: `--${string}`): number {
  const [, count, unit] = /^([1-9]\d{0,8})([smhdw])$/.exec(text) ?? [];
  const factor = Object.entries(unitMs).find(([name]) => name === unit)?.[1];
  const span = Number(count) * (factor ?? Number.NaN);
  if (span <= 36_500 * unitMs.d) return span;
  throw new UsageError(`${option}: got "${text}", want a span such as 30d, 12h or 90m`);
}
