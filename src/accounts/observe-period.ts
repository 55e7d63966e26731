// Until which day the header policy is only observed for a credential or a listener (D4c). Days are days of UTC.

/** A day up to which the policy is observed; the day itself still counts. */
export interface ObservePeriod {
  /** ISO 8601: `2027-01-31`. */
  readonly until: string;
  /** The first moment behind the day, milliseconds since 1970. */
  readonly endsAtMs: number;
}

/** How many days ahead the last day may be, counted from the day of the start or reload. */
export const maxObserveDays = 180;

const dayMs = 86_400_000;

function startOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`);
}

/** Tells whether a text is a day of the calendar in the form `2027-01-31`. */
export function isDay(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const start = startOf(text);
  // 2027-02-30 is read as a day of March by some parsers.
  return !Number.isNaN(start) && new Date(start).toISOString().startsWith(text);
}

/** The period up to a day. @param until a day as `isDay` wants it */
export function observePeriod(until: string): ObservePeriod {
  return { until, endsAtMs: startOf(until) + dayMs };
}

/** How many days lie between the day of `nowMs` (milliseconds since 1970) and a day: 0 today, negative once it is over. */
export function daysUntil(until: string, nowMs: number): number {
  return Math.round((startOf(until) - Math.floor(nowMs / dayMs) * dayMs) / dayMs);
}

/** Of two periods the one that ends later. */
export function laterPeriod(
  one: ObservePeriod | undefined,
  other: ObservePeriod | undefined,
): ObservePeriod | undefined {
  if (!one || !other) return one ?? other;
  return one.endsAtMs >= other.endsAtMs ? one : other;
}
