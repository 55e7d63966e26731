// The contract of every store of proxy applications (D87, D91): one suite, run on each.

import { afterEach, describe, expect, test } from 'vitest';
import type { PortRange, StoredApplication } from '../../src/proxy/application/application.ts';
import type { ApplicationStore } from '../../src/proxy/store/application-store.ts';
import type { StoreConflict, Written } from '../../src/proxy/store/application-writing.ts';
import { applicationWrite, someTime, type WriteOptions, zones } from '../support/applications.ts';
import fc from '../support/properties.ts';

/** How the suite gets at a store. */
export interface ApplicationsUnderTest {
  /** A fresh store. */
  open(): Promise<ApplicationStore>;
  /** The same store's data by another connection, where the store has such a thing. */
  another?(): Promise<ApplicationStore>;
  /** Called after each test. */
  clean(): Promise<void>;
}

const unknownId = 'f'.repeat(32);

function applicationOf(written: Written | undefined): StoredApplication {
  if (!written?.ok) throw new Error(`Not written: ${JSON.stringify(written)}`);
  return written.application;
}

function conflictOf(written: Written | { readonly ok: false; readonly changed: true } | undefined): StoreConflict {
  if (!written || written.ok || !('conflict' in written)) throw new Error(`No conflict: ${JSON.stringify(written)}`);
  return written.conflict;
}

/** Everything that others can notice of what a store holds. */
async function traces(store: ApplicationStore) {
  const hostnames = ['ssh.one.example', 'a.one.example', 'b.one.example'];
  const ips = ['127.9.0.1', '127.9.0.2', '2001:db8::1'];
  return {
    hostnames: await Promise.all(hostnames.map((name) => store.hostnameZone(name))),
    ips: await store.edgeIpsOfOthers(ips, 'nobody'),
    allocated: await store.ipv4Hostnames(zones.one),
    all: await store.all(),
  };
}

/** Defines the suite for one store. */
export function applicationsContract(name: string, under: ApplicationsUnderTest): void {
  describe(name, () => {
    afterEach(() => under.clean());

    const create = async (store: ApplicationStore, options: WriteOptions = {}): Promise<StoredApplication> =>
      applicationOf(await store.create(applicationWrite(options)));
    const refused = async (store: ApplicationStore, options: WriteOptions): Promise<StoreConflict> => {
      const before = await traces(store);
      const revision = await store.revision();
      const conflict = conflictOf(await store.create(applicationWrite(options)));
      expect(await traces(store)).toEqual(before);
      expect(await store.revision()).toBe(revision);
      return conflict;
    };

    test('brings back what was put in, its fields in their order', async () => {
      const store = await under.open();
      const write = applicationWrite({ more: { tls: 'full', origin_port: '22-23', ip_firewall: false } });
      const application = applicationOf(await store.create(write));
      expect(application).toEqual({
        id: write.id,
        zone: write.zone,
        account: write.account,
        fields: write.fields,
        addresses: ['127.64.0.1'],
        createdAt: someTime,
        modifiedAt: someTime,
      });
      const found = await store.get(write.zone, write.id);
      expect(JSON.stringify(found?.fields)).toBe(JSON.stringify(write.fields));
      expect(await store.get(zones.two, write.id)).toBeUndefined();
      expect(await store.all()).toEqual([application]);
    });

    test('a replacement keeps id and date of creation, and later ones are always later', async () => {
      const store = await under.open();
      const { id } = await create(store);
      const again = { id, more: { tls: 'full' } } as const;
      const second = applicationOf(written(await store.replace(applicationWrite(again))));
      expect([second.createdAt, second.modifiedAt, second.fields.tls]).toEqual([someTime, someTime + 1, 'full']);
      const third = applicationOf(written(await store.replace(applicationWrite({ ...again, now: someTime - 5000 }))));
      expect(third.modifiedAt).toBe(someTime + 2);
      const fourth = applicationOf(written(await store.replace(applicationWrite({ ...again, now: someTime + 5000 }))));
      expect(fourth.modifiedAt).toBe(someTime + 5000);
    });

    test('a replacement that was judged on an older state does nothing', async () => {
      const store = await under.open();
      const first = await create(store);
      const write = applicationWrite({ id: first.id, hostname: 'a.one.example' });
      expect(await store.replace(write, first.modifiedAt - 1)).toEqual({ ok: false, changed: true });
      expect(await store.get(zones.one, first.id)).toEqual(first);
      expect(applicationOf(written(await store.replace(write, first.modifiedAt))).fields.dns.name).toBe(
        'a.one.example',
      );
      expect(await store.replace(write, first.modifiedAt)).toEqual({ ok: false, changed: true });
    });

    test('marks tell every state of an application from the ones before, the oldest application first', async () => {
      const store = await under.open();
      const { id } = await create(store);
      const older = await create(store, { hostname: 'a.one.example', now: someTime - 1 });
      const [, first] = await store.marks();
      expect(await store.marks()).toEqual([
        { id: older.id, zone: zones.one, createdAt: someTime - 1, modifiedAt: someTime - 1 },
        { id, zone: zones.one, createdAt: someTime, modifiedAt: someTime },
      ]);
      await store.replace(applicationWrite({ id, now: someTime - 5 }));
      const [, second] = await store.marks();
      expect(second).not.toEqual(first);
      await store.remove(zones.one, older.id);
      expect(await store.marks()).toEqual([second]);
    });

    test('what is not there, or in another zone, is neither replaced nor removed', async () => {
      const store = await under.open();
      const { id } = await create(store);
      expect(await store.replace(applicationWrite({ id: unknownId }))).toBeUndefined();
      expect(await store.replace(applicationWrite({ id, zone: zones.two }))).toBeUndefined();
      expect(await store.remove(zones.one, unknownId)).toBe(false);
      expect(await store.remove(zones.two, id)).toBe(false);
      expect(await store.all()).toHaveLength(1);
    });

    test('a removed one leaves nothing behind', async () => {
      const store = await under.open();
      const before = await traces(store);
      const dynamic = await create(store);
      const fixed = await create(store, {
        hostname: 'a.one.example',
        edge: { kind: 'static', ips: ['127.9.0.1', '2001:db8:0::1'] },
      });
      const wide = await create(store, { hostname: 'b.one.example', protocol: 'tcp/23', edge: { kind: 'ipv6' } });
      expect(await traces(store)).not.toEqual(before);
      for (const { id } of [dynamic, fixed, wide]) expect(await store.remove(zones.one, id)).toBe(true);
      expect(await traces(store)).toEqual(before);
      expect(await store.remove(zones.one, dynamic.id)).toBe(false);
    });

    test('every change is counted, and only changes', async () => {
      const store = await under.open();
      const seen = [await store.revision()];
      const { id } = await create(store);
      seen.push(await store.revision());
      await store.replace(applicationWrite({ id }));
      seen.push(await store.revision());
      await store.get(zones.one, id);
      await store.remove(zones.one, unknownId);
      seen.push(await store.revision());
      await store.remove(zones.one, id);
      seen.push(await store.revision());
      const [start = 0] = seen;
      expect(seen.map((revision) => revision - start)).toEqual([0, 1, 2, 2, 3]);
    });

    describe('hostnames', () => {
      test('one zone has a hostname as long as an application of it has it, in any case', async () => {
        const store = await under.open();
        const first = await create(store, { hostname: 'A.one.example' });
        const second = await create(store, { hostname: 'a.ONE.example', protocol: 'tcp/23' });
        expect(await store.hostnameZone('a.one.example')).toBe(zones.one);
        expect(await refused(store, { zone: zones.two, hostname: 'a.one.EXAMPLE' })).toEqual({ kind: 'hostname' });
        await store.remove(zones.one, first.id);
        expect(await refused(store, { zone: zones.two, hostname: 'a.one.example' })).toEqual({ kind: 'hostname' });
        await store.remove(zones.one, second.id);
        expect(await store.hostnameZone('a.one.example')).toBeUndefined();
        await create(store, { zone: zones.two, hostname: 'a.one.example' });
      });

      test('a replacement cannot take one either, and gives its own free', async () => {
        const store = await under.open();
        const own = await create(store, { hostname: 'a.one.example' });
        await create(store, { zone: zones.two, hostname: 'b.one.example' });
        const taking = applicationWrite({ id: own.id, hostname: 'b.one.example' });
        expect(conflictOf(await store.replace(taking))).toEqual({ kind: 'hostname' });
        expect(await store.get(zones.one, own.id)).toEqual(own);
        await store.replace(applicationWrite({ id: own.id, hostname: 'ssh.one.example' }));
        expect(await store.hostnameZone('a.one.example')).toBeUndefined();
      });
    });

    describe('protocols that an account has once', () => {
      const payg = { zone: zones.payg, sole: true, hostname: 'a.payg.example' } as const;

      test('a second one is refused, the same one may be replaced', async () => {
        const store = await under.open();
        const { id, account } = await create(store, payg);
        expect(await refused(store, { ...payg, hostname: 'b.payg.example' })).toEqual({ kind: 'protocol' });
        expect(await store.hasProtocol(account, 'tcp/22')).toBe(true);
        expect(await store.hasProtocol(account, 'tcp/22', id)).toBe(false);
        expect(await store.hasProtocol(account, 'tcp/23')).toBe(false);
        expect(await store.hasProtocol('a'.repeat(32), 'tcp/22')).toBe(false);
        applicationOf(written(await store.replace(applicationWrite({ ...payg, id }))));
        await create(store, { ...payg, protocol: 'tcp/23' });
        const taking = applicationWrite({ ...payg, id, protocol: 'tcp/23', hostname: 'b.payg.example' });
        expect(conflictOf(await store.replace(taking))).toEqual({ kind: 'protocol' });
      });

      test('other accounts have it as often as they like', async () => {
        const store = await under.open();
        await create(store);
        await create(store, { hostname: 'a.one.example' });
        await create(store, payg);
      });

      test('one written while there was no such limit counts', async () => {
        const store = await under.open();
        const { id, account } = await create(store, { ...payg, sole: false, protocol: 'tcp/1000-1010' });
        expect(await store.hasProtocol(account, 'tcp/1000-1010')).toBe(true);
        expect(await store.hasProtocol(account, 'tcp/1000-1010', id)).toBe(false);
        expect(await store.hasProtocol(account, 'tcp/1000')).toBe(false);
        expect(await store.hasProtocol(account, 'udp/1000-1010')).toBe(false);
      });

      test.each([
        ['ftp/21', 'ftp', 'tcp/21'],
        ['tcp/21', 'tcp/21', 'ftp'],
      ])('%s is another protocol than the other one on its port', async (protocol, same, other) => {
        const store = await under.open();
        const { account } = await create(store, { ...payg, sole: false, protocol });
        expect(await store.hasProtocol(account, same)).toBe(true);
        expect(await store.hasProtocol(account, other)).toBe(false);
      });

      test('of two hundred at once one comes through', async () => {
        const store = await under.open();
        const results = await Promise.all(
          Array.from({ length: 200 }, (_, at) =>
            store.create(applicationWrite({ ...payg, hostname: `h${at}.payg.example` })),
          ),
        );
        expect(results.filter(({ ok }) => ok)).toHaveLength(1);
        expect(await store.all()).toHaveLength(1);
      });
    });

    describe('addresses of the pool', () => {
      test('a hostname has one, whatever its applications, until the last is gone', async () => {
        const store = await under.open();
        const first = await create(store);
        const second = await create(store, { protocol: 'udp/53' });
        await create(store, { zone: zones.two, hostname: 'ssh.two.example' });
        expect(await store.ipv4Hostnames(zones.two)).toEqual(['ssh.two.example']);
        expect([first.addresses, second.addresses]).toEqual([['127.64.0.1'], ['127.64.0.1']]);
        expect(await store.ipv4Hostnames(zones.one)).toEqual(['ssh.one.example']);
        expect(await store.ipv4Hostnames(zones.one, first.id)).toEqual(['ssh.one.example']);
        await store.remove(zones.one, first.id);
        expect(await store.ipv4Hostnames(zones.one)).toEqual(['ssh.one.example']);
        expect(await store.ipv4Hostnames(zones.one, second.id)).toEqual([]);
        await store.remove(zones.one, second.id);
        expect(await store.ipv4Hostnames(zones.one)).toEqual([]);
      });

      test('they are given out in turn; one given back rests until the others had theirs', async () => {
        const store = await under.open();
        const pool = '10.0.0.0/29';
        const made: StoredApplication[] = [];
        for (const at of [1, 2, 3]) made.push(await create(store, { hostname: `h${at}.one.example`, pool }));
        await store.remove(zones.one, made[1]?.id ?? '');
        for (const at of [4, 5, 6, 7]) made.push(await create(store, { hostname: `h${at}.one.example`, pool }));
        expect(made.map(({ addresses }) => addresses.join())).toEqual(
          [1, 2, 3, 4, 5, 6, 2].map((last) => `10.0.0.${last}`),
        );
        expect(await refused(store, { hostname: 'h8.one.example', pool })).toEqual({ kind: 'pool' });
      });

      test.each([
        ['10.0.0.0/30', ['10.0.0.1', '10.0.0.2']],
        ['10.0.0.0/31', ['10.0.0.0', '10.0.0.1']],
        ['10.0.0.7', ['10.0.0.7']],
        ['10.0.0.7/30', ['10.0.0.5', '10.0.0.6']],
        ['2001:db8::/64', []],
      ])('the pool %s has %j', async (pool, addresses) => {
        const store = await under.open();
        const got: string[] = [];
        for (const at of addresses.keys())
          got.push(...(await create(store, { hostname: `h${at}.one.example`, pool })).addresses);
        expect(got).toEqual(addresses);
        expect(await refused(store, { hostname: 'last.one.example', pool })).toEqual({ kind: 'pool' });
      });

      test('a static edge IP within the pool is passed over, and one given out is nobody’s static one', async () => {
        const store = await under.open();
        const pool = '127.9.0.0/29';
        await create(store, {
          zone: zones.two,
          hostname: 'x.two.example',
          edge: { kind: 'static', ips: ['127.9.0.1'] },
        });
        expect((await create(store, { pool })).addresses).toEqual(['127.9.0.2']);
        const edge = { kind: 'static', ips: ['127.9.0.2'] } as const;
        const taking = { zone: zones.two, hostname: 'y.two.example', edge };
        expect(await refused(store, taking)).toEqual({ kind: 'edge-ips', ips: ['127.9.0.2'] });
      });

      test.each([
        [0, 0],
        [1, 1],
        [2, 2],
      ])('a quota of %i is for %i hostnames', async (quota, hostnames) => {
        const store = await under.open();
        for (let at = 0; at < hostnames; at += 1) await create(store, { hostname: `h${at}.one.example`, quota });
        expect(await refused(store, { hostname: 'last.one.example', quota })).toEqual({ kind: 'quota' });
        const edge = { kind: 'ipv6' } as const;
        await create(store, { hostname: 'last.one.example', quota, edge });
        await create(store, { hostname: 'a.one.example', quota, edge: { kind: 'static', ips: ['127.9.0.1'] } });
        await create(store, { zone: zones.two, hostname: 'h.two.example', quota: quota + 1 });
      });

      test('an application that moves to another hostname takes its place in the quota along', async () => {
        const store = await under.open();
        const { id } = await create(store, { quota: 1 });
        const moved = applicationOf(
          written(await store.replace(applicationWrite({ id, quota: 1, hostname: 'a.one.example' }))),
        );
        expect(await store.ipv4Hostnames(zones.one)).toEqual(['a.one.example']);
        const same = applicationOf(
          written(
            await store.replace(applicationWrite({ id, quota: 1, hostname: 'a.one.example', protocol: 'tcp/9' })),
          ),
        );
        expect(same.addresses).toEqual(moved.addresses);
      });

      test('a place that is given back is free in its zone, whatever places another zone has', async () => {
        const store = await under.open();
        const made = new Map<string, string>();
        const fill = async (zone: 'one' | 'two', at: number): Promise<void> => {
          const hostname = `h${at}.${zone}.example`;
          made.set(hostname, (await create(store, { zone: zones[zone], hostname, quota: 4 })).id);
        };
        const give = async (zone: 'one' | 'two', at: number): Promise<boolean> =>
          await store.remove(zones[zone], made.get(`h${at}.${zone}.example`) ?? '');
        for (const zone of ['one', 'two'] as const) for (const at of [1, 2, 3, 4]) await fill(zone, at);
        // Each place of a full zone beside a full one, and then beside one that has a place free.
        for (const isBesideFull of [true, false]) {
          if (!isBesideFull) expect(await give('two', 2)).toBe(true);
          for (const at of [1, 2, 3, 4]) {
            expect(await give('one', at)).toBe(true);
            await fill('one', at);
          }
        }
      });

      test('a quota that was made smaller refuses until enough is given back', async () => {
        const store = await under.open();
        const made: StoredApplication[] = [];
        for (const at of [1, 2, 3]) made.push(await create(store, { hostname: `h${at}.one.example`, quota: 3 }));
        await store.remove(zones.one, made[0]?.id ?? '');
        const next = { hostname: 'h4.one.example', quota: 2 };
        expect(await refused(store, next)).toEqual({ kind: 'quota' });
        await store.remove(zones.one, made[1]?.id ?? '');
        await create(store, next);
      });

      test('the quota holds for fifty at once', async () => {
        const store = await under.open();
        const results = await Promise.all(
          Array.from({ length: 50 }, (_, at) =>
            store.create(applicationWrite({ hostname: `h${at}.one.example`, quota: 7 })),
          ),
        );
        expect(results.filter(({ ok }) => ok)).toHaveLength(7);
        expect(await store.ipv4Hostnames(zones.one)).toHaveLength(7);
      });

      test('an application that changes to IPv6 gives its address back', async () => {
        const store = await under.open();
        const { id } = await create(store, { quota: 1 });
        const changed = applicationOf(
          written(await store.replace(applicationWrite({ id, quota: 1, edge: { kind: 'ipv6' } }))),
        );
        expect(changed.addresses).toEqual(['::']);
        expect(await store.ipv4Hostnames(zones.one)).toEqual([]);
      });
    });

    describe('static edge IPs', () => {
      const edge = { kind: 'static', ips: ['127.9.0.2', '2001:DB8:0:0::1', '127.9.0.1'] } as const;

      test('are listened on in their order and one spelling', async () => {
        const store = await under.open();
        const ips = [...edge.ips, '2001:db8::1'];
        const { addresses, fields } = await create(store, { edge: { kind: 'static', ips } });
        expect(addresses).toEqual(['127.9.0.2', '2001:db8::1', '127.9.0.1']);
        expect(fields.edge_ips).toEqual(ips);
      });

      test('are one zone’s while an application has them', async () => {
        const store = await under.open();
        const { id } = await create(store, { edge });
        const other = {
          zone: zones.two,
          hostname: 'x.two.example',
          protocol: 'tcp/23',
          edge: { kind: 'static', ips: ['127.9.0.3', '2001:db8::0:1'] },
        } as const;
        expect(await store.edgeIpsOfOthers(other.edge.ips, zones.two)).toEqual(['2001:db8::0:1']);
        expect(await store.edgeIpsOfOthers(other.edge.ips, zones.one)).toEqual([]);
        expect(await refused(store, other)).toEqual({ kind: 'edge-ips', ips: ['2001:db8::1'] });
        await create(store, {
          hostname: 'a.one.example',
          protocol: 'tcp/23',
          edge: { kind: 'static', ips: ['127.9.0.1'] },
        });
        const without = { kind: 'static', ips: ['127.9.0.1', '127.9.0.2'] } as const;
        applicationOf(written(await store.replace(applicationWrite({ id, edge: without }))));
        await create(store, other);
      });
    });

    describe('ports', () => {
      const at = (protocol: string, hostname = 'ssh.one.example'): WriteOptions => ({ protocol, hostname });
      const ports = (ranges: readonly PortRange[]): StoreConflict => ({ kind: 'ports', ports: ranges });

      test.each([
        ['tcp/22', 'tcp/22', [{ first: 22, last: 22 }]],
        ['tcp/1000-2000', 'tcp/2000', [{ first: 2000, last: 2000 }]],
        ['tcp/1000-2000', 'tcp/1000', [{ first: 1000, last: 1000 }]],
        ['tcp/1500', 'tcp/1000-2000', [{ first: 1500, last: 1500 }]],
        ['tcp/1000-2000', 'tcp/1900-2100', [{ first: 1900, last: 2000 }]],
        ['tcp/1000-2000', 'tcp/1-65535', [{ first: 1000, last: 2000 }]],
      ])('%s excludes %s on the same address', async (first, second, taken) => {
        const store = await under.open();
        const { id } = await create(store, at(first));
        expect(await refused(store, at(second))).toEqual(ports(taken));
        const { claims } = applicationWrite(at(second));
        const where = { ...claims, zone: zones.one, hostname: 'SSH.one.example' };
        expect(await store.takenPorts(where)).toEqual(taken);
        expect(await store.takenPorts(where, id)).toEqual([]);
        expect(await store.takenPorts({ ...where, hostname: 'a.one.example' })).toEqual([]);
        applicationOf(written(await store.replace(applicationWrite({ ...at(second), id }))));
      });

      test.each([
        ['tcp/1000-2000', 'tcp/999'],
        ['tcp/1000-2000', 'tcp/2001'],
        ['tcp/1000-2000', 'tcp/2001-65535'],
        ['tcp/53', 'udp/53'],
      ])('%s leaves room for %s', async (first, second) => {
        const store = await under.open();
        await create(store, at(first));
        await create(store, at(second));
      });

      test('other hostnames have other addresses, and static ones are excluded one by one', async () => {
        const store = await under.open();
        await create(store, at('tcp/22'));
        await create(store, at('tcp/22', 'a.one.example'));
        const edge = { kind: 'static', ips: ['127.9.0.1', '127.9.0.2'] } as const;
        await create(store, { hostname: 'b.one.example', protocol: 'tcp/20-30', edge });
        const other = { kind: 'static', ips: ['127.9.0.3', '127.9.0.2'] } as const;
        expect(await refused(store, { ...at('tcp/25-40', 'c.one.example'), edge: other })).toEqual(
          ports([{ first: 25, last: 30 }]),
        );
        await create(store, { ...at('tcp/31-40', 'c.one.example'), edge: other });
      });

      test('the IPv6 wildcard has the ports of every IPv6 address, whoever’s', async () => {
        const store = await under.open();
        const wide = { kind: 'ipv6' } as const;
        const fixed = { kind: 'static', ips: ['2001:db8::1', '127.9.0.1'] } as const;
        await create(store, { ...at('tcp/100-200'), edge: wide });
        const taken = ports([{ first: 150, last: 200 }]);
        expect(await refused(store, { zone: zones.two, ...at('tcp/150-300', 'x.two.example'), edge: wide })).toEqual(
          taken,
        );
        expect(await refused(store, { ...at('tcp/150-300', 'a.one.example'), edge: fixed })).toEqual(taken);
        await create(store, { ...at('tcp/201-300', 'a.one.example'), edge: fixed });
        expect(await refused(store, { ...at('tcp/300', 'b.one.example'), edge: wide })).toEqual(
          ports([{ first: 300, last: 300 }]),
        );
        await create(store, { ...at('tcp/100-200', 'b.one.example') });
      });

      test('whatever is written and removed, no port of an address is held twice', async () => {
        const store = await under.open();
        const range = fc
          .tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 0, max: 8 }))
          .map(([first, more]) => ({ first, last: first + more }));
        const step = fc.record({
          kind: fc.constantFrom('create', 'replace', 'remove'),
          pick: fc.nat(),
          range,
          address: fc.constantFrom('127.9.0.1', '127.9.0.2'),
        });
        await fc.assert(
          fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
            for (const { id } of await store.all()) await store.remove(zones.one, id);
            for (const { kind, pick, range, address } of steps) {
              const all = await store.all();
              const chosen = all[pick % Math.max(all.length, 1)];
              const isFree = all
                .filter(({ id, addresses }) => addresses.includes(address) && (kind === 'create' || id !== chosen?.id))
                .every(({ fields }) => {
                  const [first = 0, last = first] = fields.protocol.slice(4).split('-').map(Number);
                  return last < range.first || first > range.last;
                });
              const options: WriteOptions = {
                protocol: `tcp/${range.first}-${range.last}`,
                edge: { kind: 'static', ips: [address] },
              };
              if (kind === 'create') expect((await store.create(applicationWrite(options))).ok).toBe(isFree);
              else if (chosen && kind === 'remove') await store.remove(zones.one, chosen.id);
              else if (chosen) {
                const result = await store.replace(applicationWrite({ ...options, id: chosen.id }));
                expect(result?.ok).toBe(isFree);
              }
            }
          }),
          { numRuns: 25 },
        );
      });
    });

    describe('lists', () => {
      test('come in pages, in the order asked for, and of one zone', async () => {
        const store = await under.open();
        const protocols = ['udp/53', 'tcp/1000', 'tcp/22', 'tcp/22-30', 'tcp/443'];
        for (const [at, protocol] of protocols.entries()) {
          await create(store, { protocol, hostname: `${'cabed'[at]}.one.example`, now: someTime + at });
        }
        await create(store, { zone: zones.two, hostname: 'x.two.example' });
        const list = async (order: 'protocol' | 'dns' | 'created_on' | 'modified_on', direction: 'asc' | 'desc') =>
          (await store.list(zones.one, { page: 1, perPage: 100, order, direction })).applications.map(
            ({ fields }) => fields.protocol,
          );
        expect(await list('protocol', 'asc')).toEqual(['tcp/22', 'tcp/22-30', 'tcp/443', 'tcp/1000', 'udp/53']);
        expect(await list('protocol', 'desc')).toEqual(['udp/53', 'tcp/1000', 'tcp/443', 'tcp/22-30', 'tcp/22']);
        expect(await list('dns', 'asc')).toEqual(['tcp/1000', 'tcp/22', 'udp/53', 'tcp/443', 'tcp/22-30']);
        expect(await list('created_on', 'asc')).toEqual(protocols);
        expect(await list('created_on', 'desc')).toEqual(protocols.toReversed());
        const [oldest] = (await store.list(zones.one, { page: 1, perPage: 1, order: 'created_on', direction: 'asc' }))
          .applications;
        const change = { id: oldest?.id ?? '', protocol: 'udp/53', hostname: 'c.one.example', now: someTime + 100 };
        applicationOf(written(await store.replace(applicationWrite(change))));
        expect(await list('modified_on', 'desc')).toEqual(['udp/53', 'tcp/443', 'tcp/22-30', 'tcp/22', 'tcp/1000']);
        const pages = await Promise.all(
          [1, 2, 3, 4].map((page) => store.list(zones.one, { page, perPage: 2, order: 'dns', direction: 'asc' })),
        );
        expect(pages.map(({ applications }) => applications.map(({ fields }) => fields.dns.name[0]).join(''))).toEqual([
          'ab',
          'cd',
          'e',
          '',
        ]);
        expect(pages.map(({ total }) => total)).toEqual([5, 5, 5, 5]);
      });
    });

    if (under.another) {
      const another = (): Promise<ApplicationStore> => under.another?.() ?? under.open();
      test('two connections see and exclude one another', async () => {
        const one = await under.open();
        const two = await another();
        const revision = await two.revision();
        const { id } = await create(one);
        expect(await two.revision()).toBe(revision + 1);
        expect((await two.get(zones.one, id))?.addresses).toEqual(['127.64.0.1']);
        expect(await refused(two, {})).toEqual({ kind: 'ports', ports: [{ first: 22, last: 22 }] });
        expect((await create(two, { hostname: 'a.one.example' })).addresses).toEqual(['127.64.0.2']);
        expect(await two.remove(zones.one, id)).toBe(true);
        expect(await one.all()).toHaveLength(1);
      });
    }
  });
}

/** A replacement that was not too late. */
function written(result: Awaited<ReturnType<ApplicationStore['replace']>>): Written | undefined {
  if (result && 'changed' in result) throw new Error('It was changed in between');
  return result;
}
