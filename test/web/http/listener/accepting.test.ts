// How connections are taken in: many that come at once wait for few turns of the event loop, and a port that another
// program has is not shared with it.

import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { HttpListener } from '../../../../src/web/http/listener/listener.ts';

const anyPort = { host: '127.0.0.1', port: 0 };

function makeListener(): HttpListener {
  const listener = new HttpListener({
    handlers: () => ({
      request: (_, response) => response.end('ok'),
      takesUpgrade: () => false,
      upgrade: (_, socket) => socket.destroy(),
      connect: (_, socket) => socket.destroy(),
    }),
  });
  onTestFinished(() => listener.close(0));
  return listener;
}

test('connections that come at once are taken in several in a turn of the event loop', async () => {
  const listener = makeListener();
  const { port } = await listener.listen(anyPort);
  const count = 400;
  for (let client = 0; client < count; client += 1) {
    const socket = connect({ host: '127.0.0.1', port });
    onTestFinished(() => void socket.destroy());
  }
  let turns = 0;
  while (listener.open().connections < count) {
    await nextTurn();
    turns += 1;
  }
  // One in a turn would be 400 turns; the system does not spread them evenly.
  expect(turns).toBeLessThan(count / 3);
});

test('what was taken in by any of the sockets is answered, and closed with the listener', async () => {
  const listener = makeListener();
  const { port } = await listener.listen(anyPort);
  const answers = Array.from({ length: 40 }, async () => (await fetch(`http://127.0.0.1:${port}/`)).text());
  expect(new Set(await Promise.all(answers))).toEqual(new Set(['ok']));
  await listener.close(0);
  expect(listener.open().connections).toBe(0);
  const after = connect({ host: '127.0.0.1', port });
  expect(await once(after, 'error')).toMatchObject([{ code: 'ECONNREFUSED' }]);
});

test('a port that another program has is refused', async () => {
  const other = createServer().listen(anyPort);
  await once(other, 'listening');
  onTestFinished(() => void other.close());
  const address = other.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  await expect(makeListener().listen({ host: '127.0.0.1', port })).rejects.toThrow('EADDRINUSE');
});

test('a port that another listener of this kind has is refused', async () => {
  const bound = await makeListener().listen(anyPort);
  await expect(makeListener().listen(bound)).rejects.toThrow('EADDRINUSE');
});
