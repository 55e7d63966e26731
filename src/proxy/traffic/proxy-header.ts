// Tells an origin the client's address: PROXY protocol 1 and 2 (proxy-protocol.txt, §2.1, §2.2), and 38 octets before datagrams (D84).

import { addressOctets, addressText, mappedOctets } from '../../base/net/socket-address.ts';
import type { ForwardingPlan, TransportProtocol } from '../application/application.ts';

/** An address and a port. */
export interface Endpoint {
  /** IPv4, or IPv6 without brackets. */
  readonly address: string;
  readonly port: number;
}

/** Whose octets a header announces. */
export interface ProxiedConnection {
  readonly transport: TransportProtocol;
  readonly client: Endpoint;
  readonly edge: Endpoint;
}

/** Both addresses in one family, that of IPv6 where they differ; undefined where one is no IP address. */
function inOneFamily({ client, edge }: Pick<ProxiedConnection, 'client' | 'edge'>) {
  const from = addressOctets(client.address);
  const to = addressOctets(edge.address);
  if (!from || !to) return undefined;
  if (from.length === to.length) return { client: from, edge: to };
  return { client: mappedOctets(from), edge: mappedOctets(to) };
}

/** `inet_ntop` spelling, which keeps the dots of a mapped address. */
function textOf(octets: Uint8Array): string {
  const isMapped = octets.length === 16 && octets.subarray(0, 10).every((octet) => octet === 0) && octets[10] === 0xff;
  return isMapped && octets[11] === 0xff ? `::ffff:${octets.subarray(12).join('.')}` : addressText(octets);
}

/** Version 1: a line of at most 107 octets. Mixed families are written as IPv6; UDP, which it does not know, as `PROXY UNKNOWN`. */
export function proxyHeaderV1(connection: ProxiedConnection): Buffer {
  const addresses = connection.transport === 'tcp' ? inOneFamily(connection) : undefined;
  if (!addresses) return Buffer.from('PROXY UNKNOWN\r\n', 'latin1');
  const [from, to] = [textOf(addresses.client), textOf(addresses.edge)];
  const name = addresses.client.length === 4 ? 'TCP4' : 'TCP6';
  return Buffer.from(`PROXY ${name} ${from} ${to} ${connection.client.port} ${connection.edge.port}\r\n`, 'latin1');
}

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const versionAndCommand = 0x21;
const transportBits = { tcp: 0x01, udp: 0x02 } as const satisfies Record<TransportProtocol, number>;

/** Version 2: 28 octets for IPv4, 52 for IPv6; mixed families are written as IPv6. 16 octets that name no address where one is none. */
export function proxyHeaderV2(connection: ProxiedConnection): Buffer {
  const addresses = inOneFamily(connection);
  const length = addresses ? addresses.client.length * 2 + 4 : 0;
  const header = Buffer.alloc(16 + length);
  signature.copy(header);
  header[12] = versionAndCommand;
  header.writeUInt16BE(length, 14);
  if (!addresses) return header;
  const family = addresses.client.length === 4 ? 0x10 : 0x20;
  header[13] = family | transportBits[connection.transport];
  header.set(addresses.client, 16);
  header.set(addresses.edge, 16 + addresses.client.length);
  header.writeUInt16BE(connection.client.port, header.length - 4);
  header.writeUInt16BE(connection.edge.port, header.length - 2);
  return header;
}

const simpleHeaderLength = 38;
const simpleMagic = 0x56ec;

/** The simple header: 0x56EC, client and proxy address in 16 octets each, both ports, in network order. What is no address is `::`. */
export function simpleHeader({ client, edge }: Pick<ProxiedConnection, 'client' | 'edge'>): Buffer {
  const header = Buffer.alloc(simpleHeaderLength);
  header.writeUInt16BE(simpleMagic, 0);
  header.set(mappedOctets(addressOctets(client.address) ?? new Uint8Array(16)), 2);
  header.set(mappedOctets(addressOctets(edge.address) ?? new Uint8Array(16)), 18);
  header.writeUInt16BE(client.port, 34);
  header.writeUInt16BE(edge.port, 36);
  return header;
}

/** The header before a client's first octet, or before each datagram, since those are lost and change places. @param edge asked if told */
export function proxyHeader(
  { proxyProtocol, transport }: Pick<ForwardingPlan, 'proxyProtocol' | 'transport'>,
  client: Endpoint,
  edge: () => Endpoint,
): Buffer | undefined {
  if (proxyProtocol === 'off' || (proxyProtocol === 'simple' && transport === 'tcp')) return undefined;
  const ends = { client, edge: edge() };
  if (proxyProtocol === 'simple') return simpleHeader(ends);
  return (proxyProtocol === 'v1' ? proxyHeaderV1 : proxyHeaderV2)({ transport, ...ends });
}
