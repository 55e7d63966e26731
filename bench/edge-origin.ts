// The origin of bench:edge, in a process of its own: as little of a server as there can be, so that what is measured is the
// proxy. It answers every request head with 200 and a body of as many octets as the path says (`/65536`), and prints its
// port.

import { type AddressInfo, createServer } from 'node:net';

const headEnd = '\r\n\r\n';
const replies = new Map<string, Buffer>();

function reply(path: string): Buffer {
  let made = replies.get(path);
  if (!made) {
    const octets = Number(path.slice(1));
    const head = `HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain\r\nCache-Control: no-cache\r\nETag: "bench"\r\nContent-Length: ${octets}\r\n\r\n`;
    made = Buffer.concat([Buffer.from(head), Buffer.alloc(octets, 'x')]);
    replies.set(path, made);
  }
  return made;
}

const server = createServer({ noDelay: true }, (socket) => {
  let held = '';
  socket.on('error', () => socket.destroy());
  socket.on('data', (piece) => {
    held += piece.toString('latin1');
    for (let end = held.indexOf(headEnd); end >= 0; end = held.indexOf(headEnd)) {
      socket.write(reply(held.slice(held.indexOf(' ') + 1, held.indexOf(' HTTP/'))));
      held = held.slice(end + headEnd.length);
    }
  });
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
