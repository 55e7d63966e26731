// One question to one name server: by UDP, and by TCP where the answer does not fit (RFC 1035 §4.2, RFC 7766). What is no
// answer to this very question is passed over, so that nobody else can answer it by guessing.

import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { connect, isIPv6 } from 'node:net';
import { AUTHENTIC_DATA, type DecodedPacket, decode, encode, RECURSION_DESIRED } from 'dns-packet';

/** The types of records that are asked for. */
export type DnsType = 'A' | 'AAAA' | 'MX' | 'TLSA' | 'TXT';

/** A name server. */
export interface DnsServerAddress {
  readonly address: string;
  readonly port: number;
}

/** What is asked, and of whom. */
export interface DnsExchange {
  readonly server: DnsServerAddress;
  readonly name: string;
  readonly type: DnsType;
  /** For UDP and TCP each, in milliseconds. */
  readonly withinMs: number;
}

/** RFC 9715 §3: an answer of this size arrives in one piece nearly everywhere. */
const udpPayloadOctets = 1232;
/** Packets that are no answer to the question are passed over so many times; a flood of them ends the exchange. */
const strayPackets = 100;
/** Pointers in a row; what looks like a few of them may be other octets. */
const longestPointerChain = 20;

/** A question with its octets. RFC 6840 §5.7: AD in a question asks whether the answer was validated. */
function questionOf({ name, type }: DnsExchange) {
  const id = randomInt(0x1_00_00);
  const octets = encode({
    type: 'query',
    id,
    flags: RECURSION_DESIRED | AUTHENTIC_DATA,
    questions: [{ type, name, class: 'IN' }],
    additionals: [
      {
        type: 'OPT',
        name: '.',
        udpPayloadSize: udpPayloadOctets,
        extendedRcode: 0,
        ednsVersion: 0,
        flags: 0,
        flag_do: false,
        options: [],
      },
    ],
  });
  return { id, octets };
}

/** Whether pointers lead to pointers (RFC 1035 §4.1.4): no encoder writes two in a row, and reading thousands takes seconds. */
function hasPointerChain(octets: Buffer): boolean {
  const lengths = new Uint8Array(octets.length);
  for (let at = 0; at + 1 < octets.length; at += 1) {
    const octet = octets[at] ?? 0;
    const target = ((octet & 0x3f) << 8) | (octets[at + 1] ?? 0);
    if (octet < 0xc0 || target >= at) continue;
    const length = (lengths[target] ?? 0) + 1;
    if (length > longestPointerChain) return true;
    lengths[at] = length;
  }
  return false;
}

/** Reads an answer; undefined where it is none to this question. */
function answerOf(octets: Buffer, id: number, { name, type }: DnsExchange): DecodedPacket | undefined {
  if (hasPointerChain(octets)) return undefined;
  try {
    const packet = decode(octets);
    const [question] = packet.questions ?? [];
    const isOurs = packet.id === id && packet.type === 'response' && question?.type === type;
    return isOurs && question.name.toLowerCase() === name.toLowerCase() ? packet : undefined;
  } catch {
    return undefined;
  }
}

/** Runs an exchange for so many milliseconds. @param run begins it, and gives what ends it */
async function bounded(
  withinMs: number,
  run: (answered: Pick<PromiseWithResolvers<DecodedPacket>, 'resolve' | 'reject'>) => () => void,
): Promise<DecodedPacket> {
  const answered = Promise.withResolvers<DecodedPacket>();
  const close = run(answered);
  const timer = setTimeout(() => answered.reject(new Error('the name server did not answer in time')), withinMs);
  return await answered.promise.finally(() => {
    clearTimeout(timer);
    close();
  });
}

async function askByUdp(exchange: DnsExchange): Promise<DecodedPacket> {
  const { server, withinMs } = exchange;
  const { id, octets } = questionOf(exchange);
  return await bounded(withinMs, ({ resolve, reject }) => {
    // A socket of its own for each question: its port, drawn at random by the system, is a secret beside the id (RFC 5452).
    const socket = createSocket(isIPv6(server.address) ? 'udp6' : 'udp4');
    let strays = 0;
    socket.on('error', reject);
    socket.on('message', (message) => {
      const answer = answerOf(message, id, exchange);
      if (answer) resolve(answer);
      else if (++strays > strayPackets) reject(new Error('the name server sent what is no answer'));
    });
    socket.connect(server.port, server.address, (error?: Error) => {
      if (error) reject(error);
      else socket.send(octets);
    });
    return () => socket.close();
  });
}

async function askByTcp(exchange: DnsExchange): Promise<DecodedPacket> {
  const { server, withinMs } = exchange;
  const { id, octets } = questionOf(exchange);
  return await bounded(withinMs, ({ resolve, reject }) => {
    const socket = connect(server.port, server.address);
    const pieces: Buffer[] = [];
    let size = 0;
    let want = Number.POSITIVE_INFINITY;
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the name server closed the connection')));
    socket.on('connect', () => {
      // RFC 1035 §4.2.2: two octets of length before the message.
      const length = Buffer.alloc(2);
      length.writeUInt16BE(octets.length);
      socket.write(Buffer.concat([length, octets]));
    });
    socket.on('data', (chunk) => {
      pieces.push(chunk);
      size += chunk.length;
      if (size >= 2 && want === Number.POSITIVE_INFINITY) want = 2 + Buffer.concat(pieces).readUInt16BE(0);
      if (size < want) return;
      const answer = answerOf(Buffer.concat(pieces).subarray(2, want), id, exchange);
      if (answer) resolve(answer);
      else reject(new Error('the name server sent what is no answer'));
    });
    return () => socket.destroy();
  });
}

/** Asks a name server one question. @returns its answer @throws Error with a clause for people where none comes in time */
export async function askServer(exchange: DnsExchange): Promise<DecodedPacket> {
  const answer = await askByUdp(exchange);
  return answer.flag_tc ? await askByTcp(exchange) : answer;
}
