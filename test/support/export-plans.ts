// Plans with every feature that an application has, for the exports to other proxies.

import type { ForwardingPlan } from '../../src/proxy/application/application.ts';
import type { ExportSettings } from '../../src/proxy/export/exported.ts';
import { readLimits } from '../../src/proxy/plane/data-plane-parts.ts';

/** A plan for one TCP port and one origin; what is given goes over it. `number` makes its id. */
export function exportPlan(number: number, given: Partial<ForwardingPlan> = {}): ForwardingPlan {
  return {
    id: number.toString(16).padStart(32, '0'),
    zone: '1'.repeat(32),
    account: 'a1'.repeat(16),
    name: `app${number}.example.com`,
    transport: 'tcp',
    ports: { first: 1000 + number, last: 1000 + number },
    addresses: ['127.0.0.1'],
    origin: { kind: 'direct', origins: [{ address: '127.0.0.2', ports: { first: 22, last: 22 } }] },
    proxyProtocol: 'off',
    tls: 'off',
    firewall: { block: [], allow: [] },
    ...given,
  };
}

const named = (
  type: '' | 'A' | 'AAAA' | 'SRV',
  name = 'origin.test',
  ports = { first: 22, last: 22 },
): ForwardingPlan['origin'] => ({
  kind: 'dns',
  name,
  type,
  ttlSeconds: type === 'AAAA' ? 600 : 1200,
  ...(type === 'SRV' ? {} : { ports }),
});

const networks = Array.from({ length: 90 }, (_, index) => `10.${index}.0.0/16`);
const range = (first: number, last: number) => ({ first, last });
const to = (address: string, first: number, last = first) => ({ address, ports: range(first, last) });
const direct = (...origins: readonly ReturnType<typeof to>[]): ForwardingPlan['origin'] => ({
  kind: 'direct',
  origins,
});

/** One plan a feature. The certificate's name is `app20.example.com` to `app23.example.com`. */
export const everyFeature: readonly ForwardingPlan[] = [
  exportPlan(1),
  exportPlan(2, { origin: direct(to('127.0.0.2', 22), to('::1', 2222), to('192.0.2.9', 1)) }),
  exportPlan(3, { addresses: ['127.0.0.1', '::1'] }),
  exportPlan(4, { addresses: ['::'] }),
  exportPlan(5, { ports: range(3000, 3009), origin: direct(to('127.0.0.2', 3000, 3009)) }),
  exportPlan(6, { ports: range(3100, 3103), origin: direct(to('127.0.0.2', 4100, 4103), to('::1', 50, 53)) }),
  exportPlan(7, { proxyProtocol: 'v1' }),
  exportPlan(8, { proxyProtocol: 'v2' }),
  exportPlan(9, { proxyProtocol: 'simple' }),
  exportPlan(10, { sourceAddress: '127.0.0.9' }),
  exportPlan(11, { firewall: { block: ['192.0.2.66', '2001:db8::/32'], allow: [] } }),
  exportPlan(12, { firewall: { block: ['127.0.0.5'], allow: ['127.0.0.0/8', '::1'] } }),
  exportPlan(13, { firewall: { block: networks, allow: networks } }),
  exportPlan(14, { origin: named('') }),
  exportPlan(15, { origin: named('A') }),
  exportPlan(16, { origin: named('AAAA') }),
  exportPlan(17, { origin: named('SRV', '_ssh._tcp.origin.test') }),
  exportPlan(18, { origin: named('SRV', 'ssh.origin.test') }),
  exportPlan(19, { ports: range(3200, 3203), origin: named('', 'origin.test', range(80, 83)) }),
  exportPlan(20, { tls: 'flexible', origin: direct(to('127.0.0.2', 25)) }),
  exportPlan(21, { tls: 'full', proxyProtocol: 'v1' }),
  exportPlan(22, { tls: 'strict', origin: named('A') }),
  exportPlan(23, { tls: 'strict', origin: named('SRV', '_ssh._tcp.origin.test') }),
  exportPlan(30, { transport: 'udp' }),
  exportPlan(31, { transport: 'udp', addresses: ['::1'], origin: direct(to('::1', 53), to('127.0.0.2', 53)) }),
  exportPlan(32, { transport: 'udp', ports: range(3300, 3301), origin: direct(to('127.0.0.2', 53, 54)) }),
  exportPlan(33, { transport: 'udp', proxyProtocol: 'simple' }),
  exportPlan(34, { transport: 'udp', proxyProtocol: 'v2' }),
  exportPlan(35, { transport: 'udp', firewall: { block: [], allow: ['127.0.0.0/8'] } }),
  exportPlan(36, { transport: 'udp', origin: named('A'), tls: 'full' }),
  exportPlan(40, { ports: range(20_000, 30_000), origin: direct(to('127.0.0.2', 20_001, 30_001)) }),
];

/** Settings without an offset. */
export function exportSettings(given: Partial<ExportSettings> = {}): ExportSettings {
  return {
    portOffset: 0,
    certsDir: '/etc/postern/certs',
    caFile: '/etc/ssl/certs/ca-certificates.crt',
    nameservers: [
      { address: '127.0.0.53', port: 53 },
      { address: '::1', port: 5353 },
    ],
    zonesWithRecords: [],
    withoutPlan: [],
    limitsOf: readLimits({}).limitsOf,
    originDeny: [],
    ...given,
  };
}
