// What the two sources answer, where the golden zones do not reach: nested zones, permitted zones, load balancers outside
// their zone, lists of protocols (D86, D99).

import { describe, expect, test } from 'vitest';
import type { UnknownRecord } from '../../../src/base/is-record.ts';
import type { ProxyZone } from '../../../src/proxy/application/zone.ts';
import { availablePorts, createFactSources, type FactParts } from '../../../src/proxy/rules/facts.ts';
import { readApplication } from '../../../src/proxy/rules/read-application.ts';
import { accountOf, factsWith, memoryFacts, settings, zoneNamed } from '../../support/judge-fixtures.ts';

const outer = zoneNamed('example.com');
const nested: ProxyZone = { ...outer, id: 'e'.repeat(32), name: 'sub.example.com' };
const balanced: ProxyZone = {
  ...outer,
  id: 'f'.repeat(32),
  name: 'balanced.example',
  loadBalancers: ['LB.example.com', 'lb.cdn.test'],
};

function parts(zones: readonly ProxyZone[], store = memoryFacts()): FactParts {
  return { zones, settings, store, ownDoors: () => [] };
}

/** A question about an application of which no more is given than this. */
function question(zone: ProxyZone, body: UnknownRecord) {
  return { application: readApplication(body, true), zone, account: accountOf(zone), stored: undefined };
}

const named = (hostname: string | undefined) => (hostname === undefined ? {} : { dns: { name: hostname } });

async function isPermitted(zone: ProxyZone, originName: string, zones = [zone, outer, nested, balanced]) {
  const { dns } = createFactSources(parts(zones));
  return (await dns(question(zone, { origin_dns: { name: originName } }))).isOriginPermitted;
}

describe('names', () => {
  test.each([
    ['example.com', outer.id],
    ['a.example.com', outer.id],
    ['sub.example.com', nested.id],
    ['a.b.sub.example.com', nested.id],
    ['notsub.example.com', outer.id],
    ['com', undefined],
    ['example.com.test', undefined],
  ])('%s is under its innermost zone', async (hostname, id) => {
    const { dns } = createFactSources(parts([outer, nested]));
    expect((await dns(question(outer, named(hostname)))).hostnameZone).toBe(id);
  });

  test('the holder is the zone whose applications have the name', async () => {
    const { dns } = createFactSources(parts([outer], await factsWith()));
    const ask = async (hostname: string | undefined) => (await dns(question(outer, named(hostname)))).hostnameHolder;
    expect(await ask('taken.other.example')).toBe(zoneNamed('other.example').id);
    expect(await ask('free.other.example')).toBeUndefined();
    expect(await ask(undefined)).toBeUndefined();
  });
});

describe('origins', () => {
  const permitting = (...permittedOriginZones: string[]): ProxyZone => ({ ...outer, permittedOriginZones });

  test.each([
    [outer, 'a.example.com', true],
    [outer, 'a.sub.example.com', false],
    [nested, 'a.sub.example.com', true],
    [nested, 'a.example.com', false],
    [permitting('sub.example.com'), 'a.sub.example.com', true],
    [permitting('SUB.example.com'), 'a.sub.example.com', true],
    [permitting('cdn.test'), 'a.cdn.test', true],
    [permitting('cdn.test'), 'cdn.test', true],
    [permitting('cdn.test'), 'acdn.test', false],
    [permitting('cdn.test'), 'test', false],
    [permitting('*'), 'anything.test', true],
    [permitting(), 'anything.test', false],
    // A load balancer is of its zone, whatever its name is under.
    [outer, 'lb.example.com', false],
    [balanced, 'lb.example.com', true],
    [balanced, 'lb.cdn.test', true],
    [balanced, 'other.cdn.test', false],
    [permitting('balanced.example'), 'lb.cdn.test', true],
  ])('%# %s', async (zone, name, wanted) => {
    expect(await isPermitted(zone, name)).toBe(wanted);
  });
});

describe('ports', () => {
  test.each([
    [{}, 'tcp', [{ first: 1, last: 65_535 }]],
    [{ tcp: [] }, 'tcp', []],
    [{ tcp: [22] }, 'udp', [{ first: 1, last: 65_535 }]],
    [
      { tcp: [22, '80', '1000-2000'], unavailable: ['tcp/1500', 'udp/1600', 'tcp/22'] },
      'tcp',
      [
        { first: 80, last: 80 },
        { first: 1000, last: 1499 },
        { first: 1501, last: 2000 },
      ],
    ],
    [{ unavailable: ['udp/1-65534'] }, 'udp', [{ first: 65_535, last: 65_535 }]],
  ] as const)('%j over %s', (protocols, transport, wanted) => {
    expect(availablePorts({ ...outer, protocols }, transport)).toEqual(wanted);
  });

  test.each([
    [0, 'tcp/28080', 'tcp/8080'],
    [20_000, 'tcp/8080', 'tcp/28080'],
  ])('the service’s own ports with offset %d', async (portOffset, taken, free) => {
    const given = {
      ...parts([outer]),
      settings: { ...settings, portOffset },
      ownDoors: () => [{ host: '127.0.0.1', port: 28_080 }],
    };
    const { ipam } = createFactSources(given);
    const ask = async (protocol: string) => (await ipam(question(outer, { protocol }))).unavailablePorts.length;
    expect([await ask(taken), await ask(free)]).toEqual([1, 0]);
  });
});
