// What commands do for an account.

import { of } from '../guard.ts';

const cliQueue = ['test/cli/queue/queue.test.ts'];

/** What commands do for an account. */
export const commands = [
  ...of('cli/queue/queue-retry.ts', cliQueue, [['{ ...wanted, states }', '{ ...wanted, account: undefined, states }']]),
  ...of(
    'cli/token.ts',
    ['test/cli/cli.test.ts', 'test/cli/keys.test.ts'],
    [
      ['if (account.credentials.has(name)) return name', 'if (account) return name'],
      ['names.find((name) => !own.some((scope) => scope === name))', 'names.find(() => false)'],
    ],
  ),
  ...of(
    'cli/webhook.ts',
    ['test/e2e/webhooks.test.ts > commands work beside'],
    [
      [
        'if (!(await store.find(account.id, id))) return missing(id, account.name, io);\n      const { deliveries }',
        "if (id === '') return missing(id, account.name, io);\n      const { deliveries }",
      ],
    ],
  ),
  ...of('cli/proxy/proxy.ts', ['test/cli/proxy-list.test.ts'], [['zone === undefined || one.zone === zone', 'true']]),
  ...of(
    'app/bootstrap/bootstrap.ts',
    ['test/app/bootstrap/bootstrap.test.ts'],
    [
      ['(token) => token.credential === credential && isLive(token, now)', '(token) => isLive(token, now)'],
      ['await inside.list(account)', 'await inside.list()'],
    ],
  ),
];
