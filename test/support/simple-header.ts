// The simple header for datagrams, as an origin reads it.

import { addressOctets, addressText } from '../../src/base/net/socket-address.ts';
import type { ProxiedConnection } from '../../src/proxy/traffic/proxy-header.ts';

const simpleHeaderLength = 38;
const simpleMagic = 0x56ec;

/** A datagram taken apart. */
interface SimpleDatagram extends Pick<ProxiedConnection, 'client' | 'edge'> {
  /** What stands behind the header; a view, not a copy. */
  readonly payload: Buffer;
}

/** Reads a datagram that begins with a simple header; undefined where it is shorter or begins otherwise. */
export function readSimpleHeader(datagram: Buffer): SimpleDatagram | undefined {
  if (datagram.length < simpleHeaderLength || datagram.readUInt16BE(0) !== simpleMagic) return undefined;
  const addressAt = (start: number): string => {
    const text = addressText(datagram.subarray(start, start + 16));
    const octets = addressOctets(text);
    return octets?.length === 4 ? octets.join('.') : text;
  };
  return {
    client: { address: addressAt(2), port: datagram.readUInt16BE(34) },
    edge: { address: addressAt(18), port: datagram.readUInt16BE(36) },
    payload: datagram.subarray(simpleHeaderLength),
  };
}
