// `policy.observe.until` of credentials and listeners (D4c): what is taken, how far ahead, and what is told of it.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { observePeriod } from '../../../src/accounts/observe-period.ts';
import { type Config, loadConfig } from '../../../src/app/config/config.ts';
import { observeMetrics } from '../../../src/app/wiring/metrics/process-metrics.ts';
import { createMetrics } from '../../../src/web/http/metrics.ts';
import { scratchFolder } from '../../support/scratch.ts';

const noon = Date.UTC(2026, 10, 22, 12);

function load(policy: string, nowMs = noon): Config {
  const cwd = scratchFolder();
  const id = 'a1'.repeat(16);
  writeFileSync(
    join(cwd, 'postern.yaml'),
    `smtp:
  listeners:
    - { name: old, listen: "127.0.0.1:0", tls: starttls, ${policy} }
    - { name: new, listen: "127.0.0.1:0", tls: starttls }
accounts:
  - name: dev
    id: "${id}"
    credentials: [{ name: legacy, ${policy} }, { name: strict }]
`,
  );
  return loadConfig({ file: 'postern.yaml', env: {}, cwd, clock: { now: () => nowMs } });
}

const until = (day: string) => `policy: { observe: { until: ${day} } }`;

test('nothing is observed unless the configuration says so', () => {
  const { accounts, smtp, warnings } = load(until('2027-01-31'));
  expect(accounts[0]?.credentials.get('legacy')?.observe).toEqual(observePeriod('2027-01-31'));
  expect(accounts[0]?.credentials.get('strict')).not.toHaveProperty('observe');
  expect(smtp.listeners.map(({ observe }) => observe?.until)).toEqual(['2027-01-31', undefined]);
  expect(warnings.filter((warning) => warning.includes('observe'))).toEqual([
    'credential dev/legacy: the header policy is only observed until 2027-01-31 (70 days from now): headers that it refuses are removed',
    'listener old: the header policy is only observed until 2027-01-31 (70 days from now): headers that it refuses are removed',
  ]);
});

test('the last day and the days behind it are told as such; the gateway still starts', () => {
  const told = (nowMs: number) =>
    load(until('2027-01-31'), nowMs).warnings.find((warning) => warning.startsWith('credential'));
  expect(told(Date.UTC(2027, 0, 30))).toContain('(1 day from now)');
  expect(told(Date.UTC(2027, 0, 31, 23, 59, 59, 999))).toContain('(today is the last day)');
  expect(told(Date.UTC(2027, 1, 1))).toBe(
    'credential dev/legacy: observing the header policy ended after 2027-01-31, it is enforced; remove policy.observe',
  );
});

test('180 days ahead of the start are taken, 181 are a fault, by the day and not by the hour', () => {
  expect(load(until('2027-05-21')).accounts[0]?.credentials.get('legacy')?.observe?.until).toBe('2027-05-21');
  expect(load(until('2027-05-21'), Date.UTC(2026, 10, 22)).accounts).toHaveLength(1);
  const fault = 'got "2027-05-22", which is 181 days ahead; want a day at most 180 days ahead';
  for (const nowMs of [noon, Date.UTC(2026, 10, 22), Date.UTC(2026, 10, 22, 23, 59, 59, 999)])
    expect(() => load(until('2027-05-22'), nowMs)).toThrow(
      `postern.yaml:3:86: smtp.listeners[0].policy.observe.until: ${fault}\npostern.yaml:8:63: accounts[0].credentials[0].policy.observe.until: ${fault}`,
    );
});

test.each(['2027-02-29', '2027-1-31', '31.01.2027', '2027-01-31T00:00:00Z', '2027', 'true', '2027-13-01', '"soon"'])(
  '%s is no day',
  (day) => {
    expect(() => load(until(day))).toThrow(/policy\.observe\.until: got .*, want a day, such as 2027-01-31/);
  },
);

test('observing without a day is a fault', () => {
  expect(() => load('policy: { observe: {} }')).toThrow(
    'credentials[0].policy.observe.until: missing, want a day, such as 2027-01-31',
  );
  expect(() => load('policy: { observe: true }')).toThrow('policy.observe: got true, want a mapping');
});

test('/metrics tells until when, by credential and listener', async () => {
  const metrics = createMetrics();
  metrics.add(observeMetrics(() => load(until('2027-01-31'))));
  const { text } = (await metrics.render()) ?? { text: '' };
  const name = 'postern_policy_observe_until_timestamp_seconds';
  const seconds = Date.UTC(2027, 1, 1) / 1000;
  expect(text.split('\n').filter((line) => line.startsWith(name))).toEqual([
    `${name}{credential="dev/legacy",listener=""} ${seconds}`,
    `${name}{credential="",listener="old"} ${seconds}`,
  ]);
});
