// Bodies stream both ways: whole, unchanged, and with no more of them held than the buffers between (D66).

import { createHash, type Hash } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { faultOrigin } from '../../support/fault-origin.ts';
import { type OriginFront, originFront } from '../../support/origin-front.ts';
import { rawHttp } from '../../support/raw-http.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

const bodyOctets = 64 * 1024 * 1024;
const pieceOctets = 65_536;

/**
 * What may be under way while nobody reads: what the kernel holds for the four sockets between, which grows by itself, and
 * what Node does, which the tests look at on its own.
 */
const underWayOctets = 48 * 1024 * 1024;
const heldInProcessOctets = 1024 * 1024;

/** Pieces of a body that no two octets of are alike for long, and the hash of those made so far. */
function bodyPieces(): { next(): Buffer; readonly hash: Hash } {
  const hash = createHash('sha256');
  let count = 0;
  return {
    hash,
    next: () => {
      const piece = Buffer.alloc(pieceOctets);
      for (let at = 0; at < pieceOctets; at += 4) piece.writeUInt32LE((count * 2_654_435_761 + at) >>> 0, at);
      count += 1;
      hash.update(piece);
      return piece;
    },
  };
}

/** Writes so many octets as fast as the peer takes them; `onSent` hears how many have been handed to the socket. */
async function sendBody(
  socket: Socket,
  octets: number,
  options: { frame(piece: Buffer): Buffer; onSent(total: number): void },
): Promise<string> {
  const pieces = bodyPieces();
  for (let sent = 0; sent < octets; ) {
    const piece = pieces.next();
    sent += piece.length;
    options.onSent(sent);
    if (!socket.write(options.frame(piece))) await once(socket, 'drain');
  }
  return pieces.hash.digest('hex');
}

const plain = (piece: Buffer): Buffer => piece;
const chunk = (piece: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]);

/** Reads in steps, so slowly that the sender would run away if nothing held it. */
async function readSlowly(
  socket: Socket,
  options: { onPiece(piece: Buffer): void; pauseEvery: number },
): Promise<void> {
  let since = 0;
  socket.on('data', (piece: Buffer) => {
    options.onPiece(piece);
    since += piece.length;
    if (since < options.pauseEvery) return;
    since = 0;
    socket.pause();
    setImmediate(() => socket.resume());
  });
  socket.resume();
  await once(socket, 'end');
}

/** The sockets of a front: of its clients, and the largest amount that any of them had waiting to be written. */
function watchClients(front: OriginFront): () => number {
  let most = 0;
  front.onRequest((socket) => {
    const write = socket.write.bind(socket);
    socket.write = ((...args: Parameters<typeof write>) => {
      const more = write(...args);
      most = Math.max(most, socket.writableLength);
      return more;
    }) as typeof socket.write;
  });
  return () => most;
}

describe('64 MiB', () => {
  test.each(['length', 'chunked', 'close'] as const)(
    'down, framed by %s, to a client that stops reading',
    async (framing) => {
      let sent = 0;
      let digest = '';
      const origin = await faultOrigin(async (side) => {
        await side.head();
        const fields = {
          length: `Content-Length: ${bodyOctets}\r\n`,
          chunked: 'Transfer-Encoding: chunked\r\n',
          close: '',
        };
        await side.send(`HTTP/1.1 200 OK\r\n${fields[framing]}\r\n`);
        digest = await sendBody(side.socket, bodyOctets, {
          frame: framing === 'chunked' ? chunk : plain,
          onSent: (total) => (sent = total),
        });
        if (framing === 'chunked') await side.send('0\r\n\r\n');
        if (framing === 'close') side.socket.end();
      });
      const front = await originFront({ origin: `http://127.0.0.1:${origin.port}` });
      open.push(origin, front);
      const held = watchClients(front);
      const client = await rawHttp(front.port);
      client.socket.removeAllListeners('data');
      client.socket.pause();
      // HTTP/1.0 gets every body plain, until the close.
      client.send('GET / HTTP/1.0\r\nHost: example.com\r\n\r\n');
      // The origin writes until all that lies between is full; it is still when two looks are the same.
      let before = -1;
      await expect
        .poll(
          () => {
            const still = sent > 0 && sent === before;
            before = sent;
            return still;
          },
          { interval: 200, timeout: 15_000 },
        )
        .toBe(true);
      expect(sent).toBeLessThan(underWayOctets);
      expect(held()).toBeLessThan(heldInProcessOctets);

      const hash = createHash('sha256');
      let received = 0;
      let head: Buffer | undefined = Buffer.alloc(0);
      await readSlowly(client.socket, {
        pauseEvery: 1024 * 1024,
        onPiece: (piece) => {
          let body = piece;
          if (head) {
            head = Buffer.concat([head, piece]);
            const end = head.indexOf('\r\n\r\n');
            if (end < 0) return;
            body = head.subarray(end + 4);
            head = undefined;
          }
          hash.update(body);
          received += body.length;
          expect(sent - received).toBeLessThan(underWayOctets);
        },
      });
      client.socket.destroy();
      expect(received).toBe(bodyOctets);
      expect(hash.digest('hex')).toBe(digest);
      expect(held()).toBeLessThan(heldInProcessOctets);
    },
  );

  test.each(['length', 'chunked'] as const)('up, framed by %s, to an origin that stops reading', async (framing) => {
    let sent = 0;
    let received = 0;
    let head = '';
    const hash = createHash('sha256');
    let goOn: () => void = () => undefined;
    const waiting = new Promise<void>((resolve) => (goOn = resolve));
    const origin = await faultOrigin(async (side) => {
      head = await side.head();
      side.socket.unshift(side.takeOver());
      await waiting;
      const done = (): void => {
        side.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      };
      let framed = Buffer.alloc(0);
      await readSlowly(side.socket, {
        pauseEvery: 1024 * 1024,
        onPiece: (piece) => {
          if (framing === 'length') {
            hash.update(piece);
            received += piece.length;
          } else {
            framed = Buffer.concat([framed, piece]);
            for (;;) {
              const end = framed.indexOf('\r\n');
              const size = end < 0 ? Number.NaN : Number.parseInt(framed.toString('latin1', 0, end), 16);
              if (!(framed.length >= end + 4 + size)) break;
              hash.update(framed.subarray(end + 2, end + 2 + size));
              received += size;
              framed = framed.subarray(end + 4 + size);
            }
          }
          expect(sent - received).toBeLessThan(underWayOctets);
          if (received === bodyOctets) done();
        },
      });
    });
    const front = await originFront({ origin: `http://127.0.0.1:${origin.port}` });
    open.push(origin, front);
    const client = await rawHttp(front.port);
    client.send(
      `POST / HTTP/1.1\r\nHost: example.com\r\n${framing === 'length' ? `Content-Length: ${bodyOctets}` : 'Transfer-Encoding: chunked'}\r\n\r\n`,
    );
    const sending = sendBody(client.socket, bodyOctets, {
      frame: framing === 'length' ? plain : chunk,
      onSent: (total) => (sent = total),
    });
    let before = -1;
    await expect
      .poll(
        () => {
          const still = head !== '' && sent === before;
          before = sent;
          return still;
        },
        { interval: 200, timeout: 15_000 },
      )
      .toBe(true);
    expect(sent).toBeLessThan(underWayOctets);
    goOn();
    const digest = await sending;
    if (framing === 'chunked') client.send('0\r\n\r\n');
    expect(await client.until('\r\n\r\nok')).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    client.socket.destroy();
    expect(received).toBe(bodyOctets);
    expect(hash.digest('hex')).toBe(digest);
  });
});

test('a body streams: what the origin has sent arrives before it sends more, and so does what the client has', async () => {
  let answer: ((text: string) => Promise<void>) | undefined;
  const origin = await faultOrigin(async (side) => {
    await side.head();
    expect((await side.octets(8)).toString('latin1')).toBe('3\r\nabc\r\n');
    await side.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n');
    answer = (text) => side.send(text);
    expect((await side.octets(13)).toString('latin1')).toBe('3\r\ndef\r\n0\r\n\r\n');
    await side.send('6\r\nsecond\r\n0\r\n\r\n');
  });
  const front = await originFront({ origin: `http://127.0.0.1:${origin.port}` });
  open.push(origin, front);
  const client = await rawHttp(front.port);
  client.send('POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n');
  expect(await client.until('first')).not.toContain('second');
  await answer?.('1\r\n-\r\n');
  await client.until('first\r\n1\r\n-\r\n');
  client.send('3\r\ndef\r\n0\r\n\r\n');
  expect(await client.until('0\r\n\r\n')).toContain('6\r\nsecond\r\n');
  client.socket.destroy();
});

test('a head does not wait for the body, whose first octet an event stream may keep back for long', async () => {
  let goOn: () => void = () => undefined;
  const headRead = new Promise<void>((resolve) => (goOn = resolve));
  const origin = await faultOrigin(async (side) => {
    await side.head();
    await side.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n');
    await headRead;
    await side.send('7\r\ndata: 1\r\n0\r\n\r\n');
  });
  const front = await originFront({ origin: `http://127.0.0.1:${origin.port}` });
  open.push(origin, front);
  const client = await rawHttp(front.port);
  client.send('GET / HTTP/1.1\r\nHost: example.com\r\n\r\n');
  expect(await client.until('\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 OK\r\nContent-Type: text\/event-stream\r\n/);
  goOn();
  await client.until('\r\n\r\n7\r\ndata: 1\r\n0\r\n\r\n');
  client.socket.destroy();
});
