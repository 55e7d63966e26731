// Clients that reset their connection before it is accepted: the kernel may still hand out what they sent.

import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { get, startEdge } from '../../support/edge-app.ts';
import { logLines } from '../../support/log-lines.ts';

const client = `
  const socket = require('node:net').connect(Number(process.argv[1]), '127.0.0.1', () =>
    socket.write(process.argv[2], () => setTimeout(() => socket.resetAndDestroy(), 20)));
  socket.on('error', () => {});
`;

test('nothing is served, and nothing fails, for a client that had gone before its connection was accepted', async () => {
  const { log, lines } = logLines();
  const { port } = await startEdge({ log, app: { log } });
  const request = get('localhost', '/client/v4/accounts/dev/none', ['Authorization: Bearer wrong']);
  // This process serves nothing while it waits for the other one to end.
  for (const octets of [request, get('example.com', '/')]) {
    execFileSync(process.execPath, ['-e', client, String(port), octets]);
  }
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(lines).toEqual([]);
});
