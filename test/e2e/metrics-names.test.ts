// The names, types and help texts of /metrics are as Prometheus's own `promtool check metrics` wants them: its rules that can apply
// here (https://github.com/prometheus/client_golang/tree/main/prometheus/testutil/promlint/validations), written out.

import { expect, onTestFinished, test } from 'vitest';
import { startPostern } from '../support/postern-process.ts';
import { isOnPostgres } from '../support/store.ts';

/** What is wrong with one metric; `labels`: the names of its series' labels. */
function faultsOf(name: string, type: string, help: string): string[] {
  const faults: string[] = [];
  const words = name.split('_');
  const isSummed = type === 'histogram' || type === 'summary';
  if (help === '') faults.push('no help text');
  if ((type === 'counter') !== name.endsWith('_total')) faults.push('a counter ends in _total, and nothing else does');
  if (!isSummed && /_(?:count|sum|bucket)$/.test(name)) faults.push('the ending of a histogram');
  if (words.some((word) => ['counter', 'gauge', 'histogram', 'summary'].includes(word)))
    faults.push('its type in its name');
  if (/[A-Z:]/.test(name)) faults.push('capitals or colons');
  const unit =
    /^(?:milli|micro|nano|kilo|mega|giga|kibi|mebi|gibi)|^(?:ms|us|ns|s|sec|secs|minutes|hours|days|kb|mb|gb|kib|mib|gib|percent|octet)$/;
  if (words.some((word) => unit.test(word))) faults.push('a unit that is no base unit, or is cut short');
  return faults;
}

// Several processes share a PostgreSQL: test/system/processes.test.ts runs this with two.
test.for(isOnPostgres ? ['2'] : ['1'])('with %s processes', { timeout: 200_000 }, async (processes) => {
  const postern = await startPostern({ env: { POSTERN_PROCESSES: processes }, startSeconds: 90 });
  onTestFinished(() => postern.cleanUp());
  const text = await (await fetch(`http://127.0.0.1:${postern.ports['http']}/metrics`)).text();
  const helps = new Map(text.matchAll(/^# HELP (\S+) (.*)$/gm).map(([, name = '', help = '']) => [name, help]));
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)];
  expect(types.length).toBeGreaterThan(80);
  const faults = types.flatMap(([, name = '', type = '']) =>
    faultsOf(name, type, helps.get(name) ?? '').map((fault) => `${name}: ${fault}`),
  );
  expect(faults).toEqual([]);
  // A name is told once.
  expect(new Set(types.map(([, name]) => name)).size).toBe(types.length);
});
