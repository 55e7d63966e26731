// The SQL of the application store, prepared once.

import type { DatabaseSync, StatementSync } from '../../base/database/sqlite-file.ts';
import type { ApplicationQuery } from './store.ts';

const columns = `a.id, a.zone, a.account, a.fields, a.created_at, a.modified_at,
  (SELECT json_group_array(address) FROM
    (SELECT b.address FROM proxy_bindings b WHERE b.application = a.id ORDER BY b.position)) AS addresses`;

const orders = {
  protocol: ['transport', 'first_port', 'last_port', 'id'],
  dns: ['hostname', 'id'],
  created_on: ['created_at', 'id'],
  modified_on: ['modified_at', 'id'],
} as const satisfies Record<ApplicationQuery['order'], readonly string[]>;

type Pages = Readonly<Record<ApplicationQuery['order'], Readonly<Record<'asc' | 'desc', StatementSync>>>>;

/** Those of a zone, and of a hostname, transport, ports and FTP type where these are not null. */
const filtered = `a.zone = ?1 AND (?2 IS NULL OR a.hostname = ?2) AND (?3 IS NULL OR
  (a.transport = ?3 AND a.first_port = ?4 AND a.last_port = ?5
    AND (json_extract(a.fields, '$.protocol') IN ('ftp', 'ftp/21')) = ?6))`;

function pageStatements(database: DatabaseSync, what: string, limits: string): Pages {
  const page = (order: ApplicationQuery['order'], direction: 'asc' | 'desc'): StatementSync => {
    const by = orders[order].map((column) => `a.${column} ${direction}`).join(', ');
    return database.prepare(`SELECT ${what} FROM proxy_applications a WHERE ${filtered} ORDER BY ${by} ${limits}`);
  };
  const both = (order: ApplicationQuery['order']) => ({ asc: page(order, 'asc'), desc: page(order, 'desc') });
  return {
    protocol: both('protocol'),
    dns: both('dns'),
    created_on: both('created_on'),
    modified_on: both('modified_on'),
  };
}

/** What reads applications and what they hold. */
function reads(database: DatabaseSync) {
  const overlap = 'transport = ? AND first_port <= ? AND last_port >= ? AND application <> ?';
  return {
    get: database.prepare(`SELECT ${columns} FROM proxy_applications a WHERE a.id = ? AND a.zone = ?`),
    all: database.prepare(`SELECT ${columns} FROM proxy_applications a ORDER BY a.id`),
    marks: database.prepare('SELECT id, zone, created_at, modified_at FROM proxy_applications ORDER BY created_at, id'),
    pages: pageStatements(database, columns, 'LIMIT ?7 OFFSET ?8'),
    ids: pageStatements(database, 'a.id', ''),
    count: database.prepare(`SELECT count(*) AS count FROM proxy_applications a WHERE ${filtered}`),
    revision: database.prepare('SELECT revision FROM proxy_revision'),
    hostnameZone: database.prepare('SELECT zone FROM proxy_hostnames WHERE name = ?'),
    addressZone: database.prepare('SELECT zone FROM proxy_addresses WHERE address = ?'),
    soleProtocol: database.prepare(
      'SELECT 1 FROM proxy_applications WHERE account = ? AND sole_protocol = ? AND id <> ?',
    ),
    // The FTP type and tcp/21 have the same port, and are different protocols (D81).
    portsOf: database.prepare(
      `SELECT 1 FROM proxy_applications a WHERE account = ? AND transport = ? AND first_port = ? AND last_port = ?
         AND (json_extract(a.fields, '$.protocol') IN ('ftp', 'ftp/21')) = ? AND id <> ?`,
    ),
    allocationOf: database.prepare('SELECT address FROM proxy_allocations WHERE hostname = ?'),
    allocations: database.prepare('SELECT count(*) AS count FROM proxy_allocations WHERE zone = ?'),
    allocatedHostnames: database.prepare(
      `SELECT hostname FROM proxy_allocations v WHERE v.zone = ? AND EXISTS
         (SELECT 1 FROM proxy_applications a WHERE a.hostname = v.hostname AND a.edge = 'ipv4' AND a.id <> ?)
       ORDER BY slot`,
    ),
    overlaps: database.prepare(
      `SELECT address, first_port, last_port FROM proxy_bindings WHERE address = ? AND ${overlap}`,
    ),
    ipv6Overlaps: database.prepare(
      `SELECT address, first_port, last_port FROM proxy_bindings WHERE is_ipv6 = 1 AND ${overlap}`,
    ),
  };
}

/** What writes. */
function writes(database: DatabaseSync) {
  return {
    holdHostname: database.prepare('INSERT INTO proxy_hostnames (name, zone) VALUES (?, ?) ON CONFLICT DO NOTHING'),
    insert: database.prepare(
      `INSERT INTO proxy_applications (id, zone, account, hostname, sole_protocol, transport, first_port, last_port, edge,
         fields, created_at, modified_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    update: database.prepare(
      `UPDATE proxy_applications SET account = ?, hostname = ?, sole_protocol = ?, transport = ?, first_port = ?,
         last_port = ?, edge = ?, fields = ?, modified_at = ? WHERE id = ? AND zone = ?`,
    ),
    remove: database.prepare('DELETE FROM proxy_applications WHERE id = ?'),
    holdAddress: database.prepare(
      'INSERT INTO proxy_addresses (address, zone, ipv4) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
    ),
    // A free slot of zone ?1, which has ?2 rows: the next one where there are no gaps, else the lowest gap.
    freeSlot: database.prepare(
      `SELECT CASE
         WHEN NOT EXISTS (SELECT 1 FROM proxy_allocations WHERE zone = ?1 AND slot = ?2 + 1) THEN ?2 + 1
         WHEN NOT EXISTS (SELECT 1 FROM proxy_allocations WHERE zone = ?1 AND slot = 1) THEN 1
         ELSE (SELECT o.slot + 1 FROM proxy_allocations o WHERE o.zone = ?1 AND NOT EXISTS
           (SELECT 1 FROM proxy_allocations n WHERE n.zone = o.zone AND n.slot = o.slot + 1)
           ORDER BY o.slot LIMIT 1) END AS slot`,
    ),
    allocate: database.prepare(
      'INSERT INTO proxy_allocations (zone, slot, quota, hostname, address) VALUES (?, ?, ?, ?, ?)',
    ),
    // The lowest number from here on that no address has.
    firstGap: database.prepare(
      `SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM proxy_addresses WHERE ipv4 = ?1) THEN ?1 ELSE
         (SELECT o.ipv4 + 1 FROM proxy_addresses o WHERE o.ipv4 >= ?2 AND NOT EXISTS
           (SELECT 1 FROM proxy_addresses n WHERE n.ipv4 = o.ipv4 + 1) ORDER BY o.ipv4 LIMIT 1) END AS gap`,
    ),
    nextOfPool: database.prepare('SELECT next FROM proxy_pools WHERE pool = ?'),
    moveNext: database.prepare(
      'INSERT INTO proxy_pools (pool, next) VALUES (?, ?) ON CONFLICT (pool) DO UPDATE SET next = excluded.next',
    ),
    bind: database.prepare(
      `INSERT INTO proxy_bindings (address, transport, first_port, last_port, application, position, held_by, is_ipv6)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    unbind: database.prepare('DELETE FROM proxy_bindings WHERE application = ?'),
    releaseAllocation: database.prepare(
      `DELETE FROM proxy_allocations WHERE hostname = ?1 AND NOT EXISTS
         (SELECT 1 FROM proxy_applications a WHERE a.hostname = ?1 AND a.edge = 'ipv4')`,
    ),
    releaseAddress: database.prepare(
      `DELETE FROM proxy_addresses WHERE address = ?1
         AND NOT EXISTS (SELECT 1 FROM proxy_bindings WHERE address = ?1)
         AND NOT EXISTS (SELECT 1 FROM proxy_allocations WHERE address = ?1)`,
    ),
    releaseHostname: database.prepare(
      `DELETE FROM proxy_hostnames WHERE name = ?1
         AND NOT EXISTS (SELECT 1 FROM proxy_applications WHERE hostname = ?1)`,
    ),
  };
}

/** The statements of the store. */
export type ApplicationStatements = ReturnType<typeof reads> & ReturnType<typeof writes>;

/** Prepares them; the tables are there. */
export function prepareStatements(database: DatabaseSync): ApplicationStatements {
  return { ...reads(database), ...writes(database) };
}
