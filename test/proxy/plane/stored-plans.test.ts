// From stored applications to plans: what did not change is not read again, what cannot run stops nothing else.

import { expect, test } from 'vitest';
import { silentLog } from '../../../src/base/log.ts';
import type { ProxyZone } from '../../../src/proxy/application/zone.ts';
import { storedPlans } from '../../../src/proxy/plane/stored-plans.ts';
import { openApplicationStore } from '../../../src/proxy/store/application-store.ts';
import { applicationWrite, type WriteOptions, zones } from '../../support/applications.ts';
import { openTestDatabase } from '../../support/engines.ts';

const account = {
  id: 'a'.repeat(32),
  name: 'dev',
  plan: 'enterprise',
  entitlements: [],
  prefixes: [],
  virtualNetworks: [],
} as const;

const zone: ProxyZone = {
  id: zones.one,
  name: 'one.example',
  account: account.id,
  hostnames: [],
  ipv4Quota: 10,
  protocols: {},
};

async function setUp() {
  const store = await openApplicationStore(await openTestDatabase(':memory:'));
  const asked: string[] = [];
  const get: typeof store.get = (of, id) => {
    asked.push(id);
    return store.get(of, id);
  };
  const plans = storedPlans({
    zones: [zone],
    accounts: [account],
    store: { marks: () => store.marks(), get },
    log: silentLog,
  });
  const create = async (id: string, more: WriteOptions = {}) => {
    expect(
      await store.create(applicationWrite({ id, hostname: `${id.slice(0, 4)}.one.example`, ...more })),
    ).toMatchObject({
      ok: true,
    });
  };
  return { store, asked, plans, create };
}

const [one, two, three] = ['1a', '2b', '3c'].map((text) => text.repeat(16)) as [string, string, string];

test('only what changed is read again; the plans of the others are the very same ones', async () => {
  const { store, asked, plans, create } = await setUp();
  await create(one, { now: 3 });
  await create(two, { now: 1 });
  await create(three, { now: 2 });
  const before = await plans();
  expect(before.map(({ id }) => id)).toEqual([two, three, one]);
  expect(asked.splice(0)).toEqual([two, three, one]);
  expect(await plans()).toEqual(before);
  expect(asked).toEqual([]);

  await store.replace(applicationWrite({ id: three, hostname: '3c3c.one.example', protocol: 'tcp/23', now: 2 }));
  const after = await plans();
  expect(asked.splice(0)).toEqual([three]);
  expect([after[0] === before[0], after[2] === before[2]]).toEqual([true, true]);
  expect(after[1]).toMatchObject({ id: three, ports: { first: 23, last: 23 } });

  await store.remove(zones.one, two);
  expect((await plans()).map(({ id }) => id)).toEqual([three, one]);
  await create(two, { now: 9, protocol: 'tcp/99' });
  expect((await plans()).map(({ id, ports }) => [id, ports.first])).toEqual([
    [three, 23],
    [one, 22],
    [two, 99],
  ]);
});

test('an application of a zone that is not configured any more has no plan', async () => {
  const { create, plans } = await setUp();
  await create(one);
  await create(two, { zone: zones.two, hostname: 'a.two.example' });
  expect((await plans()).map(({ id }) => id)).toEqual([one]);
});
