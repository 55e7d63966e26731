// Zones, custom errors, applications and virtual networks.

import { of } from '../guard.ts';

const customErrors = [
  'test/edge/custom/custom-errors.test.ts',
  'test/edge/custom/custom-error-endpoints.test.ts',
  'test/edge/custom/custom-error-store.test.ts',
];
const applications = ['test/proxy/api/application-endpoints.test.ts'];
const applicationStore = ['test/proxy/store/application-store.test.ts'];
const proxyRules = [
  'test/proxy/rules/facts.test.ts',
  'test/proxy/rules/judge-write.test.ts',
  'test/proxy/rules/rules-golden.test.ts',
];
const origins = ['test/edge/origin/origin-target.test.ts'];
const plan = ['test/proxy/plane/plan.test.ts', 'test/proxy/plane/stored-plans.test.ts'];

/** Zones, custom errors, applications and virtual networks. */
export const zonesGuards = [
  ...of('edge/custom/custom-errors.ts', customErrors, [
    ["account !== undefined && this.#plans.get(account) !== 'free'", 'account !== undefined'],
    ["this.#layers.get('account')?.get(zone.account)", "[...(this.#layers.get('account')?.values() ?? [])].at(-1)"],
    ["this.#layers.get('zone')?.get(zone.id)", "[...(this.#layers.get('zone')?.values() ?? [])].at(-1)"],
    ['this.#hasRules(zone.account) ? (answer', 'true ? (answer'],
    ["if (!this.#hasRules(account)) return { ...rest, source: 'none', value: [] }", ''],
    ["owner.level === 'account' ? owner.id : this.#accountOfZone.get(owner.id)", 'owner.id'],
    ['this.#layers.get(level)?.get(owner)', '[...(this.#layers.get(level)?.values() ?? [])][0]'],
    ['this.#layers.get(level)?.get(id)', '[...(this.#layers.get(level)?.values() ?? [])][0]'],
  ]),
  ...of(
    'base/keyed-queues.ts',
    ['test/base/keyed-queues.test.ts'],
    [
      ['void queued(key, async', "void queued('', async"],
      ['if (restMs > 0) await sleep(restMs', 'if (restMs < 0) await sleep(restMs'],
    ],
  ),
  ...of('edge/origin/origin-target.ts', origins, [
    ['zone.hostnames.includes(requested) ? requested : zone.name', 'requested'],
    ['known.get(zone.origin)', 'known.values().next().value'],
  ]),
  ...of(
    'edge/zone/rate-limit.ts',
    ['test/edge/zone/rate-limit.test.ts'],
    [
      ['kept.get(zone)', 'kept.values().next().value', ['test/edge/edge.test.ts']],
      ['.take(`zone ${zone}`', ".take('zone'", ['test/system/processes.test.ts > the rate limit of a zone']],
      ['takeWindow(`zone ${zone}`', "takeWindow('zone'"],
    ],
  ),
  ...of('proxy/api/application-schema.ts', applications, [["account.entitlements.includes('ftp') &&", '']]),
  ...of('edge/custom/custom-error-endpoints.ts', customErrors, [
    ["if (submitterOf(request).account.plan !== 'free') return", 'if (request) return'],
    ['id: submitterOf(request).account.id }', "id: String(member(request.params, 'account_id')) }"],
  ]),
  ...of('proxy/api/application-endpoints.ts', applications, [
    ["if (account.plan !== 'free') return", 'if (account) return'],
    ["readsPrefixes: submitterOf(request).credential.scopes.has('ip_prefixes:read')", 'readsPrefixes: true'],
    ['store.get(this.placeOf(request).zone.id, known', "store.get('', known"],
  ]),
  ...of(
    'proxy/api/application-endpoints.ts',
    ['test/e2e/two-accounts.test.ts'],
    [['zones.filter((each) => each.account === account)', 'zones']],
  ),
  ...of(
    'proxy/api/network-endpoints.ts',
    ['test/e2e/two-accounts.test.ts'],
    [
      [
        '.get(account.id) ?? [])\n      .filter(({ name })',
        ".get('') ?? [...networks.values()].flat())\n      .filter(({ name })",
      ],
      [
        '.get(account.id) ?? [])\n      .filter((network)',
        ".get('') ?? [...networks.values()].flat())\n      .filter((network)",
      ],
    ],
  ),
  ...of('proxy/rules/judges.ts', proxyRules, [
    [
      'account.virtualNetworks.find((known) => known.id.toLowerCase() === id.toLowerCase())',
      'account.virtualNetworks[0]',
    ],
  ]),
  ...of('proxy/rules/facts.ts', proxyRules, [
    ['if (found) return found.id === zone.id || permitted.has(found.name.toLowerCase())', 'if (found) return true'],
    ['found.id === zone.id || permitted', 'permitted'],
    ['store.edgeIpsOfOthers(edge.ips, zone.id)', "store.edgeIpsOfOthers(edge.ips, '')"],
    [
      "const ips = edge.kind === 'static' ? edge.ips.filter((ip) => !foreign.has(ip)) : []",
      "const ips = edge.kind === 'static' ? edge.ips : []",
    ],
    ['store.hasProtocol(account.id, protocol', "store.hasProtocol('', protocol"],
    ['store.ipv4Hostnames(zone.id, stored', "store.ipv4Hostnames('', stored"],
  ]),
  ...of('proxy/application/zone.ts', applications, [
    ['const account = accountById.get(zone.account);', 'const [account] = accountById.values();'],
  ]),
  ...of('proxy/rules/judges.ts', proxyRules, [
    ['!isInNetworks(ip, account.prefixes)', 'false'],
    ['id !== undefined && id !== zone.id', 'id === null'],
    ["if (account.plan !== 'payg') return []", 'if (account) return []'],
    ['entitlements.includes(to) ? []', 'to ? []'],
    ["return isFtp ? unentitled(account, 'ftp'", "return isFtp ? unentitled(account, 'edge_ips'"],
    ["edge?.kind === 'static' ? unentitled(account, 'edge_ips'", "edge?.kind === 'static' ? unentitled(account, 'ftp'"],
    ["? unentitled(account, 'smart_routing'", "? unentitled(account, 'ftp'"],
  ]),
  ...of('proxy/plane/stored-plans.ts', plan, [
    ['find(({ id }) => id.toLowerCase() === networkId)', 'find(() => networkId !== undefined)'],
    ['const isLost = networkId !== undefined && !network', 'const isLost = false'],
  ]),
  ...of('proxy/store/application-tables.ts', applicationStore, [
    ['const filtered = `a.zone = $1 AND', 'const filtered = `$1 IS NOT NULL AND'],
    ['WHERE a.id = $1 AND a.zone = $2`', 'WHERE a.id = $1 AND $2 IS NOT NULL`'],
    ['a WHERE account = $1 AND transport', 'a WHERE $1 IS NOT NULL AND transport'],
    ["FROM proxy_allocations WHERE zone = $1'", "FROM proxy_allocations WHERE $1 IS NOT NULL'"],
    ['FROM proxy_allocations v WHERE v.zone = $1 AND', 'FROM proxy_allocations v WHERE $1 IS NOT NULL AND'],
    ['WHERE zone = $1 AND slot = 1)', 'WHERE $1 IS NOT NULL AND slot = 1)'],
    ['proxy_allocations o WHERE o.zone = $1 AND', 'proxy_allocations o WHERE $1 IS NOT NULL AND'],
    ['n WHERE n.zone = o.zone AND', 'n WHERE o.zone IS NOT NULL AND'],
  ]),
  ...of(
    'proxy/traffic/listener.ts',
    ['test/proxy/plane/limits.test.ts'],
    [
      ['account: `account ${plan.transport} ${plan.account}`', 'account: `account ${plan.account}`'],
      ['budget.evict(scopes[name])', 'budget.evict(scopes.all)'],
    ],
  ),
  ...of('proxy/store/application-writing.ts', applicationStore, [
    ["if (taken?.['zone'] !== zone) others.push(ip)", ''],
    ['if (count >= quota) return', 'if (count < 0) return'],
    ['const takenBy = address === wildcardIp ? null : zone', 'const heldBy = null'],
  ]),
  ...of('proxy/store/application-store.ts', applicationStore, [
    ['zones[index] !== undefined && zones[index] !== zone', 'zones[index] !== undefined'],
    ['zones[index] !== undefined && zones[index] !== zone', 'false'],
  ]),
];
