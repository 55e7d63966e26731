// /readyz of a server of several processes: ready as soon as one of them serves.

import { expect, onTestFinished, test, vi } from 'vitest';
import { startPostern } from '../../support/postern-process.ts';
import { servingPids } from '../../support/server-processes.ts';

test('one that gives no answer, or is being started again, does not keep the others from being ready', {
  timeout: 240_000,
}, async () => {
  const postern = await startPostern({ env: { POSTERN_PROCESSES: '2' }, startSeconds: 90 });
  onTestFinished(() => postern.cleanUp());
  const readiness = async () => (await fetch(`http://127.0.0.1:${postern.ports['http']}/readyz`)).status;
  await vi.waitFor(async () => expect(await readiness()).toBe(200), { timeout: 30_000, interval: 50 });
  const pid = servingPids(postern).get(2) ?? 0;
  process.kill(pid, 'SIGSTOP');
  expect(await readiness()).toBe(200);
  process.kill(pid, 'SIGKILL');
  await postern.until(() => postern.log().some(({ msg }) => msg === 'a process has ended: it is started again'));
  expect(await readiness()).toBe(200);
});
