// What goes before a datagram to the origin, and what is taken off one that comes back (D81, D84).

import type { ForwardingPlan } from '../application/application.ts';
import { type ProxiedConnection, proxyHeaderV1, proxyHeaderV2, simpleHeader } from './proxy-header.ts';

/** The headers of one session. */
export interface UdpFraming {
  /** Before every datagram to the origin; absent for none. */
  readonly header?: Buffer;
  /** The payload of a datagram of the origin; a view, not a copy. */
  fromOrigin(datagram: Buffer): Buffer;
}

const asItIs = (datagram: Buffer): Buffer => datagram;

/**
 * Makes the framing of a session. A header goes before each datagram, not only the first: datagrams are lost and change
 * places, and receivers of connectionless protocols (name servers for one) expect it on each. Version 1 has no form for
 * UDP but `PROXY UNKNOWN`. With `simple` the origin may put the header that it got before its replies: exactly that one
 * is taken off, anything else is the origin's payload and is left alone.
 */
export function udpFraming(
  proxyProtocol: ForwardingPlan['proxyProtocol'],
  ends: Pick<ProxiedConnection, 'client' | 'edge'>,
): UdpFraming {
  if (proxyProtocol === 'off') return { fromOrigin: asItIs };
  if (proxyProtocol === 'v1') return { header: proxyHeaderV1({ transport: 'udp', ...ends }), fromOrigin: asItIs };
  if (proxyProtocol === 'v2') return { header: proxyHeaderV2({ transport: 'udp', ...ends }), fromOrigin: asItIs };
  const header = simpleHeader(ends);
  const begins = (datagram: Buffer): boolean =>
    datagram.length >= header.length && datagram.compare(header, 0, header.length, 0, header.length) === 0;
  return { header, fromOrigin: (datagram) => (begins(datagram) ? datagram.subarray(header.length) : datagram) };
}
