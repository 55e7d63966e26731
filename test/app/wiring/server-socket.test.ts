// The socket of `postern reload`: clients that connect and say nothing have no more than a bounded number of places.

import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { askToReload, openServerSocket } from '../../../src/app/wiring/server-socket.ts';
import { silentLog } from '../../../src/base/log.ts';
import { scratchFolder } from '../../support/scratch.ts';

test('who is turned away beside 32 silent clients is told why, and is answered once they have gone', async () => {
  const folder = scratchFolder();
  let reloads = 0;
  const reload = () => {
    reloads += 1;
    return Promise.resolve({ ok: true, changed: ['routes'] } as const);
  };
  const opened = await openServerSocket(folder, { reload, config: { file: '' }, destinations: () => [] }, silentLog);
  const silent = Array.from({ length: 32 }, () => connect(join(folder, 'postern.sock')));
  await Promise.all(silent.map((socket) => once(socket, 'connect')));
  await expect(askToReload(folder)).rejects.toThrow('32 others are asking it; try again in a moment');
  expect(reloads).toBe(0);
  const gone = silent.map((socket) => once(socket, 'close'));
  for (const socket of silent) socket.destroy();
  await Promise.all(gone);
  await expect.poll(() => askToReload(folder).catch(() => undefined)).toEqual({ ok: true, changed: ['routes'] });
  opened.close();
  expect(await askToReload(folder)).toBeUndefined();
});
