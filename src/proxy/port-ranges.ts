// Ports as a person reads them: `port 22`, `ports 1000-2000, 2002`.

import type { PortRange } from './application.ts';

/** No more ranges than this are written out. */
const rangesShown = 8;

function ranges(ports: readonly (number | PortRange)[]): PortRange[] {
  const joined: { first: number; last: number }[] = [];
  const all = ports.map((port) => (typeof port === 'number' ? { first: port, last: port } : port));
  for (const { first, last } of all.sort((a, b) => a.first - b.first)) {
    const end = joined.at(-1);
    if (end && first <= end.last + 1) end.last = Math.max(end.last, last);
    else joined.push({ first, last });
  }
  return joined;
}

/** Writes ports in ascending order, neighbours as ranges: `port 22`, `ports 22, 80-81`; a long list is cut. */
export function writePorts(ports: readonly (number | PortRange)[]): string {
  const joined = ranges(ports);
  const texts = joined
    .slice(0, rangesShown)
    .map(({ first, last }) => (first === last ? String(first) : `${first}-${last}`));
  if (joined.length > rangesShown) texts.push(`and ${joined.length - rangesShown} more ranges`);
  const [sole] = joined;
  const isOne = joined.length === 1 && sole?.first === sole?.last;
  return `${isOne ? 'port' : 'ports'} ${texts.join(', ')}`;
}
