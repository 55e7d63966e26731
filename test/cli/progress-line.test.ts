// How far a long command is: on one line of a terminal, which is removed in the end, and nowhere else.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/app/config/config.ts';
import { openSpool } from '../../src/app/wiring/engine/open-stores.ts';
import { progressLine } from '../../src/cli/command/progress-line.ts';
import { runHere } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { spoolEntry } from '../support/spool-entry.ts';

test('where nobody knows how much there is, no share of it is told', () => {
  const written: string[] = [];
  const line = progressLine({ isTTY: true, write: (text) => void written.push(text) }, 'Judging again');
  line.show(3, 0, '3 messages');
  expect(written).toEqual(['\rJudging again 3 messages\x1b[K']);
});

const removed = /\r\x1b\[K$/;

test('postern queue retry of a selection tells how many messages are due', async () => {
  const folder = scratchFolder();
  const env = { POSTERN_DATA_DIR: join(folder, 'data') };
  const file = join(folder, 'postern.yaml');
  writeFileSync(file, '');
  const spool = await openSpool(loadConfig({ file, env, cwd: folder }));
  await spool.add(spoolEntry(), 0);
  await spool.close();
  const args = ['queue', 'retry', '--all', '--config', file];
  const { stderr } = await runHere(args, { env, cwd: folder, isTTY: true });
  expect(stderr).toMatch(/^\rMaking due 1 message\x1b\[K/);
  expect(stderr).toMatch(removed);
  expect((await runHere(args, { env, cwd: folder })).stderr).toBe('');
});

test('postern doctor tells how many looks are done', async () => {
  const folder = scratchFolder();
  const file = join(folder, 'postern.yaml');
  writeFileSync(file, 'accounts: [{ name: dev, id: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1" }]\n');
  const { stderr } = await runHere(['doctor', '--config', file, '--server', '127.0.0.1:1'], {
    cwd: folder,
    isTTY: true,
  });
  expect(stderr).toMatch(/^\rLooking \[[#.]{30}\] \d+ % 1 look\x1b\[K/);
  expect(stderr).toMatch(removed);
});
