// The load of bench:proxy, in a process of its own: connections one after another on each of some places, each asking for
// so many octets and reading them to the end. Prints one JSON line: {seconds, p50, p99} (milliseconds of a connection).
// Arguments: address, port, places, connections in all, octets of each.

import { connect } from 'node:net';
import { percentileOf } from './process-usage.ts';

const [, , host = '', portText, placesText, connectionsText, octetsText] = process.argv;
const port = Number(portText);
const places = Number(placesText);
const connections = Number(connectionsText);
const octets = Number(octetsText);

const times: number[] = [];
let begun = 0;

/** One connection from its beginning to its end. */
function ask(buffer: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    let got = 0;
    const onread = { buffer, callback: (length: number) => (got += length) >= 0 };
    const socket = connect({ port, host, noDelay: true, onread });
    socket.once('connect', () => socket.write(`${octets}\n`, 'latin1'));
    socket.once('error', reject);
    socket.once('close', () => {
      times.push(performance.now() - startedAt);
      if (got === octets) resolve();
      else reject(new Error(`${got} of ${octets} octets came`));
    });
  });
}

async function keepAsking(): Promise<void> {
  const buffer = Buffer.alloc(256 * 1024);
  while (begun < connections) {
    begun += 1;
    await ask(buffer);
  }
}

const start = performance.now();
await Promise.all(Array.from({ length: places }, keepAsking));
const seconds = (performance.now() - start) / 1000;
console.log(JSON.stringify({ seconds, p50: percentileOf(times, 0.5), p99: percentileOf(times, 0.99) }));
