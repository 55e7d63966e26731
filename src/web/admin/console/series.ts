// Figures over time, as the pages plot them: one entry for each step, those without figures too.

import { Type } from 'typebox';
import type { Figure, FigureQuery } from '../../../spool/figures/figure-store.ts';
import { keptMinutes } from '../../../spool/figures/minute-figures.ts';
import { closed, isoTime, time } from '../schemas.ts';

const mostSteps = 120;
const minuteMs = 60_000;

/** Reads figures by minute. */
export interface FigureReader {
  read(query: FigureQuery): Promise<readonly Omit<Figure, 'account'>[]>;
}

/** The parameter that says how far back a series goes. */
export const minutesQuery = closed({
  minutes: Type.Optional(
    Type.String({
      pattern: '^(?:[1-9][0-9]{0,2}|1[0-3][0-9]{2}|14[0-3][0-9]|1440)$',
      want: `a whole number, 1 to ${keptMinutes}`,
      description: `How far back, 1 to ${keptMinutes}; 60 where absent`,
    }),
  ),
});

/** The steps of a series; minutes since 1970. */
export interface Steps {
  readonly minutes: number;
  /** Minutes of one entry. */
  readonly step: number;
  /** The first minute of each entry. */
  readonly starts: readonly number[];
}

/** Cuts the last minutes into steps. @param nowMs milliseconds since 1970 */
export function stepsOf(minutes: number, nowMs: number): Steps {
  const step = Math.ceil(minutes / mostSteps);
  const last = Math.floor(nowMs / minuteMs / step) * step;
  const count = Math.ceil(minutes / step);
  return { minutes, step, starts: Array.from({ length: count }, (_, index) => last - (count - 1 - index) * step) };
}

/** The time at which a minute begins, for answers. */
export function timeOfMinute(minute: number): string {
  return isoTime(minute * minuteMs);
}

/** What both answers with series have. */
export const seriesHead = {
  minutes: Type.Integer(),
  step_minutes: Type.Integer({ description: 'Minutes of one entry of a series' }),
  now: time,
};

/** Reads the figures of the steps. @param account its name; undefined: all accounts */
export function readSteps(
  figures: FigureReader,
  { starts, step }: Steps,
  { account, prefix }: { readonly account: string | undefined; readonly prefix?: string },
): Promise<readonly Omit<Figure, 'account'>[]> {
  return figures.read({ account, since: starts[0] ?? 0, step, prefix });
}
