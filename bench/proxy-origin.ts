// The origin of bench:proxy, in a process of its own: takes a line with a number, sends so many octets and closes. Prints
// its port.

import { type AddressInfo, createServer, type Socket } from 'node:net';

const piece = Buffer.alloc(1024 * 1024, 'x');

function send(socket: Socket, octets: number): void {
  let left = octets;
  const more = (): void => {
    while (left > 0) {
      const next = left < piece.length ? piece.subarray(0, left) : piece;
      left -= next.length;
      if (left === 0) socket.end(next);
      else if (!socket.write(next)) return;
    }
  };
  socket.on('drain', more);
  more();
}

const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
  socket.on('error', () => socket.destroy());
  socket.once('data', (line) => send(socket, Number(line.toString('latin1'))));
});
server.listen({ port: 0, host: '127.0.0.1', backlog: 1024 }, () => console.log((server.address() as AddressInfo).port));
