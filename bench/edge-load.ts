// The load of bench:edge, in a process of its own: connections that stay open, each with one request at a time and no
// pipelining, on bare sockets, so that the client costs little. Prints one JSON line: {seconds, p50, p99} (milliseconds).
// Arguments: port, host, path, Accept, the status that every answer must have, connections, requests.

import { connect } from 'node:net';
import { percentileOf } from './process-usage.ts';

const [, , portText, host = '', path = '/', accept = '*/*', status = '200', connectionsText, requestsText] =
  process.argv;
const port = Number(portText);
const connections = Number(connectionsText);
const requests = Number(requestsText);

const ask = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: bench\r\nAccept: ${accept}\r\nAccept-Encoding: gzip\r\nCookie: session=0123456789abcdef\r\n\r\n`;
const times: number[] = [];
let begun = 0;

/** Asks on one connection until there are no requests left. */
function keepAsking(): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    let startedAt = 0;
    let head = '';
    /** Octets of the body still to come; undefined while the head is read. */
    let remaining: number | undefined;
    const next = (): void => {
      if (begun >= requests) {
        socket.end();
        resolve();
        return;
      }
      begun += 1;
      startedAt = performance.now();
      socket.write(ask, 'latin1');
    };
    socket.on('connect', next);
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('The connection was closed')));
    socket.on('data', (piece) => {
      let octets = piece.length;
      if (remaining === undefined) {
        head += piece.toString('latin1', 0, Math.min(piece.length, 4096));
        const end = head.indexOf('\r\n\r\n');
        if (end < 0) return;
        const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
        if (!head.startsWith(`HTTP/1.1 ${status} `) || length === undefined) {
          reject(new Error(`Not the reply that was asked for: ${JSON.stringify(head.slice(0, 200))}`));
          socket.destroy();
          return;
        }
        // The head has come in one piece unless an earlier piece of it is held.
        octets = piece.length - (end + 4 - (head.length - Math.min(piece.length, 4096)));
        remaining = Number(length);
      }
      remaining -= octets;
      if (remaining > 0) return;
      times.push(performance.now() - startedAt);
      head = '';
      remaining = undefined;
      next();
    });
  });
}

const start = performance.now();
await Promise.all(Array.from({ length: connections }, keepAsking));
const seconds = (performance.now() - start) / 1000;
console.log(JSON.stringify({ seconds, p50: percentileOf(times, 0.5), p99: percentileOf(times, 0.99) }));
