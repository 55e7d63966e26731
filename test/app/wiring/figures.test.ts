// What waits as the figures of the console have it: each account by its own oldest message.

import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../../src/app/config/config.ts';
import { openFigures } from '../../../src/app/wiring/console/figures.ts';
import { silentLog } from '../../../src/base/log.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { createQueueLines } from '../../../src/web/admin/queue/queue-groups.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { manualClock } from '../../support/smtp-peers.ts';
import { spoolEntry } from '../../support/spool-entry.ts';

test('the age of what waits is that of the account’s own oldest message', async () => {
  const folder = scratchFolder();
  const clock = manualClock();
  const file = { file: join(folder, 'spool.db'), bodiesFolder: join(folder, 'bodies') };
  const spool = await SqliteSpool.open({ ...file, clock });
  onTestFinished(() => spool.close());
  const running = { stores: [] as (() => void | Promise<void>)[] };
  onTestFinished(async () => {
    for (const stop of running.stores.toReversed()) await stop();
  });
  const yaml = `console: { enabled: true }\naccounts: [{ id: "${'a1'.repeat(16)}", name: dev, sendingDomains: [{ name: example.com }] }]`;
  const config = loadConfig({ text: yaml, file: 'postern.yaml', env: {}, cwd: folder });
  const database = await openTestDatabase(':memory:');
  const figures = await openFigures({ database, config: () => config, clock, log: silentLog }, running);
  const ages = { first: 300, second: 200, third: 100 };
  // Two routes of each account have messages, the older one on either.
  for (const [account, age] of Object.entries(ages)) {
    for (const [transport, more] of [
      ['direct#1/a', 0],
      ['direct#1/b', account === 'first' ? 10 : -10],
    ] as const) {
      const acceptedAt = clock.now() - (age + more) * 1000;
      const recipients = ['b@example.net'];
      await spool.add(spoolEntry({ account, acceptedAt, recipients, transports: [transport] }), 0);
    }
  }
  figures.sample(spool, createQueueLines(spool, clock));
  const read = async (account: string) =>
    (await figures.minutes.read({ account, since: 0, step: 1 })).find(({ name }) => name === 'now oldest')?.count;
  await expect
    .poll(async () => [await read('first'), await read('second'), await read('third')])
    .toEqual([310, 200, 100]);
});
