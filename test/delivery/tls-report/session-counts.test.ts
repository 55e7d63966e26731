// Counting within bounds, and a database that takes nothing for a while.

import { expect, test } from 'vitest';
import { attemptTo, startTlsReporting } from '../../support/tls-reporting.ts';

test('kinds over the bound are counted as lost, and known ones go on', async () => {
  const { run } = await startTlsReporting({});
  const { counts, database } = await run({ mostKinds: 3 });
  for (let at = 0; at < 10; at += 1) counts.count(attemptTo(`x${at}.test`));
  counts.count(attemptTo('x0.test'));
  expect(counts.lost).toBe(7);
  await counts.flush();
  const rows = await database.query('SELECT domain, sessions FROM tls_sessions ORDER BY domain');
  expect(rows.map(({ domain, sessions }) => `${String(domain)} ${String(sessions)}`)).toEqual([
    'x0.test 2',
    'x1.test 1',
    'x2.test 1',
  ]);
  counts.count(attemptTo('x9.test'));
  expect(counts.lost).toBe(7);
});

test('what a server says and what a domain publishes make neither many rows nor large ones', async () => {
  const { run } = await startTlsReporting({});
  const { counts, database } = await run();
  const mx = Array.from({ length: 1000 }, (_, at) => `${'m'.repeat(60)}${at}.x.test`);
  const sts = { type: 'sts', sts: { id: '1', mode: 'enforce', mx, maxAge: 1 } } as const;
  for (let at = 0; at < 1000; at += 1) {
    counts.count(
      attemptTo('x.test', { policy: sts, failure: 'validation-failure', reason: `${at} ${'y'.repeat(9999)}` }),
    );
  }
  await counts.flush();
  const rows = await database.query('SELECT * FROM tls_sessions');
  expect(rows).toHaveLength(1);
  expect(rows[0]).toMatchObject({ sessions: 1000 });
  expect(JSON.stringify(rows[0]).length).toBeLessThan(10_000);
});

test('what cannot be kept now is kept later', async () => {
  const { run, lines, clock } = await startTlsReporting({});
  const { counts, database } = await run();
  await database.run('ALTER TABLE tls_sessions RENAME TO away');
  counts.count(attemptTo('x.test'));
  await counts.flush();
  counts.count(attemptTo('x.test'));
  expect(lines.map(({ msg }) => msg)).toEqual(['results of TLS could not be kept']);
  await database.run('ALTER TABLE away RENAME TO tls_sessions');
  // Past the end of the day, for which a report is then due at once.
  clock.pass(36 * 3600);
  await counts.flush();
  expect(await database.query('SELECT domain, sessions FROM tls_sessions')).toEqual([
    { domain: 'x.test', sessions: 2 },
  ]);
  const [planned] = await database.query('SELECT due_at FROM tls_reports');
  expect(Number(planned?.['due_at'])).toBe(clock.now() + 60_000 + 30 * 60_000);
});
