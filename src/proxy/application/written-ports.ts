// Ports and sockets as a person reads them: `port 22`, `ports 1000-2000, 2002`, `127.0.0.1:22`.

import { hostPort } from '../../base/net/socket-address.ts';
import type { PortRange } from './application.ts';
import { formatPorts, joinRanges } from './port-ranges.ts';

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
