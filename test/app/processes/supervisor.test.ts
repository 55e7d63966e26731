// The supervisor with real processes that have no gateway: one that is stuck, one that dies at every start, one that the system
// does not start.

import cluster from 'node:cluster';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Supervisor } from '../../../src/app/processes/supervisor.ts';
import { logLines } from '../../support/log-lines.ts';

const { log, lines } = logLines();
const exec = join(import.meta.dirname, '../../support/group-process.ts');
beforeEach(() => {
  lines.length = 0;
  cluster.setupPrimary({ exec, cwd: '/', execArgv: [], args: [] });
});

let supervisor: Supervisor | undefined;
afterEach(async () => {
  supervisor?.kill();
  await supervisor?.stop();
  supervisor = undefined;
});

async function start(parts: Partial<ConstructorParameters<typeof Supervisor>[0]> = {}): Promise<Supervisor> {
  const order = { text: 'first', ports: {} };
  supervisor = new Supervisor({ count: 2, order, log, drainMs: () => 1000, ...parts });
  await supervisor.start();
  return supervisor;
}

/** The pid of a process by its number, as it was logged last. */
function pidOf(number: number): number {
  return Number(
    lines.findLast((line) => line['msg'] === 'a process takes connections' && line['process'] === number)?.['pid'],
  );
}

function times(message: string): number {
  return lines.filter(({ msg }) => msg === message).length;
}

test('a process that gives no answer is killed and started again; one that answers late once is not', async () => {
  await start({ watch: { everyMs: 100, most: 20, mostStopped: 20 } });
  const [stuck, slow] = [pidOf(1), pidOf(2)];
  process.kill(slow, 'SIGSTOP');
  await new Promise((wait) => setTimeout(wait, 500));
  process.kill(slow, 'SIGCONT');
  process.kill(stuck, 'SIGSTOP');
  await vi.waitFor(() => expect(times('a process takes connections')).toBe(3), 15_000);
  expect(lines.find(({ msg }) => msg === 'a process gives no answer: it is killed')).toMatchObject({ pid: stuck });
  expect(times('a process gives no answer: it is killed')).toBe(1);
  expect(pidOf(2)).toBe(slow);
  expect(pidOf(1)).not.toBe(stuck);
});

test('a process that is stopped is killed long before one that is only silent', async () => {
  await start({ watch: { everyMs: 100, most: 600, mostStopped: 3 } });
  const [stopped, other] = [pidOf(1), pidOf(2)];
  process.kill(stopped, 'SIGSTOP');
  await vi.waitFor(() => expect(times('a process takes connections')).toBe(3), 15_000);
  expect(pidOf(1)).not.toBe(stopped);
  expect(pidOf(2)).toBe(other);
});

test('a process that ends while the others still start is started again', async () => {
  cluster.once('fork', () => cluster.once('fork', () => process.kill(pidOf(1), 'SIGKILL')));
  await start();
  await vi.waitFor(() => expect(times('a process takes connections')).toBe(3), 15_000);
  expect(times('a process has ended: it is started again')).toBe(1);
});

test('SIGHUP to a process that Node has not begun to run ends it, and not the start of the server', async () => {
  cluster.once('fork', ({ process: { pid = 0 } }) => process.kill(pid, 'SIGHUP'));
  await start();
  expect([pidOf(1), pidOf(2)]).toEqual([expect.any(Number), expect.any(Number)]);
  expect(times('a process takes connections')).toBe(2);
});

test('a process that is stopped before it says anything is killed and started again', async () => {
  await start({ watch: { everyMs: 100, most: 600, mostStopped: 3 } });
  const [first, other] = [pidOf(1), pidOf(2)];
  let stopped = 0;
  cluster.once('fork', ({ process: { pid = 0 } }) => {
    stopped = pid;
    process.kill(pid, 'SIGSTOP');
  });
  process.kill(first, 'SIGKILL');
  await vi.waitFor(() => expect(times('a process takes connections')).toBe(3), 15_000);
  expect(lines.find(({ msg }) => msg === 'a process gives no answer: it is killed')).toMatchObject({ pid: stopped });
  expect(pidOf(2)).toBe(other);
});

test('a process that is silent at a reload is started anew, and the next reload is taken by all', async () => {
  const one = await start({ voteMs: 1000 });
  const [silent, other] = [pidOf(1), pidOf(2)];
  process.kill(silent, 'SIGSTOP');
  await expect(one.reload('second')).rejects.toThrow('process 1 gave no answer within 1 s');
  process.kill(silent, 'SIGCONT');
  await vi.waitFor(() => expect(pidOf(1)).not.toBe(silent), 10_000);
  expect(await one.reload('third')).toEqual(['third']);
  expect(pidOf(2)).toBe(other);
});

test('a process that drains while a reload is asked has no vote', async () => {
  const one = await start({ voteMs: 500 });
  expect(await one.reload('the first drains')).toEqual(['the first drains']);
});

test('a process that dies at every start is started less and less often, and the others serve on', async () => {
  const one = await start();
  const serving = pidOf(2);
  // Both take the configuration; whoever starts with it dies.
  expect(await one.reload('dies')).toEqual(['dies']);
  process.kill(pidOf(1), 'SIGKILL');
  const ended = (): number[] =>
    lines.flatMap(({ msg, againInMs }) =>
      msg === 'a process has ended: it is started again' ? [Number(againInMs)] : [],
    );
  await vi.waitFor(() => expect(ended().length).toBeGreaterThanOrEqual(4), 15_000);
  expect(ended().slice(0, 4)).toEqual([100, 200, 400, 800]);
  expect(pidOf(2)).toBe(serving);
  await one.stop();
});

test('while no process can start a reload has all start with the new configuration, and at once', async () => {
  const one = await start();
  await one.reload('dies');
  for (const number of [1, 2]) process.kill(pidOf(number), 'SIGKILL');
  const longest = (): number => Math.max(...lines.map(({ againInMs }) => Number(againInMs ?? 0)));
  await vi.waitFor(() => expect(longest()).toBeGreaterThanOrEqual(3200), 20_000);
  const told = times('a process takes connections');
  expect(await one.reload('mended')).toEqual(['no process could start: all start by the file as it is now']);
  await vi.waitFor(() => expect(times('a process takes connections')).toBeGreaterThanOrEqual(told + 2), 15_000);
  await vi.waitFor(async () => expect(await one.reload('mended again')).toEqual(['mended again']), 15_000);
  await one.stop();
  await expect(one.reload('too late')).rejects.toThrow('No process takes connections now');
});

test('a reload while all processes start again is refused, and they go on with the configuration in force', async () => {
  const one = await start();
  for (const number of [1, 2]) process.kill(pidOf(number), 'SIGKILL');
  await vi.waitFor(() => expect(times('a process has ended: it is started again')).toBe(2));
  await expect(one.reload('dies')).rejects.toThrow('No process takes connections now: the log says why');
  await vi.waitFor(() => expect(times('a process takes connections')).toBe(4), 15_000);
});

test('where the system starts no process, the start fails with the reason; later it is tried again', async () => {
  // No process can be started in a folder that is not there.
  cluster.setupPrimary({ cwd: '/nowhere' });
  await expect(start()).rejects.toThrow(/^process 1 could not be started: .*ENOENT/);
  cluster.setupPrimary({ cwd: '/' });
  await start();
  cluster.setupPrimary({ cwd: '/nowhere' });
  process.kill(pidOf(1), 'SIGKILL');
  await vi.waitFor(() => expect(times('a process has ended: it is started again')).toBe(2), 10_000);
  // Node tells of that one by an event, and throws this one.
  cluster.setupPrimary({ cwd: exec });
  await vi.waitFor(() => expect(lines.at(-1)?.['reason']).toMatch(/could not be started: .*ENOTDIR/), 10_000);
  cluster.setupPrimary({ cwd: '/' });
  await vi.waitFor(() => expect(times('a process takes connections')).toBe(3), 10_000);
});
