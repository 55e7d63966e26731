// Applications of the configuration (D99), and what a restart or another process does to those of the store (D94).

import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import type { ProxyZone } from '../../../src/proxy/application/zone.ts';
import { openApplicationStore } from '../../../src/proxy/store/application-store.ts';
import { applicationWrite } from '../../support/applications.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { everyRule, sshApplication, startProxyApi, zoneIds } from '../../support/proxy-api.ts';
import { scratchFolder } from '../../support/scratch.ts';

const seeded = ['2222', '3333', '4444', '5555'].map((zone) => `${zone}0000000000000000000000000001`);

async function open() {
  const file = join(scratchFolder(), 'postern.db');
  const database = await openTestDatabase(file);
  return { file, database };
}

test('they are written at the first start, and not again', async () => {
  const { database } = await open();
  const first = await startProxyApi({ database });
  expect((await first.store.all()).map(({ id }) => id)).toEqual(seeded);
  const [, ssh] = seeded;
  const body = { origin_direct: ['tcp://127.0.0.1:2222'] };
  expect((await first.call('PATCH', zoneIds.bare, `/apps/${ssh}`, { as: 'bare-full', body })).status).toBe(200);
  await first.proxy.drain(0);

  const revision = await first.store.revision();
  const second = await startProxyApi({ database });
  expect(await second.store.revision()).toBe(revision);
  expect((await second.store.get(zoneIds.bare, ssh ?? ''))?.fields.origin_direct).toEqual(body.origin_direct);
});

test('one that was removed is written again: it still stands in the configuration', async () => {
  const { database } = await open();
  const first = await startProxyApi({ database });
  await first.call('DELETE', zoneIds.bare, `/apps/${seeded[1]}`, { as: 'bare-full' });
  await first.proxy.drain(0);
  const second = await startProxyApi({ database });
  expect((await second.store.all()).map(({ id }) => id)).toEqual(seeded);
});

function zonesWith(
  applications: NonNullable<ProxyZone['applications']>,
  more: Partial<ProxyZone> = {},
): readonly ProxyZone[] {
  return everyRule.zones.map(({ applications: _configured, ...zone }) =>
    zone.id === zoneIds.example ? { ...zone, applications, ...more } : zone,
  );
}

test('ones that break rules are told, each fault with its place', async () => {
  const dns = { type: 'CNAME', name: 'a.other.example' };
  const start = startProxyApi({
    zones: zonesWith([
      { id: '1'.repeat(32), ...sshApplication() },
      { id: '2'.repeat(32), ...sshApplication({ dns, origin_direct: ['tcp://::1:22'] }) },
      { id: '3'.repeat(32), ...sshApplication({ protocol: 'tcp/6000' }) },
      { id: '4'.repeat(32), ...sshApplication() },
    ]),
  });
  const error = await start.catch((error: unknown) => error);
  expect(error).toMatchObject({ name: 'ConfigurationError', exitCode: 78 });
  const lines = (error as Error).message.split('\n');
  expect(
    lines.map((line) => /^every-rule\.yaml: (zones\[0\]\.applications\[\d\]\S*): (\d{5}) /.exec(line)?.slice(1)),
  ).toEqual([
    ['zones[0].applications[1].origin_direct[0]', '11002'],
    ['zones[0].applications[1].dns.name', '16001'],
    ['zones[0].applications[2].protocol', '13002'],
    ['zones[0].applications[3].protocol', '13002'],
  ]);
});

test('a drill is for callers, not for the configuration', async () => {
  const id = '1'.repeat(32);
  const api = await startProxyApi({ zones: zonesWith([{ id, ...sshApplication() }], { drill: 'internal' }) });
  expect((await api.store.all()).map((application) => application.id)).toEqual([id]);
});

test('applications run again after a restart, and what another process writes runs within a second', async () => {
  const { file, database } = await open();
  const first = await startProxyApi({ database, unseeded: true });
  const made = await first.call('POST', zoneIds.example, '/apps', { body: sshApplication() });
  const { id } = made.json.result as { id: string };
  await first.proxy.drain(0);

  const second = await startProxyApi({ database, unseeded: true });
  const status = async (application: string) => {
    const answer = await second.call('GET', zoneIds.example, `/apps/${application}`);
    return (answer.json.result as { status?: unknown } | null)?.status;
  };
  expect(await status(id)).toEqual({ state: 'active', reason: '' });

  const store = await openApplicationStore(await openTestDatabase(file));
  const edge = { kind: 'static', ips: ['127.9.0.61'] } as const;
  const write = applicationWrite({ zone: zoneIds.example, hostname: 'beside.example.com', edge });
  expect((await store.create(write)).ok).toBe(true);
  await vi.waitFor(async () => expect(await status(write.id)).toEqual({ state: 'active', reason: '' }), 10_000);
  await store.remove(zoneIds.example, write.id);
  await vi.waitFor(
    async () => expect((await second.metric('postern_proxy_')).filter((line) => line.includes(write.id))).toEqual([]),
    10_000,
  );
});

test('an application whose zone is no longer configured waits, and stops nothing', async () => {
  const { database } = await open();
  const first = await startProxyApi({ database });
  await first.proxy.drain(0);
  const second = await startProxyApi({ database, zones: everyRule.zones.filter(({ id }) => id !== zoneIds.bare) });
  const other = await second.call('GET', zoneIds.other, `/apps/${seeded[2]}`);
  expect(other.json.result).toMatchObject({ status: { state: 'active' } });
  expect(await second.store.all()).toHaveLength(4);
});
