// A small DNS server on loopback UDP for tests (RFC 1035): answers TXT, MX, A, AAAA and SRV from a table that
// a test may change.

import { createSocket } from 'node:dgram';
import ipaddr from 'ipaddr.js';
import { onTestFinished } from 'vitest';
import type { DnsSettings } from '../../src/admin/check-records.ts';
import { systemDns } from '../../src/admin/check-records.ts';

/** What a name has: TXT records (long ones are cut into strings), other records, or a way to fail. */
export interface DnsName {
  readonly txt?: readonly string[];
  /** `10 mx.example.com` */
  readonly mx?: readonly string[];
  readonly a?: readonly string[];
  readonly aaaa?: readonly string[];
  /** `priority weight port target`; a target of `.` is the root. */
  readonly srv?: readonly string[];
  /** The name stands for another, whose records are answered along. */
  readonly cname?: string;
  readonly fails?: 'SERVFAIL' | 'REFUSED' | 'silence';
}

/** The server. */
export interface DnsServer {
  /** `127.0.0.1:port` */
  readonly address: string;
  /** By name in lower case; what is not there does not exist. */
  readonly names: Map<string, DnsName>;
  /** Questions so far, `TXT name`. */
  readonly asked: readonly string[];
  /** Keeps answers back until the function that it gives is called. */
  hold(): () => void;
  /** How to ask it, and nobody else. */
  settings(withinMs?: number): DnsSettings;
}

const types = { A: 1, CNAME: 5, MX: 15, TXT: 16, AAAA: 28, SRV: 33 } as const;
const typeNames = new Map(Object.entries(types).map(([name, type]) => [type as number, name]));
const codes = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const;

function nameOctets(name: string): Buffer {
  const labels = name === '' ? [] : name.split('.');
  return Buffer.concat([
    ...labels.map((label) => Buffer.concat([Buffer.of(label.length), Buffer.from(label)])),
    Buffer.of(0),
  ]);
}

function readQuestion(query: Buffer): { readonly name: string; readonly type: number; readonly end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

function record(name: string, type: number, data: Buffer): Buffer {
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(type, 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt32BE(60, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([nameOctets(name), fixed, data]);
}

function txtData(text: string): Buffer {
  const octets = Buffer.from(text);
  const strings: Buffer[] = [];
  for (let start = 0; start < Math.max(1, octets.length); start += 255) {
    const part = octets.subarray(start, start + 255);
    strings.push(Buffer.of(part.length), part);
  }
  return Buffer.concat(strings);
}

function mxData(text: string): Buffer {
  const [preference = '', host = ''] = text.split(' ');
  const number = Buffer.alloc(2);
  number.writeUInt16BE(Number(preference));
  return Buffer.concat([number, nameOctets(host)]);
}

function srvData(text: string): Buffer {
  const [priority, weight, port, target = ''] = text.split(' ');
  const numbers = Buffer.alloc(6);
  for (const [index, word] of [priority, weight, port].entries()) numbers.writeUInt16BE(Number(word), index * 2);
  return Buffer.concat([numbers, nameOctets(target === '.' ? '' : target)]);
}

function addressData(text: string): Buffer {
  return Buffer.from(ipaddr.parse(text).toByteArray());
}

function recordsFor(names: ReadonlyMap<string, DnsName>, name: string, type: number): Buffer[] {
  const found = names.get(name);
  if (found?.cname !== undefined) {
    return [record(name, types.CNAME, nameOctets(found.cname)), ...recordsFor(names, found.cname, type)];
  }
  const all = (texts: readonly string[] | undefined, data: (text: string) => Buffer): Buffer[] =>
    (texts ?? []).map((text) => record(name, type, data(text)));
  if (type === types.TXT) return all(found?.txt, txtData);
  if (type === types.MX) return all(found?.mx, mxData);
  if (type === types.SRV) return all(found?.srv, srvData);
  return type === types.A ? all(found?.a, addressData) : type === types.AAAA ? all(found?.aaaa, addressData) : [];
}

function answer(query: Buffer, names: ReadonlyMap<string, DnsName>): Buffer | undefined {
  const { name, type, end } = readQuestion(query);
  const found = names.get(name);
  if (found?.fails === 'silence') return undefined;
  const code = found ? (found.fails ? codes[found.fails] : 0) : codes.NXDOMAIN;
  const records = code === 0 ? recordsFor(names, name, type) : [];
  const head = Buffer.alloc(12);
  query.copy(head, 0, 0, 2);
  // A response, authoritative, recursion desired and available.
  head.writeUInt16BE(0x8580 | code, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(records.length, 6);
  return Buffer.concat([head, query.subarray(12, end), ...records]);
}

/** Starts a server; it is closed when the test ends. */
export async function startDnsServer(names: Readonly<Record<string, DnsName>> = {}): Promise<DnsServer> {
  const table = new Map(Object.entries(names));
  const asked: string[] = [];
  let gate = Promise.resolve();
  const socket = createSocket('udp4');
  socket.on('message', (query, from) => {
    const { name, type } = readQuestion(query);
    asked.push(`${typeNames.get(type) ?? type} ${name}`);
    void gate.then(() => {
      const octets = answer(query, table);
      if (octets) socket.send(octets, from.port, from.address);
    });
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  onTestFinished(() => new Promise<void>((resolve) => socket.close(() => resolve())));
  const address = `127.0.0.1:${socket.address().port}`;
  return {
    address,
    names: table,
    asked,
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = promise;
      return resolve;
    },
    settings: (withinMs = 15_000) => ({ ...systemDns([address]), withinMs }),
  };
}
