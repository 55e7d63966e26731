// The tables of proxy applications and their statements. What two writers race for is a constraint, whoever writes (D87).

import type { Migrations } from '../../base/database/database.ts';
import { inPostgres } from '../../base/database/postgres-migrations.ts';
import type { Protocol } from '../application/texts.ts';

/** What the exclusion triggers raise. */
const portsTaken = 'proxy: ports are taken';

const tables = `CREATE TABLE proxy_hostnames (
    name TEXT NOT NULL PRIMARY KEY,
    zone TEXT NOT NULL,
    UNIQUE (name, zone)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE proxy_applications (
    id TEXT NOT NULL PRIMARY KEY,
    zone TEXT NOT NULL,
    account TEXT NOT NULL,
    hostname TEXT NOT NULL,
    sole_protocol TEXT,
    transport TEXT NOT NULL CHECK (transport IN ('tcp', 'udp')),
    first_port INTEGER NOT NULL CHECK (first_port BETWEEN 1 AND 65535),
    last_port INTEGER NOT NULL CHECK (last_port BETWEEN first_port AND 65535),
    edge TEXT NOT NULL CHECK (edge IN ('static', 'ipv4', 'ipv6')),
    fields TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    modified_at INTEGER NOT NULL,
    FOREIGN KEY (hostname, zone) REFERENCES proxy_hostnames (name, zone)
  ) STRICT;
  CREATE UNIQUE INDEX proxy_sole_protocols ON proxy_applications (account, sole_protocol)
    WHERE sole_protocol IS NOT NULL;
  CREATE INDEX proxy_ports_of_account ON proxy_applications (account, transport, first_port, last_port);
  CREATE INDEX proxy_applications_of_hostname ON proxy_applications (hostname, zone);
  CREATE INDEX proxy_by_hostname ON proxy_applications (zone, hostname, id);
  CREATE INDEX proxy_by_protocol ON proxy_applications (zone, transport, first_port, last_port, id);
  CREATE INDEX proxy_by_creation ON proxy_applications (zone, created_at, id);
  CREATE INDEX proxy_by_change ON proxy_applications (zone, modified_at, id);

  CREATE TABLE proxy_addresses (
    address TEXT NOT NULL PRIMARY KEY,
    zone TEXT NOT NULL,
    ipv4 INTEGER,
    UNIQUE (address, zone)
  ) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX proxy_address_numbers ON proxy_addresses (ipv4) WHERE ipv4 IS NOT NULL;

  CREATE TABLE proxy_allocations (
    zone TEXT NOT NULL,
    slot INTEGER NOT NULL,
    quota INTEGER NOT NULL,
    hostname TEXT NOT NULL UNIQUE,
    address TEXT NOT NULL UNIQUE,
    PRIMARY KEY (zone, slot),
    CHECK (slot BETWEEN 1 AND quota),
    FOREIGN KEY (hostname, zone) REFERENCES proxy_hostnames (name, zone),
    FOREIGN KEY (address, zone) REFERENCES proxy_addresses (address, zone)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE proxy_bindings (
    address TEXT NOT NULL,
    transport TEXT NOT NULL,
    first_port INTEGER NOT NULL,
    last_port INTEGER NOT NULL CHECK (last_port >= first_port),
    application TEXT NOT NULL REFERENCES proxy_applications (id),
    position INTEGER NOT NULL,
    held_by TEXT,
    is_ipv6 INTEGER NOT NULL,
    PRIMARY KEY (address, transport, first_port),
    CHECK ((held_by IS NULL) = (address = '::')),
    FOREIGN KEY (address, held_by) REFERENCES proxy_addresses (address, zone)
  ) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX proxy_bindings_of_application ON proxy_bindings (application, position);
  CREATE INDEX proxy_ipv6_bindings ON proxy_bindings (transport, first_port, last_port, address) WHERE is_ipv6 = 1;`;

const exclusion = `  CREATE TRIGGER proxy_ports_excluded BEFORE INSERT ON proxy_bindings
  WHEN (SELECT last_port FROM proxy_bindings
        WHERE address = NEW.address AND transport = NEW.transport AND first_port <= NEW.last_port
        ORDER BY first_port DESC LIMIT 1) >= NEW.first_port
  BEGIN SELECT RAISE(ABORT, '${portsTaken}'); END;

  CREATE TRIGGER proxy_ports_excluded_by_wildcard BEFORE INSERT ON proxy_bindings
  WHEN NEW.is_ipv6 = 1 AND EXISTS (
    SELECT 1 FROM proxy_bindings
    WHERE is_ipv6 = 1 AND transport = NEW.transport AND first_port <= NEW.last_port AND last_port >= NEW.first_port
      AND (address = '::' OR NEW.address = '::'))
  BEGIN SELECT RAISE(ABORT, '${portsTaken}'); END;`;

const counters = `  CREATE TABLE proxy_pools (pool TEXT NOT NULL PRIMARY KEY, next INTEGER NOT NULL) STRICT, WITHOUT ROWID;

  CREATE TABLE proxy_revision (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), revision INTEGER NOT NULL) STRICT;
  INSERT INTO proxy_revision VALUES (1, 0);`;

const counting = `  CREATE TRIGGER proxy_created AFTER INSERT ON proxy_applications
  BEGIN UPDATE proxy_revision SET revision = revision + 1; END;
  CREATE TRIGGER proxy_changed AFTER UPDATE ON proxy_applications
  BEGIN UPDATE proxy_revision SET revision = revision + 1; END;
  CREATE TRIGGER proxy_removed AFTER DELETE ON proxy_applications
  BEGIN UPDATE proxy_revision SET revision = revision + 1; END;`;

/** Whether the protocol is the FTP type, which differs from tcp/21 (D81). */
const ftpColumn = 'ALTER TABLE proxy_applications ADD COLUMN is_ftp INTEGER NOT NULL DEFAULT 0';

/** The triggers in PostgreSQL. Transactions there are serializable, so that two of them cannot miss each other's rows. */
const postgresTriggers = `
  CREATE FUNCTION proxy_exclude_ports() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF (SELECT last_port FROM proxy_bindings
        WHERE address = NEW.address AND transport = NEW.transport AND first_port <= NEW.last_port
        ORDER BY first_port DESC LIMIT 1) >= NEW.first_port
    OR NEW.is_ipv6 = 1 AND EXISTS (
      SELECT 1 FROM proxy_bindings
      WHERE is_ipv6 = 1 AND transport = NEW.transport AND first_port <= NEW.last_port AND last_port >= NEW.first_port
        AND (address = '::' OR NEW.address = '::'))
    THEN RAISE EXCEPTION '${portsTaken}';
    END IF;
    RETURN NEW;
  END $$;
  CREATE TRIGGER proxy_ports_excluded BEFORE INSERT ON proxy_bindings
    FOR EACH ROW EXECUTE FUNCTION proxy_exclude_ports();

  CREATE FUNCTION proxy_count_change() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE proxy_revision SET revision = revision + 1;
    RETURN NULL;
  END $$;
  CREATE TRIGGER proxy_changed AFTER INSERT OR UPDATE OR DELETE ON proxy_applications
    FOR EACH ROW EXECUTE FUNCTION proxy_count_change();`;

/**
 * The tables:
 * - `proxy_hostnames`: a hostname is one zone's while an application has it;
 * - `proxy_applications`: an account that may have a protocol once has its canonical form in `sole_protocol`;
 * - `proxy_addresses`: an address, static or of the pool, is one zone's; `ipv4` is its number, for finding gaps;
 * - `proxy_allocations`: the address of the pool that a hostname has, in one of its zone's slots, 1 to the quota;
 * - `proxy_bindings`: what an application listens on. Ranges of ports on an address are disjoint, so the last one that
 *   begins at or below a port is the only one that can hold it: the trigger looks at one row, however many there are.
 *   The wildcard `::` holds the ports of every IPv6 address, and is no zone's (`held_by` null);
 * - `proxy_pools`: where the search for a free address goes on;
 * - `proxy_revision`: counts changes, so that other processes notice them (D94).
 */
export const applicationMigrations: Migrations = {
  owner: 'proxy',
  steps: [
    [tables, exclusion, counters, counting].join('\n\n'),
    `${ftpColumn};
     UPDATE proxy_applications SET is_ftp = 1 WHERE json_extract(fields, '$.protocol') IN ('ftp', 'ftp/21')`,
  ],
  told: [{ table: 'proxy_revision' }],
  postgres: [[inPostgres(tables), inPostgres(counters), postgresTriggers].join('\n\n'), inPostgres(ftpColumn)],
};

const columns = `a.id, a.zone, a.account, a.fields, a.created_at, a.modified_at,
  (SELECT string_agg(b.address, ' ' ORDER BY b.position) FROM proxy_bindings b WHERE b.application = a.id) AS addresses`;

const orders = {
  protocol: ['transport', 'first_port', 'last_port', 'id'],
  dns: ['hostname', 'id'],
  created_on: ['created_at', 'id'],
  modified_on: ['modified_at', 'id'],
} as const;

/** Selects the applications of a zone, and, where these are not null, of a hostname, transport, ports and FTP type. */
const filtered = `a.zone = $1 AND (CAST($2 AS TEXT) IS NULL OR a.hostname = $2) AND (CAST($3 AS TEXT) IS NULL OR
  (a.transport = $3 AND a.first_port = $4 AND a.last_port = $5
    AND a.is_ftp = $6))`;

/** Nothing of a request stands in a statement. */
const directions = { asc: 'ASC', desc: 'DESC' } as const;

/** Which applications of a zone are wanted. */
export interface ApplicationQuery {
  /** From 1. */
  readonly page: number;
  readonly perPage: number;
  readonly order: keyof typeof orders;
  readonly direction: keyof typeof directions;
  /** Only those of this hostname; letter case does not matter. */
  readonly hostname?: string | undefined;
  /** Only those of this protocol, as it is. */
  readonly protocol?: Protocol | undefined;
  /** Only those whose id passes. */
  readonly accepts?: ((id: string) => boolean) | undefined;
}

function inOrder(what: string, { order, direction }: ApplicationQuery): string {
  const by = orders[order].map((column) => `a.${column} ${directions[direction]}`).join(', ');
  return `SELECT ${what} FROM proxy_applications a WHERE ${filtered} ORDER BY ${by}`;
}

const overlap = 'transport = $1 AND first_port <= $2 AND last_port >= $3 AND application <> $4';

/** The statements of the store, by what they do. */
export const applicationStatements = {
  get: `SELECT ${columns} FROM proxy_applications a WHERE a.id = $1 AND a.zone = $2`,
  all: `SELECT ${columns} FROM proxy_applications a ORDER BY a.id`,
  marks: 'SELECT id, zone, created_at, modified_at FROM proxy_applications ORDER BY created_at, id',
  page: (query: ApplicationQuery) => `${inOrder(columns, query)} LIMIT $7 OFFSET $8`,
  ids: (query: ApplicationQuery) => inOrder('a.id', query),
  count: `SELECT count(*) AS count FROM proxy_applications a WHERE ${filtered}`,
  ofZone: 'SELECT count(*) AS count FROM proxy_applications WHERE zone = $1',
  revision: 'SELECT revision FROM proxy_revision',
  hostnameZone: 'SELECT zone FROM proxy_hostnames WHERE name = $1',
  addressZone: 'SELECT zone FROM proxy_addresses WHERE address = $1',
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
