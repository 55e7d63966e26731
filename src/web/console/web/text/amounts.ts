// Numbers and times as people read them. Whoever calls gives the time of now, so that nothing here looks at a clock.

const integers = new Intl.NumberFormat('en');

/** Writes a whole number with separators: 12,345. */
export function writeCount(count: number): string {
  return integers.format(count);
}

/** Writes a count with its noun: `1 message`, `20 messages`. @param many the plural; absent: the noun and an s */
export function writeCounted(count: number, noun: string, many = `${noun}s`): string {
  return `${writeCount(count)} ${count === 1 ? noun : many}`;
}

/** Writes octets: 512 B, 1.5 KB, 20 MB; 1 KB is 1,024 octets. */
export function writeOctets(octets: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let amount = octets;
  let unit = 0;
  // 1,023.95 KB would be written as 1024 KB.
  while (amount >= 1023.95 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || amount >= 100 ? 0 : 1;
  return `${amount.toFixed(digits).replace(/\.0$/, '')} ${units[unit]}`;
}

/** Writes a length of time: 4 ms, 1.5 s, 3 min, 2 h, 5 d. @param ms milliseconds */
export function writeDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1).replace(/\.0$/, '')} s`;
  const minutes = Math.round(ms / 60_000);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) {
    const rest = minutes % 60;
    return rest === 0 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 60)} h ${rest} min`;
  }
  return `${Math.round(minutes / 1440)} d`;
}

/** Writes a length of time exactly, for the marks of an axis: 500 ms, 1.5 s, 1 min 30 s, 2 d 12 h. @param ms milliseconds */
export function writeMark(ms: number): string {
  if (ms < 60_000) return writeDuration(ms);
  const units = [
    ['d', 86_400_000, Number.POSITIVE_INFINITY],
    ['h', 3_600_000, 24],
    ['min', 60_000, 60],
    ['s', 1000, 60],
  ] as const;
  const counts = units.map(([unit, length, most]) => [Math.floor(ms / length) % most, unit] as const);
  return counts.flatMap(([count, unit]) => (count > 0 ? `${count} ${unit}` : [])).join(' ');
}

/** Writes the marks of an axis, each unlike the others: with seconds or the day where needed. @param times seconds since 1970 */
export function writeClockMarks(times: readonly number[], zone?: string): readonly string[] {
  const length = (times[1] ?? 0) - (times[0] ?? 0) < 60 ? 8 : 5;
  const found = times.map((time) => parts(time * 1000, zone));
  const marks = found.map((of) => `${of['hour']}:${of['minute']}:${of['second']}`.slice(0, length));
  if (new Set(marks).size === marks.length) return marks;
  return marks.map((mark, index) => `${found[index]?.['day']} ${found[index]?.['month']} ${mark}`);
}

/** Writes when something is due: `now` where that time has come, or comes within five seconds. */
export function writeDue(time: number, now: number): string {
  return time - now < 5000 ? 'now' : writeDistance(time, now);
}

/** Writes how long ago a time was, or how long it takes until then: `just now`, `4 min ago`, `in 2 h`. */
export function writeDistance(time: number, now: number): string {
  const apart = Math.abs(now - time);
  if (apart < 5000) return 'just now';
  const length = apart < 59_950 ? `${Math.round(apart / 1000)} s` : writeDuration(apart);
  return time > now ? `in ${length}` : `${length} ago`;
}

function parts(time: number, zone: string | undefined): Readonly<Record<string, string>> {
  const format = new Intl.DateTimeFormat('en-GB', {
    ...{ year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit' },
    hourCycle: 'h23',
    ...(zone === undefined ? {} : { timeZone: zone }),
  });
  return Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, value]));
}

/** Writes a time for a list: of day where it is today's, else with the day, and the year where it is another. @param zone absent: own */
export function writeTime(time: number, now: number, zone?: string): string {
  const then = parts(time, zone);
  const today = parts(now, zone);
  const clock = `${then['hour']}:${then['minute']}:${then['second']}`;
  if (then['year'] !== today['year']) return `${then['day']} ${then['month']} ${then['year']}, ${clock}`;
  if (then['month'] !== today['month'] || then['day'] !== today['day']) {
    return `${then['day']} ${then['month']}, ${clock}`;
  }
  return clock;
}

/** Writes a time to the millisecond, in the reader's zone and in UTC. */
export function writeExactTime(time: number, zone?: string): string {
  const format = new Intl.DateTimeFormat('en-GB', {
    ...{ dateStyle: 'full', timeStyle: 'long' },
    ...(zone === undefined ? {} : { timeZone: zone }),
  });
  return `${format.format(time)} (${new Date(time).toISOString()})`;
}

/** Choices of how long something counts. @param forEver what the choice without an end is called @param days the others */
export function spanChoices(forEver: string, ...days: readonly number[]) {
  const named: Readonly<Record<number, string>> = { 7: 'a week', 365: 'a year' };
  const choices = days.map((count) => ({ value: String(count), label: `For ${named[count] ?? `${count} days`}` }));
  return [{ value: '', label: forEver }, ...choices];
}

/** When what begins now ends. @param days as `spanChoices` has them @returns as the API takes it; null: never */
export function endAfter(days: string, now: number): string | null {
  return days === '' ? null : new Date(now + Number(days) * 86_400_000).toISOString();
}
