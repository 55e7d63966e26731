// Brings addresses, as sockets report them, into the one form that counters, keys and events use.

import { isIPv4 } from 'node:net';
import { addressOctets, addressText } from './address-octets.ts';

/** Gives an address its normal form: IPv4 inside IPv6 as IPv4, IPv6 as RFC 5952 has it, without a zone; undefined for none. */
export function normalAddress(address: string): string | undefined {
  // What sockets report for IPv4 is in normal form already.
  if (isIPv4(address)) return address;
  const octets = addressOctets(address);
  return octets && addressText(octets);
}

/** Writes `address:port`, an IPv6 address in brackets. */
export function hostPort(address: string, port: number | string): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
