// The load of bench:rest, in a process of its own: connections that stay open, each with one request at a time, on bare sockets
// and with octets that are made once, so that the client costs little. Prints one JSON line: {seconds, p50, p99, cpu} (milliseconds;
// cpu is its own, in seconds). Arguments: port, the file of a whole request, connections, requests.

import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { percentileOf } from './process-usage.ts';

const [, , port, file = '', connections, requests] = process.argv;
const ask = readFileSync(file);
const headEnd = '\r\n\r\n';
const times: number[] = [];
let left = Number(requests);

/** How many octets an answer has, head and body; undefined while its head is not whole. @throws Error where it is no 200 */
function answerOctets(text: string): number | undefined {
  const end = text.indexOf(headEnd);
  if (end < 0) return undefined;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1];
  if (!text.startsWith('HTTP/1.1 200 ') || length === undefined) throw new Error(`Not 200: ${text.slice(0, 2000)}`);
  return end + headEnd.length + Number(length);
}

/** Asks on one connection until there are no requests left. */
function keepAsking(): Promise<void> {
  return new Promise((resolve, reject) => {
    let startedAt = 0;
    let answer = '';
    const next = (): void => {
      if (left === 0) {
        socket.end();
        resolve();
        return;
      }
      left -= 1;
      startedAt = performance.now();
      socket.write(ask);
    };
    const room = Buffer.alloc(65_536);
    const take = (octets: number): boolean => {
      answer += room.toString('latin1', 0, octets);
      if (answer.length !== answerOctets(answer)) return true;
      answer = '';
      times.push(performance.now() - startedAt);
      next();
      return true;
    };
    const socket = connect({
      port: Number(port),
      host: '127.0.0.1',
      noDelay: true,
      onread: { buffer: room, callback: take },
    });
    socket.on('connect', next);
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('The connection was closed')));
  });
}

const start = performance.now();
await Promise.all(Array.from({ length: Number(connections) }, keepAsking));
const seconds = (performance.now() - start) / 1000;
const { user, system } = process.cpuUsage();
console.log(
  JSON.stringify({
    seconds,
    p50: percentileOf(times, 0.5),
    p99: percentileOf(times, 0.99),
    cpu: (user + system) / 1e6,
  }),
);
