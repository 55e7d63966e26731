// Ports and ranges of ports: reading them, and what is left of one when others are taken away (13002).

import { hostPort } from '../../base/net/socket-address.ts';
import type { PortRange } from './application.ts';

const portsForm = /^([1-9]\d{0,4})(?:-([1-9]\d{0,4}))?$/;

/** Reads `22` or `1000-2000`, 1-65535 without leading zeros. @returns undefined for anything else; `22-22` does not ascend (D81) */
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

/** No more ranges than this are written out. */
const rangesShown = 8;

/** Writes ports in ascending order, neighbours as ranges: `port 22`, `ports 22, 80-81`; a long list is cut. */
export function writePorts(ports: readonly (number | PortRange)[]): string {
  const joined = joinRanges(ports.map((port) => (typeof port === 'number' ? { first: port, last: port } : port)));
  const texts = joined.slice(0, rangesShown).map(formatPorts);
  if (joined.length > rangesShown) texts.push(`and ${joined.length - rangesShown} more ranges`);
  const [sole] = joined;
  const isOne = joined.length === 1 && sole?.first === sole?.last;
  return `${isOne ? 'port' : 'ports'} ${texts.join(', ')}`;
}

/** Writes where sockets are bound, neighbouring ports of an address together: `127.0.0.1:22`, `[::1]:1000-2000`. */
export function writeSockets(sockets: readonly { readonly address: string; readonly port: number }[]): string[] {
  return [...Map.groupBy(sockets, ({ address }) => address)].flatMap(([address, bound]) =>
    joinRanges(bound.map(({ port }) => ({ first: port, last: port }))).map((range) =>
      hostPort(address, formatPorts(range)),
    ),
  );
}

/** Writes where a plan's edge ports are bound with an offset; ports over 65535 are bound nowhere (D84). */
export function writeListening(
  { addresses, ports }: { readonly addresses: readonly string[]; readonly ports: PortRange },
  portOffset: number,
): string[] {
  const bound = { first: ports.first + portOffset, last: Math.min(ports.last + portOffset, 65_535) };
  return bound.first > bound.last ? [] : addresses.map((address) => hostPort(address, formatPorts(bound)));
}
