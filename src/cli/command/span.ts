// Reads the values of options: spans of time, counts, words of a list.

import { didYouMean } from '../../base/closest.ts';
import { UsageError } from '../../base/errors.ts';

const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

/** 100 years. */
const mostDays = 36_500;

/** Reads `30d`, `12h` or `90m`, at most 100 years, as milliseconds. @param option its name, for the error @throws UsageError */
export function parseSpan(text: string, option: `--${string}`): number {
  const [, count, unit] = /^([1-9]\d{0,8})([smhdw])$/.exec(text) ?? [];
  const factor = Object.entries(unitMs).find(([name]) => name === unit)?.[1];
  const span = Number(count) * (factor ?? Number.NaN);
  if (span <= mostDays * unitMs.d) return span;
  if (span > 0) throw new UsageError(`${option}: got "${text}", want at most ${mostDays}d`);
  throw new UsageError(`${option}: got "${text}", want a span such as 30d, 12h or 90m`);
}

/** Reads a whole number from 1; `fallback` where it is not given. @param most the largest; absent: any @throws UsageError */
export function parseCount(
  text: string | undefined,
  option: `--${string}`,
  { fallback, most = Number.MAX_SAFE_INTEGER }: { readonly fallback: number; readonly most?: number },
): number {
  const count = Number(text ?? fallback);
  if (Number.isSafeInteger(count) && count >= 1 && count <= most) return count;
  const upTo = most === Number.MAX_SAFE_INTEGER ? '' : ` to ${most}`;
  throw new UsageError(`${option} wants a whole number from 1${upTo}, got "${text}"`);
}

/** Reads one word of a list. @throws UsageError, which suggests the word that was probably meant */
export function parseWord<Word extends string>(
  text: string | undefined,
  option: `--${string}`,
  words: readonly Word[],
): Word {
  const found = words.find((word) => word === text);
  if (found !== undefined) return found;
  const got = text === undefined ? '' : `got "${text}", `;
  throw new UsageError(`${option}: ${got}${didYouMean(text ?? '', words, `want one of ${words.join(', ')}`)}`);
}
