// A small DNS server on loopback for tests (RFC 1035): answers TXT, MX, A, AAAA, SRV and TLSA from a table that a test may
// change, by UDP, and by TCP what does not fit there. It can lie as name servers and their forgers do.

import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { createServer, type Server, type Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import { onTestFinished } from 'vitest';
import type { DnsSettings } from '../../src/web/admin/check-records.ts';
import { systemDns } from '../../src/web/admin/check-records.ts';

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
  /** `usage selector matching hex` */
  readonly tlsa?: readonly string[];
  /** The records were validated: AD is set. */
  readonly secure?: boolean;
  /** Seconds; 60 where it is absent. */
  readonly ttl?: number;
  /** A packet with a wrong id, and one that answers another question, come before each answer. */
  readonly forged?: boolean;
  /** The alias is answered alone, without the records of its target. */
  readonly aliasAlone?: boolean;
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

const types = { A: 1, CNAME: 5, MX: 15, TXT: 16, AAAA: 28, SRV: 33, TLSA: 52 } as const;
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

function record(name: string, type: number, data: Buffer, ttl = 60): Buffer {
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(type, 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt32BE(ttl, 4);
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
  return Buffer.concat([number, nameOctets(host === '.' ? '' : host)]);
}

function tlsaData(text: string): Buffer {
  const [usage, selector, matching, hex = ''] = text.split(' ');
  return Buffer.concat([Buffer.of(Number(usage), Number(selector), Number(matching)), Buffer.from(hex, 'hex')]);
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

function recordsFor(names: ReadonlyMap<string, DnsName>, name: string, type: number, depth = 0): Buffer[] {
  const found = names.get(name);
  if (found?.cname !== undefined) {
    const alias = record(name, types.CNAME, nameOctets(found.cname), found.ttl);
    return found.aliasAlone || depth > 20 ? [alias] : [alias, ...recordsFor(names, found.cname, type, depth + 1)];
  }
  const all = (texts: readonly string[] | undefined, data: (text: string) => Buffer): Buffer[] =>
    (texts ?? []).map((text) => record(name, type, data(text), found?.ttl));
  if (type === types.TXT) return all(found?.txt, txtData);
  if (type === types.MX) return all(found?.mx, mxData);
  if (type === types.SRV) return all(found?.srv, srvData);
  if (type === types.TLSA) return all(found?.tlsa, tlsaData);
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
  // A response, authoritative, recursion desired and available; AD where the records were validated.
  head.writeUInt16BE(0x8580 | (found?.secure ? 0x20 : 0) | code, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(records.length, 6);
  return Buffer.concat([head, query.subarray(12, end), ...records]);
}

/** What does not fit into UDP is answered without its records and with TC, so that the client asks by TCP. */
function fitted(octets: Buffer): Buffer {
  if (octets.length <= 1232) return octets;
  const cut = Buffer.from(octets);
  cut.writeUInt16BE(cut.readUInt16BE(2) | 0x200, 2);
  cut.writeUInt16BE(0, 6);
  return cut.subarray(0, readQuestion(cut).end);
}

/** What a forger sends who does not know the id, and who knows it but not the question. */
function forgeries(octets: Buffer): Buffer[] {
  const otherId = Buffer.from(octets);
  otherId.writeUInt16BE((octets.readUInt16BE(0) + 1) & 0xffff, 0);
  const otherQuestion = Buffer.from(octets);
  otherQuestion.write('x', 13);
  return [otherId, otherQuestion, Buffer.from('no DNS at all')];
}

/** Answers by TCP, each message behind its length (RFC 1035 §4.2.2). */
function serveTcp(socket: Socket, answerTo: (query: Buffer) => Promise<Buffer | undefined>): void {
  let pending = Buffer.alloc(0);
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk) => {
    pending = Buffer.concat([pending, chunk]);
    if (pending.length < 2 || pending.length < 2 + pending.readUInt16BE(0)) return;
    const query = pending.subarray(2, 2 + pending.readUInt16BE(0));
    void answerTo(query).then((octets) => {
      if (!octets) return;
      const length = Buffer.alloc(2);
      length.writeUInt16BE(octets.length);
      socket.write(Buffer.concat([length, octets]));
    });
  });
}

/** Binds UDP and TCP to one port; where somebody has it by TCP, to another. */
async function bindBoth(tcp: Server): Promise<UdpSocket> {
  for (let tries = 0; ; tries += 1) {
    const socket = createSocket('udp4');
    await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
    const { port } = socket.address();
    const isBound = await new Promise<boolean>((resolve) => {
      tcp.once('error', () => resolve(false));
      tcp.listen(port, '127.0.0.1', () => resolve(true));
    });
    tcp.removeAllListeners('error');
    if (isBound) return socket;
    await new Promise<void>((resolve) => socket.close(() => resolve()));
    if (tries === 20) throw new Error('no port is free for UDP and TCP');
  }
}

/** Starts a server; it is closed when the test ends. */
export async function startDnsServer(names: Readonly<Record<string, DnsName>> = {}): Promise<DnsServer> {
  const table = new Map(Object.entries(names));
  const asked: string[] = [];
  let gate = Promise.resolve();
  const answerTo = async (query: Buffer): Promise<Buffer | undefined> => {
    const { name, type } = readQuestion(query);
    asked.push(`${typeNames.get(type) ?? type} ${name}`);
    await gate;
    return answer(query, table);
  };
  const connections = new Set<Socket>();
  const tcp = createServer((connection) => {
    connections.add(connection);
    serveTcp(connection, answerTo);
  });
  const socket = await bindBoth(tcp);
  socket.on('message', (query, from) => {
    void answerTo(query).then((octets) => {
      if (!octets) return;
      const isForged = table.get(readQuestion(query).name)?.forged === true;
      for (const one of [...(isForged ? forgeries(octets) : []), fitted(octets)])
        socket.send(one, from.port, from.address);
    });
  });
  onTestFinished(async () => {
    for (const connection of connections) connection.destroy();
    await new Promise<void>((resolve) => tcp.close(() => resolve()));
    await new Promise<void>((resolve) => socket.close(() => resolve()));
  });
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
