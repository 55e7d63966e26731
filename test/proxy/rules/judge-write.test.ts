// The order of judging: drills, the application, facts, rules; what fails on the way, and who is told of it (D83).

import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { openLog, silentLog } from '../../../src/base/log.ts';
import type { StoredApplication } from '../../../src/proxy/application/application.ts';
import type { FactSources } from '../../../src/proxy/rules/facts.ts';
import {
  type AskedWrite,
  configuredWrite,
  type JudgeSources,
  judgeWrite,
} from '../../../src/proxy/rules/judge-write.ts';
import { conflictFaults } from '../../../src/proxy/rules/rules.ts';
import type { StoreConflict } from '../../../src/proxy/store/application-writing.ts';
import { Refusal } from '../../../src/web/http/envelope.ts';
import {
  accountOf,
  factsWith,
  type JudgedCase,
  judgeCase,
  memoryFacts,
  rayId,
  sourcesOver,
  zoneNamed,
} from '../../support/judge-fixtures.ts';

const body = {
  protocol: 'tcp/22',
  dns: { type: 'CNAME', name: 'ssh.example.com' },
  origin_direct: ['tcp://127.0.0.1:22'],
};
const unavailable = [{ number: 10002, status: 503, message: `Unexpected internal server error. Ray ID: ${rayId}` }];
const broken = [{ number: 10002, status: 500, message: `Unexpected internal server error. Ray ID: ${rayId}` }];

const fail = async (): Promise<never> => {
  throw new Error('secret detail');
};

function capturedLog(): { readonly log: JudgeSources['log']; readonly lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(JSON.parse(chunk.toString()));
      done();
    },
  });
  return { log: openLog('info', stream).log, lines };
}

describe('a source that fails', () => {
  test.each(['dns', 'ipam'] as const)('%s: 10002 with 503, the reason in the log alone', async (name) => {
    const store = memoryFacts();
    const { log, lines } = capturedLog();
    const sources = { ...sourcesOver(store), log, [name]: fail };
    expect(await judgeCase({ body }, store, sources)).toEqual({ ok: false, faults: unavailable });
    expect(JSON.stringify(lines)).toContain('secret detail');
    expect(JSON.stringify(lines)).toContain(rayId);
    expect(lines).toHaveLength(1);
  });

  test.each(['dns', 'ipam'] as const)('%s, thrown at once', async (name) => {
    const store = memoryFacts();
    const ask = (): never => {
      throw new Error('at once');
    };
    const sources = { ...sourcesOver(store), [name]: { ask } };
    expect(await judgeCase({ body }, store, sources)).toEqual({ ok: false, faults: unavailable });
  });

  test('both at once leave no rejection behind', async () => {
    const store = memoryFacts();
    const sources = { dns: fail, ipam: fail, log: silentLog };
    expect(await judgeCase({ body }, store, sources)).toEqual({ ok: false, faults: unavailable });
  });

  test('what needs no fact is told, what does need one is not', async () => {
    const store = memoryFacts();
    const sources = { ...sourcesOver(store), ipam: fail };
    const wrong = { ...body, protocol: 'tcp/6000', origin_dns: {}, dns: { type: 'CNAME', name: 'a.other.example' } };
    const verdict = await judgeCase({ body: wrong }, store, sources);
    expect('faults' in verdict && verdict.faults.map((fault) => 'number' in fault && fault.number)).toEqual([
      11000, 11001,
    ]);
  });

  test('the store behind a source', async () => {
    const store = { ...memoryFacts(), takenPorts: fail };
    expect(await judgeCase({ body }, store)).toEqual({ ok: false, faults: unavailable });
  });
});

describe('any other failure is 10002 with 500, alone', () => {
  test('looking the application up', async () => {
    const store = memoryFacts();
    const { log, lines } = capturedLog();
    const write: AskedWrite = {
      kind: 'patch',
      body: {},
      zone: zoneNamed('example.com'),
      account: accountOf(zoneNamed('example.com')),
      rights: { readsPrefixes: true },
      id: '1'.repeat(32),
      rayId,
      find: fail,
    };
    expect(await judgeWrite(write, { ...sourcesOver(store), log })).toEqual({ ok: false, faults: broken });
    expect(JSON.stringify(lines)).toContain('secret detail');
  });

  test('facts that cannot be read', async () => {
    const store = memoryFacts();
    const sources = { ...sourcesOver(store), ipam: async () => JSON.parse('{}') };
    expect(await judgeCase({ body }, store, sources)).toEqual({ ok: false, faults: broken });
  });
});

describe('drills', () => {
  const cases: readonly (readonly [string, AskedWrite['kind'], readonly unknown[]])[] = (
    ['create', 'replace', 'patch'] as const
  ).flatMap((kind) => [
    ['dnsdown.example', kind, unavailable] as const,
    ['ipamdown.example', kind, unavailable] as const,
    ['fault.example', kind, broken] as const,
  ]);

  test.each(cases)('%s, %s', async (name, kind, faults) => {
    const zone = zoneNamed(name);
    const { log, lines } = capturedLog();
    const given = { ...body, dns: { type: 'CNAME', name: `ssh.${name}` } };
    const write = { kind, body: given, zone, account: accountOf(zone), rights: { readsPrefixes: true } };
    const verdict = await judgeWrite(
      { ...write, id: '1'.repeat(32), rayId, find: fail },
      { dns: fail, ipam: fail, log },
    );
    expect(verdict).toEqual({ ok: false, faults });
    expect(lines).toMatchObject([{ level: 'warn', zone: zone.id, ray: rayId, drill: zone.drill }]);
  });
});

describe('what is asked', () => {
  async function asked(given: JudgedCase) {
    const store = await factsWith();
    const real = sourcesOver(store);
    const dns: Parameters<FactSources['dns']>[0][] = [];
    const ipam: Parameters<FactSources['ipam']>[0][] = [];
    const judging = judgeCase(given, store, {
      dns: (query) => (dns.push(query), real.dns(query)),
      ipam: (query) => (ipam.push(query), real.ipam(query)),
      log: silentLog,
    });
    await judging.catch((error: unknown) => expect(error).toBeInstanceOf(Refusal));
    return { dns, ipam };
  }

  test('each source once, for what could be read', async () => {
    const { dns, ipam } = await asked({ body: { ...body, protocol: 'x', edge_ips: 5 } });
    expect(dns).toMatchObject([{ application: { hostname: 'ssh.example.com', originName: undefined } }]);
    expect(ipam).toMatchObject([{ application: { protocol: undefined, edge: undefined }, stored: undefined }]);
  });

  test('an update leaves itself out', async () => {
    const id = '33330000000000000000000000000001';
    const { ipam } = await asked({ kind: 'patch', zone: 'bare.example', id, body: {} });
    expect(ipam).toMatchObject([{ stored: { id }, application: { edge: { kind: 'ipv4' } } }]);
  });

  test('nothing where there is no application, or no object', async () => {
    expect(await asked({ kind: 'patch', id: '0'.repeat(32), body: {} })).toEqual({ dns: [], ipam: [] });
    expect(await asked({ body: 'tcp/22' })).toEqual({ dns: [], ipam: [] });
  });
});

describe('losing a race', () => {
  const existing = { id: '1'.repeat(32), ...body };
  const statics = { dns: { type: 'ADDRESS', name: 'a.example.com' } };
  const cases: readonly (readonly [StoreConflict, string, object, readonly (typeof existing & { zone: string })[]])[] =
    [
      [
        { kind: 'protocol' },
        'payg.example',
        { protocol: 'tcp/3389', dns: { type: 'CNAME', name: 'a.payg.example' } },
        [],
      ],
      [{ kind: 'hostname' }, 'example.com', { dns: { type: 'CNAME', name: 'a.other.example' } }, []],
      [{ kind: 'edge-ips', ips: ['127.9.0.99'] }, 'example.com', { ...statics, edge_ips: ['127.9.0.99'] }, []],
      [{ kind: 'ports', ports: [{ first: 22, last: 22 }] }, 'example.com', {}, [{ zone: 'example.com', ...existing }]],
      [{ kind: 'quota' }, 'full.example', { dns: { type: 'CNAME', name: 'a.full.example' } }, []],
    ];

  test.each(cases)('%j is told as the rule tells it', async (conflict, name, more, others) => {
    const zone = zoneNamed(name);
    const given = { ...body, ...more };
    const verdict = await judgeCase({ zone: name, body: given }, await factsWith(others));
    const fields = { ...given, dns: { type: 'CNAME' as const, name: given.dns.name } };
    expect(verdict).toEqual({
      ok: false,
      faults: conflictFaults(conflict, { fields, zone, account: accountOf(zone) }),
    });
  });

  test('the pool can be used up before the quota', () => {
    const zone = zoneNamed('example.com');
    const fields = { ...body, dns: { type: 'CNAME' as const, name: 'a.example.com' } };
    expect(conflictFaults({ kind: 'applications' }, { fields, zone, account: accountOf(zone) })).toEqual([
      { token: 'E_VALIDATION_ERROR', message: `Zone ${zone.name} has 10000 applications, and may not have more` },
    ]);
    const faults = conflictFaults({ kind: 'pool' }, { fields, zone, account: accountOf(zone) });
    expect(faults).toMatchObject([{ number: 12005, status: 400 }]);
    expect(faults[0]?.message).toContain('no IPv4 address is left');
  });
});

describe('applications of the configuration', () => {
  test('are judged by the same rules, and a pay-as-you-go one may have its id', async () => {
    const store = memoryFacts();
    const zone = zoneNamed('payg.example');
    const [entry] = zone.applications ?? [];
    if (!entry) throw new Error('payg.example has no application');
    const verdict = await judgeWrite(configuredWrite(entry, { zone, account: accountOf(zone) }), sourcesOver(store));
    expect(verdict).toMatchObject({ ok: true, claims: { soleProtocol: 'tcp/3389' } });
    const refused = await judgeWrite(
      configuredWrite({ ...entry, tls: 'off' }, { zone, account: accountOf(zone) }),
      sourcesOver(store),
    );
    expect(refused).toMatchObject({ ok: false, faults: [{ number: 10012 }] });
  });

  test('a drill of the zone does not touch them', async () => {
    const zone = zoneNamed('fault.example');
    const entry = { id: '1'.repeat(32), ...body, dns: { type: 'CNAME', name: 'fault.example' } };
    const verdict = await judgeWrite(
      configuredWrite(entry, { zone, account: accountOf(zone) }),
      sourcesOver(memoryFacts()),
    );
    expect(verdict).toMatchObject({ ok: true });
  });
});

test('an update answers with the application before', async () => {
  const store = await factsWith();
  const id = '33330000000000000000000000000001';
  const before: StoredApplication | undefined = store.find(id);
  const verdict = await judgeCase({ kind: 'patch', zone: 'bare.example', id, body: { tls: 'full' } }, store);
  expect(verdict).toMatchObject({ ok: true, stored: before, fields: { ...before?.fields, tls: 'full' } });
});

// 11014, 11018, 11026: who is entitled to one of these is not to the others.
test.each([
  ['ftp', { protocol: 'ftp' }, 11014],
  ['smart_routing', { smart_routing: true }, 11026],
  ['edge_ips', { dns: { ...body.dns, type: 'ADDRESS' }, edge_ips: ['198.51.100.1'] }, 11018],
] as const)('%s is an entitlement of its own', async (name, asked, code) => {
  const zone = zoneNamed('example.com');
  const codesWith = async (entitlements: ReturnType<typeof accountOf>['entitlements']) => {
    const account = { ...accountOf(zone), entitlements };
    const write = configuredWrite({ id: '1'.repeat(32), ...body, ...asked }, { zone, account });
    const judged = await judgeWrite(write, sourcesOver(memoryFacts()));
    return judged.ok ? [] : judged.faults.map((fault) => ('number' in fault ? fault.number : fault.token));
  };
  const all = ['ftp', 'edge_ips', 'smart_routing'] as const;
  expect(await codesWith(all.filter((one) => one !== name))).toContain(code);
  expect(await codesWith([name])).not.toContain(code);
});
