// What the tests of the proxy rules judge against: the zones of config/examples/every-rule.yaml as the configuration gives
// them, with the applications of the file in a store of facts.

import { resolve } from 'node:path';
import { loadConfig } from '../../src/app/config/config.ts';
import { silentLog } from '../../src/base/log.ts';
import type { StoredApplication } from '../../src/proxy/application/application.ts';
import { joinRanges, within } from '../../src/proxy/application/port-ranges.ts';
import { canonicalAddress, wildcardIp } from '../../src/proxy/application/texts.ts';
import type { ProxyAccount, ProxyZone } from '../../src/proxy/application/zone.ts';
import { createFactSources } from '../../src/proxy/rules/facts.ts';
import {
  type AskedWrite,
  configuredWrite,
  type JudgedWrite,
  type JudgeSources,
  judgeWrite,
} from '../../src/proxy/rules/judge-write.ts';
import type { ApplicationFactsSource } from '../../src/proxy/store/application-store.ts';
import type { ApplicationWrite, Claims } from '../../src/proxy/store/application-writing.ts';
import { refusal } from '../../src/web/http/envelope.ts';

const root = resolve(import.meta.dirname, '../..');
const config = loadConfig({ env: {}, cwd: root, file: 'config/examples/every-rule.yaml' });

/** The zones of the file. */
export const zones: readonly ProxyZone[] = config.zones;

/** `proxy` of the file. */
export const settings = config.proxy;

/** The accounts of the file. */
export const accounts: readonly ProxyAccount[] = config.accounts.map(({ id, name, plan }) => {
  const edge = config.edgeAccounts.find((entry) => entry.id === id);
  return {
    id,
    name,
    plan,
    entitlements: edge?.entitlements ?? [],
    prefixes: edge?.prefixes ?? [],
    virtualNetworks: edge?.virtualNetworks ?? [],
  };
});

/** A zone by its name. */
export function zoneNamed(name: string): ProxyZone {
  const zone = zones.find((entry) => entry.name === name);
  if (!zone) throw new Error(`config/examples/every-rule.yaml has no zone ${name}`);
  return zone;
}

/** The account of a zone. */
export function accountOf(zone: ProxyZone): ProxyAccount {
  const account = accounts.find(({ id }) => id === zone.account);
  if (!account) throw new Error(`config/examples/every-rule.yaml has no account ${zone.account}`);
  return account;
}

/** Facts about what was written, and the writing. */
export interface FactsStore extends ApplicationFactsSource {
  readonly add: (write: ApplicationWrite) => StoredApplication;
  readonly find: (id: string) => StoredApplication | undefined;
}

function addressesOf(edge: Claims['edge']): readonly string[] {
  if (edge.kind === 'static') return edge.ips;
  return [edge.kind === 'ipv6' ? wildcardIp : '127.64.0.1'];
}

/** Applications in memory: answers by looking through all of them. */
export function memoryFacts(): FactsStore {
  const written = new Map<string, ApplicationWrite>();
  const others = (except?: string) => [...written.values()].filter(({ id }) => id !== except);
  const stored = (write: ApplicationWrite): StoredApplication => ({
    id: write.id,
    zone: write.zone,
    account: write.account,
    fields: write.fields,
    addresses: addressesOf(write.claims.edge),
    createdAt: write.now,
    modifiedAt: write.now,
  });
  return {
    add: (write) => {
      written.set(write.id, write);
      return stored(write);
    },
    find: (id) => {
      const write = written.get(id);
      return write && stored(write);
    },
    hostnameZone: async (name) => others().find(({ fields }) => fields.dns.name === name)?.zone,
    edgeIpsOfOthers: async (ips, zone) => {
      const used = others()
        .filter((write) => write.zone !== zone)
        .flatMap(({ claims }) => (claims.edge.kind === 'static' ? claims.edge.ips : []));
      return ips.filter((ip) => used.includes(canonicalAddress(ip) ?? ip));
    },
    hasProtocol: async (account, protocol, except) =>
      others(except).some((write) => write.account === account && write.claims.soleProtocol === protocol),
    ipv4Hostnames: async (zone, except) => [
      ...new Set(
        others(except)
          .filter((write) => write.zone === zone && write.claims.edge.kind === 'ipv4')
          .map(({ fields }) => fields.dns.name),
      ),
    ],
    takenPorts: async ({ transport, ports, hostname, edge }, except) => {
      const isSame = (write: ApplicationWrite): boolean => {
        const other = write.claims.edge;
        if (edge.kind === 'static') return other.kind === 'static' && other.ips.some((ip) => edge.ips.includes(ip));
        if (edge.kind === 'ipv6') return other.kind === 'ipv6';
        return other.kind === 'ipv4' && write.fields.dns.name === hostname;
      };
      const taken = others(except).filter((write) => write.claims.transport === transport && isSame(write));
      return joinRanges(taken.flatMap(({ claims }) => within(ports, [claims.ports])));
    },
  };
}

/** An application that is there before a case. */
export type Existing = { readonly zone: string; readonly id: string } & Readonly<Record<string, unknown>>;

/** A case of a golden file, or of a test. */
export interface JudgedCase {
  readonly kind?: AskedWrite['kind'];
  /** Name of the zone; absent: example.com. */
  readonly zone?: string;
  /** False: the token lacks `ip_prefixes:read`. */
  readonly readsPrefixes?: boolean;
  /** Written before, beside the file's. */
  readonly existing?: readonly Existing[];
  /** Application to replace or patch. */
  readonly id?: string;
  readonly body: unknown;
}

/** Named by every 10002 of the tests. */
export const rayId = '8f1d2c3b4a596877';

/** Ports of the service's own doors; 20000 less is what an application would have to ask for. */
export const ownDoors = [22_587, 28_080].map((port) => ({ host: '127.0.0.1', port }));

/** Sources over a store. */
export function sourcesOver(store: ApplicationFactsSource): JudgeSources {
  const parts = { zones, settings, store, ownDoors: () => ownDoors };
  return { ...createFactSources(parts), log: silentLog };
}

async function seed(store: FactsStore, existing: readonly Existing[]): Promise<void> {
  const ofFile = zones.flatMap((zone) => (zone.applications ?? []).map((entry) => ({ ...entry, zone: zone.name })));
  for (const { zone: name, ...entry } of [...ofFile, ...existing]) {
    const zone = zoneNamed(name);
    const verdict = await judgeWrite(configuredWrite(entry, { zone, account: accountOf(zone) }), sourcesOver(store));
    if (!verdict.ok) throw new Error(`Application ${entry.id} is refused: ${JSON.stringify(verdict)}`);
    const { fields, claims } = verdict;
    store.add({ id: entry.id, zone: zone.id, account: zone.account, fields, claims, now: 0 });
  }
}

/** A store with the file's applications and more. */
export async function factsWith(existing: readonly Existing[] = []): Promise<FactsStore> {
  const store = memoryFacts();
  await seed(store, existing);
  return store;
}

/** Judges a case; `sources` replaces the ones over `store`. @throws Refusal where there is no such application */
export function judgeCase(
  { kind = 'create', zone: name = 'example.com', readsPrefixes = true, id, body }: JudgedCase,
  store: FactsStore,
  sources: JudgeSources = sourcesOver(store),
): Promise<JudgedWrite> {
  const zone = zoneNamed(name);
  const find = async (): Promise<StoredApplication> => {
    const found = id === undefined ? undefined : store.find(id);
    if (!found) throw refusal('E_NOT_FOUND', 'there is none');
    return found;
  };
  return judgeWrite(
    {
      kind,
      body,
      zone,
      account: accountOf(zone),
      rights: { readsPrefixes },
      id: id ?? '9'.repeat(32),
      rayId,
      ...(kind === 'create' ? {} : { find }),
    },
    sources,
  );
}
