// The SQL of the application store.

import type { ApplicationQuery } from './store.ts';

const columns = `a.id, a.zone, a.account, a.fields, a.created_at, a.modified_at,
  (SELECT string_agg(b.address, ' ' ORDER BY b.position) FROM proxy_bindings b WHERE b.application = a.id) AS addresses`;

const orders = {
  protocol: ['transport', 'first_port', 'last_port', 'id'],
  dns: ['hostname', 'id'],
  created_on: ['created_at', 'id'],
  modified_on: ['modified_at', 'id'],
} as const satisfies Record<ApplicationQuery['order'], readonly string[]>;

/** Selects the applications of a zone, and, where these are not null, of a hostname, transport, ports and FTP type. */
const filtered = `a.zone = $1 AND (CAST($2 AS TEXT) IS NULL OR a.hostname = $2) AND (CAST($3 AS TEXT) IS NULL OR
  (a.transport = $3 AND a.first_port = $4 AND a.last_port = $5
    AND a.is_ftp = $6))`;

/** Nothing of a request stands in a statement. */
const directions = { asc: 'ASC', desc: 'DESC' } as const satisfies Record<ApplicationQuery['direction'], string>;

function inOrder(what: string, order: ApplicationQuery['order'], direction: ApplicationQuery['direction']): string {
  const by = orders[order].map((column) => `a.${column} ${directions[direction]}`).join(', ');
  return `SELECT ${what} FROM proxy_applications a WHERE ${filtered} ORDER BY ${by}`;
}

const overlap = 'transport = $1 AND first_port <= $2 AND last_port >= $3 AND application <> $4';

/** The statements of the store, by what they do. */
export const applicationStatements = {
  get: `SELECT ${columns} FROM proxy_applications a WHERE a.id = $1 AND a.zone = $2`,
  all: `SELECT ${columns} FROM proxy_applications a ORDER BY a.id`,
  marks: 'SELECT id, zone, created_at, modified_at FROM proxy_applications ORDER BY created_at, id',
  page: ({ order, direction }: ApplicationQuery) => `${inOrder(columns, order, direction)} LIMIT $7 OFFSET $8`,
  ids: ({ order, direction }: ApplicationQuery) => inOrder('a.id', order, direction),
  count: `SELECT count(*) AS count FROM proxy_applications a WHERE ${filtered}`,
  ofZone: 'SELECT count(*) AS count FROM proxy_applications WHERE zone = $1',
  revision: 'SELECT revision FROM proxy_revision',
  hostnameZone: 'SELECT zone FROM proxy_hostnames WHERE name = $1',
  addressZone: 'SELECT zone FROM proxy_addresses WHERE address = $1',
  soleProtocol: 'SELECT 1 FROM proxy_applications WHERE account = $1 AND sole_protocol = $2 AND id <> $3',
  // The FTP type and tcp/21 have the same port, and are different protocols (D81).
  portsOf: `SELECT 1 FROM proxy_applications a WHERE account = $1 AND transport = $2 AND first_port = $3 AND last_port = $4
         AND is_ftp = $5 AND id <> $6`,
  allocationOf: 'SELECT address FROM proxy_allocations WHERE hostname = $1',
  allocations: 'SELECT count(*) AS count FROM proxy_allocations WHERE zone = $1',
  allocatedHostnames: `SELECT hostname FROM proxy_allocations v WHERE v.zone = $1 AND EXISTS
         (SELECT 1 FROM proxy_applications a WHERE a.hostname = v.hostname AND a.edge = 'ipv4' AND a.id <> $2)
       ORDER BY slot`,
  overlaps: `SELECT address, first_port, last_port FROM proxy_bindings WHERE address = $5 AND ${overlap}`,
  ipv6Overlaps: `SELECT address, first_port, last_port FROM proxy_bindings WHERE is_ipv6 = 1 AND ${overlap}`,

  holdHostname: 'INSERT INTO proxy_hostnames (name, zone) VALUES ($1, $2) ON CONFLICT DO NOTHING',
  insert: `INSERT INTO proxy_applications (id, zone, account, hostname, sole_protocol, transport, first_port, last_port, edge,
         fields, is_ftp, created_at, modified_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
  update: `UPDATE proxy_applications SET account = $1, hostname = $2, sole_protocol = $3, transport = $4, first_port = $5,
         last_port = $6, edge = $7, fields = $8, is_ftp = $9, modified_at = $10 WHERE id = $11 AND zone = $12`,
  remove: 'DELETE FROM proxy_applications WHERE id = $1',
  holdAddress: 'INSERT INTO proxy_addresses (address, zone, ipv4) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
  // A free slot of zone $1, which has $2 rows: the next one where there are no gaps, else the lowest gap.
  freeSlot: `SELECT CASE
         WHEN NOT EXISTS (SELECT 1 FROM proxy_allocations WHERE zone = $1 AND slot = $2 + 1) THEN $2 + 1
         WHEN NOT EXISTS (SELECT 1 FROM proxy_allocations WHERE zone = $1 AND slot = 1) THEN 1
         ELSE (SELECT o.slot + 1 FROM proxy_allocations o WHERE o.zone = $1 AND NOT EXISTS
           (SELECT 1 FROM proxy_allocations n WHERE n.zone = o.zone AND n.slot = o.slot + 1)
           ORDER BY o.slot LIMIT 1) END AS slot`,
  allocate: 'INSERT INTO proxy_allocations (zone, slot, quota, hostname, address) VALUES ($1, $2, $3, $4, $5)',
  // The lowest number from here on that no address has.
  firstGap: `SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM proxy_addresses WHERE ipv4 = $1) THEN $1 ELSE
         (SELECT o.ipv4 + 1 FROM proxy_addresses o WHERE o.ipv4 >= $2 AND NOT EXISTS
           (SELECT 1 FROM proxy_addresses n WHERE n.ipv4 = o.ipv4 + 1) ORDER BY o.ipv4 LIMIT 1) END AS gap`,
  nextOfPool: 'SELECT next FROM proxy_pools WHERE pool = $1',
  moveNext:
    'INSERT INTO proxy_pools (pool, next) VALUES ($1, $2) ON CONFLICT (pool) DO UPDATE SET next = excluded.next',
  bind: `INSERT INTO proxy_bindings (address, transport, first_port, last_port, application, position, held_by, is_ipv6)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
  unbind: 'DELETE FROM proxy_bindings WHERE application = $1',
  releaseAllocation: `DELETE FROM proxy_allocations WHERE hostname = $1 AND NOT EXISTS
         (SELECT 1 FROM proxy_applications a WHERE a.hostname = $1 AND a.edge = 'ipv4')`,
  releaseAddress: `DELETE FROM proxy_addresses WHERE address = $1
         AND NOT EXISTS (SELECT 1 FROM proxy_bindings WHERE address = $1)
         AND NOT EXISTS (SELECT 1 FROM proxy_allocations WHERE address = $1)`,
  releaseHostname: `DELETE FROM proxy_hostnames WHERE name = $1
         AND NOT EXISTS (SELECT 1 FROM proxy_applications WHERE hostname = $1)`,
} as const;
