// Which sockets plans ask for, and how what is missing is told.

import { expect, test } from 'vitest';
import type { ForwardingPlan } from '../../../src/proxy/application/application.ts';
import { writePorts, writeSockets } from '../../../src/proxy/application/port-ranges.ts';
import {
  bindFailure,
  createListenPlanner,
  explainFailures,
  type ListenBounds,
} from '../../../src/proxy/plane/listening-sockets.ts';
import fc from '../../support/properties.ts';
import { planOf } from '../../support/proxy-plane.ts';

const bounds: ListenBounds = {
  portOffset: 0,
  maxPerAccount: 16_384,
  ipv6Addresses: [],
  maxListeners: 100,
  ownPorts: new Set(),
};

function plan(id: string, first: number, last = first, given: Partial<ForwardingPlan> = {}): ForwardingPlan {
  return planOf({ id, addresses: ['192.0.2.1'], ports: { first, last }, ...given });
}

function listen(plans: readonly ForwardingPlan[], given: Partial<ListenBounds> = {}) {
  const { wanted, problems } = createListenPlanner()(plans, { ...bounds, ...given });
  return {
    wanted: [...wanted].map(([key, { application }]) => `${application}: ${key}`),
    problems: Object.fromEntries([...problems].filter(([, reasons]) => reasons.length > 0)),
  };
}

test('each address and port is one socket, TCP and UDP are two, IPv6 has one spelling', () => {
  const addresses = ['192.0.2.1', '2001:DB8:0::1'];
  expect(listen([plan('a', 1, 2, { addresses }), plan('b', 1, 1, { transport: 'udp' })])).toEqual({
    wanted: [
      'a: tcp 192.0.2.1:1',
      'a: tcp 192.0.2.1:2',
      'a: tcp [2001:db8::1]:1',
      'a: tcp [2001:db8::1]:2',
      'b: udp 192.0.2.1:1',
    ],
    problems: {},
  });
});

test('UDP on every IPv6 address is a socket on each of them, TCP is one on the wildcard', () => {
  const addresses = ['192.0.2.1', '::'];
  const plans = [plan('a', 1, 1, { addresses, transport: 'udp' }), plan('b', 1, 1, { addresses })];
  expect(listen(plans, { ipv6Addresses: ['2001:db8::1', '::1'] }).wanted).toEqual([
    'a: udp 192.0.2.1:1',
    'a: udp [2001:db8::1]:1',
    'a: udp [::1]:1',
    'b: tcp 192.0.2.1:1',
    'b: tcp [::]:1',
  ]);
  expect(listen([plan('a', 1, 1, { addresses: ['::'], transport: 'udp' })])).toEqual({
    wanted: [],
    problems: { a: ['this machine has no IPv6 address'] },
  });
});

test('a plan with an obstacle has no socket, and says why', () => {
  expect(listen([plan('a', 1, 2, { obstacle: 'its network is gone' }), plan('b', 1)])).toEqual({
    wanted: ['b: tcp 192.0.2.1:1'],
    problems: { a: ['its network is gone'] },
  });
});

test('a plan that it knows is not worked out again, unless the ports of the gateway change', () => {
  const planner = createListenPlanner();
  const first = plan('a', 5, 6);
  const socket = (given: Partial<ListenBounds> = {}) =>
    planner([first], { ...bounds, ...given }).wanted.get('tcp 192.0.2.1:5');
  const before = socket();
  expect(socket()).toBe(before);
  expect(socket({ ownPorts: new Set([6]) })).toEqual(before);
  expect(planner([first], { ...bounds, ownPorts: new Set([5]) }).wanted.size).toBe(1);
  expect(planner([{ ...first }], bounds).wanted.get('tcp 192.0.2.1:5')).not.toBe(before);
});

test('of two that ask for the same the first has it, and the other is told', () => {
  expect(listen([plan('a', 5), plan('b', 4, 6)])).toEqual({
    wanted: ['a: tcp 192.0.2.1:5', 'b: tcp 192.0.2.1:4', 'b: tcp 192.0.2.1:6'],
    problems: { b: ['port 5: another application listens there'] },
  });
});

test.each([
  [99, {}],
  [100, {}],
  [101, { a: ['it needs 101 listening sockets, and 100 of 100 are left'] }],
])('%i sockets of 100', (ports, problems) => {
  const result = listen([plan('a', 1, ports)]);
  expect(result.problems).toEqual(problems);
  expect(result.wanted).toHaveLength(ports > 100 ? 0 : ports);
});

test('an application that does not fit leaves room for a smaller one', () => {
  const { wanted, problems } = listen([plan('a', 1, 60), plan('b', 101, 160), plan('c', 201, 240)]);
  expect(wanted).toHaveLength(100);
  expect(problems).toEqual({ b: ['it needs 60 listening sockets, and 40 of 100 are left'] });
});

test.each([
  [65_534, {}],
  [65_535, {}],
  [65_536, { a: ['port 45536 and the offset of 20000 are over 65535'] }],
])('bound port %i', (bound, problems) => {
  expect(listen([plan('a', bound - 20_000)], { portOffset: 20_000 }).problems).toEqual(problems);
});

test('the own ports are those after the offset, and of TCP', () => {
  const given = { portOffset: 100, ownPorts: new Set([125]) };
  expect(listen([plan('a', 25), plan('b', 125), plan('c', 25, 25, { transport: 'udp' })], given)).toEqual({
    wanted: ['b: tcp 192.0.2.1:225', 'c: udp 192.0.2.1:125'],
    problems: { a: ['port 25: the gateway itself listens there'] },
  });
});

test.each([
  [[22], 'port 22'],
  [[23, 22], 'ports 22-23'],
  [[80, 22, 81, 443], 'ports 22, 80-81, 443'],
  [[{ first: 1, last: 9 }, 5, 10], 'ports 1-10'],
  [[1, 3, 5, 7, 9, 11, 13, 15, 17, 19], 'ports 1, 3, 5, 7, 9, 11, 13, 15, and 2 more ranges'],
])('%j is written %s', (ports, text) => {
  expect(writePorts(ports)).toBe(text);
});

test('ports are written the same in any order', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (ports) => {
      expect(writePorts(ports.toReversed())).toBe(writePorts(ports));
      expect(writePorts([...new Set(ports)])).toBe(writePorts(ports));
    }),
  );
});

const systemError = (code: string) => Object.assign(new Error(`listen ${code}`), { code });

test.each([
  [
    [22],
    0,
    'EACCES',
    'port 22 on 192.0.2.1 needs a privilege that this process does not have (EACCES); ' +
      'grant it CAP_NET_BIND_SERVICE or set proxy.portOffset',
  ],
  [
    [22, 23],
    0,
    'EACCES',
    'ports 22-23 on 192.0.2.1 need a privilege that this process does not have (EACCES); ' +
      'grant it CAP_NET_BIND_SERVICE or set proxy.portOffset',
  ],
  [[80], 0, 'EADDRINUSE', 'port 80 on 192.0.2.1: another program listens there (EADDRINUSE)'],
  [[80], 20_000, 'EMFILE', 'port 80 (bound 20000 higher) on 192.0.2.1: this process may not open more files (EMFILE)'],
  [[80], 0, 'EINVAL', 'port 80 on 192.0.2.1 cannot be bound: EINVAL'],
])('ports %j with offset %i and %s', (edgePorts, offset, code, text) => {
  const failures = edgePorts.map((edgePort) =>
    bindFailure({ address: '192.0.2.1', port: edgePort + offset, edgePort }, systemError(code)),
  );
  expect(explainFailures(failures)).toEqual([text]);
});

test('failures of different kinds and addresses are told apart', () => {
  const at = (address: string, port: number) => ({ address, port, edgePort: port });
  expect(
    explainFailures([
      bindFailure(at('192.0.2.1', 1), systemError('EADDRINUSE')),
      bindFailure(at('192.0.2.1', 2), systemError('EADDRNOTAVAIL')),
      bindFailure(at('192.0.2.2', 1), systemError('EADDRINUSE')),
      bindFailure(at('192.0.2.1', 3), systemError('EADDRINUSE')),
    ]),
  ).toEqual([
    'ports 1, 3 on 192.0.2.1: another program listens there (EADDRINUSE)',
    'port 2: 192.0.2.1 is no address of this machine (EADDRNOTAVAIL)',
    'port 1 on 192.0.2.2: another program listens there (EADDRINUSE)',
  ]);
});

test('sockets are written with neighbouring ports of an address together', () => {
  const at = (address: string, ...ports: readonly number[]) => ports.map((port) => ({ address, port }));
  expect(writeSockets([])).toEqual([]);
  expect(writeSockets([...at('127.0.0.1', 24, 22), ...at('::1', 2, 1, 3), ...at('127.0.0.1', 23, 80)])).toEqual([
    '127.0.0.1:22-24',
    '127.0.0.1:80',
    '[::1]:1-3',
  ]);
});
