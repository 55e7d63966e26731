// The way to a PostgreSQL that is far away: passes what comes on, each piece half of a round trip later, in a process of its own
// (`fork`). Waiting for round trips, and not the machine's cores, then bounds what gateways take beside one another. It counts the
// statements that clients send. `node bench/far-proxy.ts PORT MILLISECONDS`: the server's port on loopback, and a round trip.

import { connect, createServer, type Socket } from 'node:net';

/** What the parent hears: the port once it listens, and the statements so far whenever it sends anything. */
export interface FarAnswer {
  readonly port?: number | undefined;
  readonly statements?: number;
}

const [server, roundTripMs] = process.argv.slice(2).map(Number);
let statements = 0;

/** Counts the messages `Execute` of PostgreSQL's protocol, which may be parted anywhere. */
function counter(): (octets: Buffer) => void {
  // The message at the beginning of a connection has no type.
  let [skip, isFirst] = [0, true];
  let rest: Buffer = Buffer.alloc(0);
  return (octets) => {
    let at = Math.min(skip, octets.length);
    skip -= at;
    if (skip > 0) return;
    rest = rest.length === 0 ? octets.subarray(at) : Buffer.concat([rest, octets]);
    at = 0;
    for (;;) {
      const header = isFirst ? 4 : 5;
      if (rest.length - at < header) break;
      if (!isFirst && rest[at] === 0x45) statements += 1;
      const end = at + rest.readUInt32BE(at + header - 4) + header - 4;
      isFirst = false;
      if (end > rest.length) {
        skip = end - rest.length;
        at = rest.length;
        break;
      }
      at = end;
    }
    rest = rest.subarray(at);
  };
}

/** Passes on what one end sends. */
function pass(from: Socket, to: Socket): void {
  const later = (work: () => void): void => void setTimeout(work, (roundTripMs ?? 0) / 2);
  from.on('data', (octets) => later(() => to.write(octets)));
  from.on('error', () => undefined);
  from.on('close', () => later(() => to.end()));
}

const listener = createServer({ noDelay: true }, (client) => {
  const far = connect({ port: server ?? 0, host: '127.0.0.1', noDelay: true });
  client.on('data', counter());
  pass(client, far);
  pass(far, client);
});
listener.listen(0, '127.0.0.1', () => {
  const address = listener.address();
  process.send?.({ port: typeof address === 'object' ? address?.port : undefined } satisfies FarAnswer);
});
process.on('message', () => process.send?.({ statements } satisfies FarAnswer));
process.on('disconnect', () => process.exit());
