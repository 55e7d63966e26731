// A gibibyte through the gateway's own process: intact, and with flat memory.

import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { eventually, startProxyGateway, tcpApplication } from '../support/proxy-gateway.ts';
import { tcpServer } from '../support/proxy-plane.ts';

test('a gibibyte each way arrives intact, and the memory of the gateway stays flat', async () => {
  const gateway = await startProxyGateway();
  onTestFinished(() => gateway.postern.cleanUp());
  const pieces = 1024;
  const piece = randomBytes(1024 * 1024);
  const wanted = createHash('sha256');
  for (let index = 0; index < pieces; index += 1) wanted.update(piece);
  const digest = wanted.digest('hex');

  // It sends back everything: the same gibibyte passes the gateway twice.
  const origin = await tcpServer((socket) => socket.pipe(socket));
  const edge = await gateway.create(tcpApplication('big', 22, origin.port));
  const before = gateway.residentKib();
  let most = before;
  const sampling = setInterval(() => {
    most = Math.max(most, gateway.residentKib());
  }, 50);
  onTestFinished(() => clearInterval(sampling));

  const client = connect({ host: edge.address, port: edge.port, allowHalfOpen: true });
  const got = createHash('sha256');
  client.on('data', (chunk) => got.update(chunk));
  let left = pieces;
  const more = (): void => {
    while (left > 0) {
      left -= 1;
      if (!client.write(piece)) return;
    }
    client.end();
  };
  client.on('drain', more);
  more();
  await once(client, 'end');

  expect(got.digest('hex')).toBe(digest);
  const { counters } = await eventually(async () => {
    const traffic = await gateway.traffic(edge.id);
    return traffic.counters.open === 0 && traffic;
  });
  expect(counters).toMatchObject({ bytes_from_clients: 2 ** 30, bytes_from_origins: 2 ** 30, failed: 0 });
  // What was carried is thirty-two times as much.
  expect(most - before).toBeLessThan(64 * 1024);
});
