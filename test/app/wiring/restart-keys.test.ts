// What a reload tells of the keys that differ: every key of the configuration is told, or only a restart changes it.

import { expect, test } from 'vitest';
import { type Config, loadConfig } from '../../../src/app/config/config.ts';
import { changesOf, restartFaults } from '../../../src/app/wiring/change-settings.ts';
import type { Settings } from '../../../src/app/wiring/in-force.ts';
import { readPage } from '../../support/markdown.ts';

const account = `accounts: [{ id: "${'a1'.repeat(16)}", name: dev, sendingDomains: [{ name: example.com }] }]\n`;
const load = (text: string): Config => loadConfig({ text, file: 'postern.yaml', env: {}, cwd: '/nowhere' });
const before = load(account);

function differences(yaml: string): readonly string[] {
  const next = load(`${account}${yaml}\n`);
  const keys = { signing: new Map(), platform: [], tls: new Map(), hmacKey: { equals: () => true } };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- no key is compared
  const [one, other] = [before, next].map(
    (config) => ({ config, keys, tokens: [], globalKeys: [], pageMarks: [] }) as unknown as Settings,
  );
  if (!one || !other) throw new Error('Two settings are compared');
  const faults = restartFaults(before, next).map(
    (line) => /: (\S+) has changed; restart to change \1$/.exec(line)?.[1],
  );
  return [...changesOf(one, other), ...faults.map((key) => `restart: ${key}`)];
}

test.each([
  ['delivery: { connections: 7 }', ['limits']],
  ['delivery: { destinations: [{ domains: [a.example], connections: 2 }] }', ['destinations']],
  ['delivery: { resolver: { servers: ["192.0.2.1"] } }', ['name servers']],
  ['delivery: { retry: { firstDelaySeconds: 3 } }', ['retries']],
  ['smtp: { hostname: mx.example.com }', ['SMTP listeners']],
  ['log: { level: debug }', ['log level']],
  ['webhooks: { allowHttp: true }', ['webhooks']],
  ['proxy: { limits: { connections: 7 } }', ['limits']],
  ['proxy: { limits: { accountConnections: 7 } }', ['restart: proxy.limits.accountConnections']],
  ['limits: { bodiesInFlightBytes: 100000000 }', ['restart: limits.bodiesInFlightBytes']],
  ['http: { listen: "127.0.0.1:1" }', ['restart: http.listen']],
  ['journal: { keepDays: 1 }', ['restart: journal']],
  ['', []],
] as const)('%s', (yaml, expected) => {
  expect(differences(yaml)).toEqual(expected);
});

test('docs/upkeep.md names every key that only a restart changes, and no other', () => {
  const all = load(
    `${account}http: { adminListen: "127.0.0.1:1" }\nlimits: { bodiesInFlightBytes: 100000000 }
proxy: { limits: { accountConnections: 7, accountSessions: 7, accountListeners: 7 } }\n`,
  );
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a configuration that differs in everything else
  const keys = restartFaults(all, { webhooks: all.webhooks } as Config).map(
    (line) => / restart to change (\S+)$/.exec(line)?.[1],
  );
  const [, list = ''] = /^Only a restart changes ([^]*?): a reload/m.exec(readPage('docs/upkeep.md')) ?? [];
  const named = [...list.matchAll(/`([\w.]+)`(?! of an SMTP listener)/g)].map(([, key]) => key);
  expect(new Set(named)).toEqual(new Set(keys));
});
