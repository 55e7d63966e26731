// Ports and ranges of ports: reading them, and what is left of one when others are taken away (13002).

import type { PortRange } from './application.ts';

const portsForm = /^([1-9]\d{0,4})(?:-([1-9]\d{0,4}))?$/;

/**
 * Reads `22` or `1000-2000`: 1-65535, ascending, without leading zeros.
 * @returns undefined for anything else; a range of one port (`22-22`) does not ascend (D81)
 */
export function parsePorts(text: string): PortRange | undefined {
  const match = portsForm.exec(text);
  if (!match) return undefined;
  const first = Number(match[1]);
  const last = match[2] === undefined ? first : Number(match[2]);
  if (last > 65_535 || (match[2] !== undefined && last <= first)) return undefined;
  return { first, last };
}

/** Reads ports as a configuration that was checked has them: a number, `22`, `1000-2000`, or `22-22`. */
export function configuredPorts(entry: number | string): PortRange {
  const [first = '', last = first] = String(entry).split('-');
  return { first: Number(first), last: Number(last) };
}

/** How many ports a range has. */
export function portCount({ first, last }: PortRange): number {
  return last - first + 1;
}

/** Writes `22` or `1000-2000`. */
export function formatPorts({ first, last }: PortRange): string {
  return first === last ? String(first) : `${first}-${last}`;
}

/** Ascending, without overlap, neighbours joined. */
export function joinRanges(ranges: readonly PortRange[]): readonly PortRange[] {
  const joined: PortRange[] = [];
  for (const range of [...ranges].sort((one, other) => one.first - other.first)) {
    const before = joined.at(-1);
    if (!before || range.first > before.last + 1) joined.push(range);
    else if (range.last > before.last) joined[joined.length - 1] = { first: before.first, last: range.last };
  }
  return joined;
}

/** The parts of a range that are in one of others. */
export function within(range: PortRange, others: readonly PortRange[]): readonly PortRange[] {
  return joinRanges(others)
    .map(({ first, last }) => ({ first: Math.max(first, range.first), last: Math.min(last, range.last) }))
    .filter(({ first, last }) => first <= last);
}

/** The parts of a range that are in none of others. */
export function without(range: PortRange, others: readonly PortRange[]): readonly PortRange[] {
  const left: PortRange[] = [];
  let next = range.first;
  for (const { first, last } of within(range, others)) {
    if (first > next) left.push({ first: next, last: first - 1 });
    next = last + 1;
  }
  return next <= range.last ? [...left, { first: next, last: range.last }] : left;
}
