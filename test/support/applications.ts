// Writes of proxy applications for tests of the store: what a test does not name has a value here.

import { randomHex } from '../../src/base/ids.ts';
import type { ApplicationFields } from '../../src/proxy/application/application.ts';
import type { ApplicationWrite, Claims } from '../../src/proxy/store/application-writing.ts';

/** Two zones of one account, and one of an account that has each protocol once. */
export const zones = { one: '1'.repeat(32), two: '2'.repeat(32), payg: '3'.repeat(32) } as const;

/** Milliseconds since 1970. */
export const someTime = 1_790_000_000_000;

/** What a test says of a write. */
export interface WriteOptions {
  readonly id?: string;
  readonly zone?: string;
  readonly hostname?: string;
  /** `tcp/22`, `udp/1000-2000`. */
  readonly protocol?: string;
  readonly edge?: Claims['edge'];
  /** The account has each protocol once. */
  readonly sole?: boolean;
  readonly quota?: number;
  readonly pool?: string;
  readonly now?: number;
  readonly more?: Partial<ApplicationFields>;
}

/** Makes a write. */
export function applicationWrite(options: WriteOptions = {}): ApplicationWrite {
  const { zone = zones.one, protocol = 'tcp/22', hostname = 'ssh.one.example', edge = { kind: 'ipv4' } } = options;
  const [transport, ports = ''] = protocol.split('/');
  const [first = 0, last = first] = ports.split('-').map(Number);
  return {
    id: options.id ?? randomHex(16),
    zone,
    account: zone === zones.payg ? 'c'.repeat(32) : 'a'.repeat(32),
    fields: {
      protocol,
      dns: { type: edge.kind === 'static' ? 'ADDRESS' : 'CNAME', name: hostname },
      origin_direct: ['tcp://127.0.0.1:22'],
      ...(edge.kind === 'static' ? { edge_ips: edge.ips } : {}),
      ...options.more,
    },
    claims: {
      transport: transport === 'udp' ? 'udp' : 'tcp',
      ports: { first, last },
      ...(options.sole === true ? { soleProtocol: protocol } : {}),
      edge,
      ipv4Quota: options.quota ?? 10,
      ipv4Pool: options.pool ?? '127.64.0.0/16',
    },
    now: options.now ?? someTime,
  };
}
