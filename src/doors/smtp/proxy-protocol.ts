// The PROXY protocol header, versions 1 (text) and 2 (binary), as load balancers send it in front of a connection
// (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt).

import ipaddr from 'ipaddr.js';
import { normalAddress } from '../../base/net/socket-address.ts';

/** How the octets at the start of a connection were read. */
export type ProxyHeader =
  | { readonly kind: 'incomplete' }
  | { readonly kind: 'invalid'; readonly reason: string }
  | {
      readonly kind: 'header';
      /** Octets of the header; the client's octets follow. */
      readonly length: number;
      /** The client; undefined for LOCAL, UNKNOWN and sockets that are not IP: the client then is the balancer itself. */
      readonly source: { readonly address: string; readonly port: number } | undefined;
    };

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const prefix = Buffer.from('PROXY ');
/** §2.1: 107 octets with CRLF hold every line of version 1. */
const maxLineOctets = 107;
const fixedOctets = 16;
/** The length field of version 2 allows 65,535; addresses and the known TLVs need far less. */
const maxBodyOctets = 4096;
/** By address family (the high four bits): octets of both addresses and both ports. */
const addressOctets: Readonly<Record<number, number>> = { 1: 12, 2: 36, 3: 216 };

function invalid(reason: string): ProxyHeader {
  return { kind: 'invalid', reason };
}

/** Reads the header at the start of a connection. @param octets all octets so far; a header may arrive in pieces of any size */
export function readProxyHeader(octets: Buffer): ProxyHeader {
  const seen = Math.min(octets.length, signature.length);
  if (octets.compare(signature, 0, seen, 0, seen) === 0) {
    return octets.length < fixedOctets ? { kind: 'incomplete' } : readVersion2(octets);
  }
  const seenPrefix = Math.min(octets.length, prefix.length);
  if (octets.compare(prefix, 0, seenPrefix, 0, seenPrefix) !== 0) return invalid('neither version 1 nor 2');
  const end = octets.subarray(0, maxLineOctets).indexOf('\r\n');
  if (end >= 0) return readVersion1(octets.toString('latin1', 0, end), end + 2);
  return octets.length < maxLineOctets ? { kind: 'incomplete' } : invalid('line of more than 107 octets');
}

function readPort(text: string): number | undefined {
  const port = /^(?:0|[1-9]\d{0,4})$/.test(text) ? Number(text) : Number.NaN;
  return port <= 65_535 ? port : undefined;
}

function readVersion1(line: string, length: number): ProxyHeader {
  const [, family, source = '', destination = '', sourcePort = '', destinationPort = '', ...rest] = line.split(' ');
  if (family === 'UNKNOWN') return { kind: 'header', length, source: undefined };
  if (family !== 'TCP4' && family !== 'TCP6') return invalid('unknown protocol');
  const valid = (text: string): boolean =>
    family === 'TCP4' ? ipaddr.IPv4.isValidFourPartDecimal(text) : ipaddr.IPv6.isValid(text);
  const port = readPort(sourcePort);
  const address = valid(source) && valid(destination) ? normalAddress(source) : undefined;
  if (address === undefined) return invalid('malformed address');
  if (port === undefined || readPort(destinationPort) === undefined || rest.length > 0)
    return invalid('malformed port');
  return { kind: 'header', length, source: { address, port } };
}

/** §2.2.7: each TLV has a type, a length in two octets and a value; together they must fill the octets exactly. */
function wellFormedTlvs(octets: Buffer): boolean {
  let index = 0;
  while (index + 3 <= octets.length) index += 3 + octets.readUInt16BE(index + 1);
  return index === octets.length;
}

function readVersion2(octets: Buffer): ProxyHeader {
  const versionAndCommand = octets[12] ?? 0;
  const family = (octets[13] ?? 0) >> 4;
  const bodyLength = octets.readUInt16BE(14);
  if (versionAndCommand >> 4 !== 2) return invalid('unknown version');
  const command = versionAndCommand & 0x0f;
  if (command > 1) return invalid('unknown command');
  if (bodyLength > maxBodyOctets) return invalid('header too long');
  const length = fixedOctets + bodyLength;
  if (octets.length < length) return { kind: 'incomplete' };
  // §2.2: behind LOCAL the receiver discards the rest; it comes from the balancer's own health check.
  if (command === 0) return { kind: 'header', length, source: undefined };
  const body = octets.subarray(fixedOctets, length);
  const addresses = addressOctets[family] ?? 0;
  if (family > 3) return invalid('unknown address family');
  if (body.length < addresses) return invalid('addresses cut short');
  if (!wellFormedTlvs(body.subarray(addresses))) return invalid('malformed TLV');
  if (family !== 1 && family !== 2) return { kind: 'header', length, source: undefined };
  const width = family === 1 ? 4 : 16;
  const address = ipaddr.process(ipaddr.fromByteArray([...body.subarray(0, width)]).toString()).toString();
  return { kind: 'header', length, source: { address, port: body.readUInt16BE(width * 2) } };
}
