// `redirectAll` and `allowRecipients` of accounts and routes (D98a): what they come to, and what is told of them.

import { expect, test } from 'vitest';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { loadYaml } from '../../support/scratch.ts';

const account = (keys: string) => `accounts:
  - { name: dev, id: "${'a1'.repeat(16)}", sendingDomains: [{ name: example.com }]${keys} }
`;
const route = (keys: string) => `routes:
  - { name: out, type: smarthost, url: "smtp://mail.corp.example:25", match: { recipientDomains: [corp.example] }${keys} }
  - { name: keep, type: capture, folder: kept }
`;
/** Warnings that name one of the keys. */
const warningsOf = (yaml: string) => loadYaml(yaml).warnings.filter((line) => /redirectAll|allowRecipients/.test(line));

test('without the keys there is nothing of it', () => {
  expect(loadYaml(account('') + route('')).delivery.safety).toBeUndefined();
});

test('rules are read, and what is kept back lies with what is captured', () => {
  const { delivery, dataDir } = loadYaml(
    account(', redirectAll: QA@Bücher.example') +
      route(', allowRecipients: ["@corp.example", "*@*.Test", a@b.example]'),
  );
  expect(delivery.safety?.accounts).toEqual({ dev: { redirectAll: 'QA@xn--bcher-kva.example' } });
  expect(delivery.routes[0]?.allowRecipients).toEqual([
    { kind: 'domain', domain: 'corp.example' },
    { kind: 'below', domain: 'test' },
    { kind: 'address', address: 'a@b.example' },
  ]);
  expect(delivery.safety?.withheld).toMatchObject({ name: 'withheld', type: 'capture', folder: `${dataDir}/kept` });
});

test('where no route captures, what is kept back lies in the folder of captured mail', () => {
  const yaml = `routes: [{ name: out, type: smarthost, url: "smtp://mail.corp.example:25" }]\n`;
  const { delivery, dataDir } = loadYaml(account(', allowRecipients: []') + yaml);
  expect(delivery.safety?.withheld.folder).toBe(`${dataDir}/capture`);
});

test('production is warned of each rule, development of what lets nothing through alone', () => {
  const redirected = account(', redirectAll: qa@corp.example') + route(', redirectAll: qa@corp.example');
  expect(warningsOf(redirected)).toEqual([
    'account "dev": all mail goes to qa@corp.example in place of its recipients (redirectAll); take it out in production',
    'route "out": all mail goes to qa@corp.example in place of its recipients (redirectAll); take it out in production',
  ]);
  const allowed = account(', allowRecipients: []') + route(', allowRecipients: ["@other.example", "*@*.corp.example"]');
  const lost = [
    'account "dev": allowRecipients is empty, so no mail leaves',
    'route "out": allowRecipients names nobody in match.recipientDomains, so no mail leaves by it',
  ];
  expect(warningsOf(allowed)).toEqual(lost);
  const development = 'development: { account: dev, credential: default }\n';
  const withCredential = (yaml: string) =>
    development + yaml.replace('name: dev,', 'name: dev, credentials: [{ name: default }],');
  expect(warningsOf(withCredential(allowed))).toEqual(lost);
  expect(warningsOf(withCredential(redirected))).toEqual([]);
  expect(warningsOf(account('') + route(', allowRecipients: [a@corp.example]'))).toEqual([
    'route "out": mail to whom allowRecipients does not name is captured, not sent',
  ]);
});

test('POSTERN_RELAY does not take away what keeps mail from its recipients', () => {
  const yaml = account('') + route(', redirectAll: qa@corp.example');
  const load = (relay: string) => () => loadYaml(yaml, { POSTERN_RELAY: relay });
  expect(load('smtp://127.0.0.1:25')).toThrow(ConfigurationError);
  expect(load('smtp://127.0.0.1:25')).toThrow(
    'POSTERN_RELAY: would replace route "out", whose redirectAll keeps mail from its recipients',
  );
  expect(load('capture')).not.toThrow();
  const ofAccount = loadYaml(account(', redirectAll: qa@corp.example') + route(''), {
    POSTERN_RELAY: 'smtp://127.0.0.1:25',
  });
  expect(ofAccount.delivery.safety?.accounts).toEqual({ dev: { redirectAll: 'qa@corp.example' } });
});
