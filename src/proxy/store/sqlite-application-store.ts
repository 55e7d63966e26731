// Proxy applications in the embedded database (D87, D89, D90). A write is one transaction; the tables' constraints say
// what it lost to.

import { type DatabaseSync, migrateSqlite } from '../../base/database/sqlite-file.ts';
import type { ApplicationFields, StoredApplication } from '../application/application.ts';
import { canonicalIp, comparableHostname, wildcardIp } from '../application/edge-address.ts';
import { type Protocol, parseProtocol } from '../application/protocol.ts';
import { applicationMigrations } from './application-tables.ts';
import { ApplicationWriting, releaseUnused, takenOn } from './application-writing.ts';
import { prepareStatements } from './sqlite-statements.ts';
import type { ApplicationStore, ApplicationWrite, Claims, StoreConflict, Written } from './store.ts';

type Row = Readonly<Record<string, unknown>>;

function storedOf(row: Row): StoredApplication {
  const fields: ApplicationFields = JSON.parse(String(row['fields']));
  const addresses: readonly string[] = JSON.parse(String(row['addresses']));
  return {
    id: String(row['id']),
    zone: String(row['zone']),
    account: String(row['account']),
    fields,
    addresses,
    createdAt: Number(row['created_at']),
    modifiedAt: Number(row['modified_at']),
  };
}

type Bound = string | number | null;

/** A protocol as the statements compare it: transport, ports, and whether it is the FTP type. */
function protocolValues(protocol: Protocol | undefined): [Bound, Bound, Bound, Bound] {
  if (!protocol) return [null, null, null, null];
  return [protocol.transport, protocol.ports.first, protocol.ports.last, protocol.isFtp ? 1 : 0];
}

/** Opens the store and brings its tables up to date. Dates come with the writes. */
export function openApplicationStore(database: DatabaseSync): ApplicationStore {
  migrateSqlite(database, applicationMigrations);
  const sql = prepareStatements(database);

  /** All or nothing: what `work` did stays only where it says so. */
  function transaction<T>(work: () => { readonly keep: boolean; readonly result: T }): T {
    database.exec('BEGIN IMMEDIATE');
    try {
      const { keep, result } = work();
      database.exec(keep ? 'COMMIT' : 'ROLLBACK');
      return result;
    } finally {
      if (database.isTransaction) database.exec('ROLLBACK');
    }
  }

  function get(zone: string, id: string): StoredApplication | undefined {
    const row = sql.get.get(id, zone);
    return row && storedOf(row);
  }

  function written(write: ApplicationWrite, lost: StoreConflict | undefined): Written {
    if (lost) return { ok: false, conflict: lost };
    const application = get(write.zone, write.id);
    if (!application) throw new Error(`Application ${write.id} was written and is not there`);
    return { ok: true, application };
  }

  function edgeAddresses(hostname: string, edge: Claims['edge']): readonly string[] {
    if (edge.kind === 'static') return [...new Set(edge.ips.map(canonicalIp))];
    if (edge.kind === 'ipv6') return [wildcardIp];
    const allocation = sql.allocationOf.get(comparableHostname(hostname));
    return [...(allocation ? [String(allocation['address'])] : []), ...(edge.andIpv6 ? [wildcardIp] : [])];
  }

  return {
    async create(write) {
      return transaction(() => {
        const writing = new ApplicationWriting(sql, write);
        const result = written(write, writing.insert() ?? writing.claim());
        return { keep: result.ok, result };
      });
    },
    async replace(write, ifModifiedAt) {
      return transaction<Awaited<ReturnType<ApplicationStore['replace']>>>(() => {
        const stored = get(write.zone, write.id);
        if (!stored) return { keep: false, result: undefined };
        if (ifModifiedAt !== undefined && stored.modifiedAt !== ifModifiedAt) {
          return { keep: false, result: { ok: false, changed: true } };
        }
        const writing = new ApplicationWriting(sql, write);
        const result = written(write, writing.update(stored) ?? writing.claim());
        return { keep: result.ok, result };
      });
    },
    async remove(zone, id) {
      return transaction(() => {
        const stored = get(zone, id);
        if (!stored) return { keep: false, result: false };
        sql.unbind.run(id);
        sql.remove.run(id);
        releaseUnused(sql, stored);
        return { keep: true, result: true };
      });
    },
    get: async (zone, id) => get(zone, id),
    async list(zone, { page, perPage, order, direction, hostname, protocol, accepts }) {
      const name = hostname === undefined ? null : comparableHostname(hostname);
      const filter: [Bound, Bound, ...Bound[]] = [zone, name, ...protocolValues(protocol)];
      const begin = (page - 1) * perPage;
      if (!accepts) {
        const rows = sql.pages[order][direction].all(...filter, perPage, begin);
        return { applications: rows.map(storedOf), total: Number(sql.count.get(...filter)?.['count']) };
      }
      const ids = sql.ids[order][direction].all(...filter).map((row) => String(row['id']));
      const accepted = ids.filter(accepts);
      const applications = accepted.slice(begin, begin + perPage).flatMap((id) => get(zone, id) ?? []);
      return { applications, total: accepted.length };
    },
    all: async () => sql.all.all().map(storedOf),
    marks: async () =>
      sql.marks.all().map((row) => ({
        id: String(row['id']),
        zone: String(row['zone']),
        createdAt: Number(row['created_at']),
        modifiedAt: Number(row['modified_at']),
      })),
    revision: async () => Number(sql.revision.get()?.['revision']),
    async hostnameZone(name) {
      const row = sql.hostnameZone.get(comparableHostname(name));
      return row && String(row['zone']);
    },
    async edgeIpsOfOthers(ips, zone) {
      return ips.filter((ip) => {
        const row = sql.addressZone.get(canonicalIp(ip));
        return row !== undefined && row['zone'] !== zone;
      });
    },
    async hasProtocol(account, protocol, except = '') {
      if (sql.soleProtocol.get(account, protocol, except)) return true;
      // One that was written while the account's plan had no such limit counts as well.
      const parts = parseProtocol(protocol);
      return parts !== undefined && sql.portsOf.get(account, ...protocolValues(parts), except) !== undefined;
    },
    async ipv4Hostnames(zone, except = '') {
      return sql.allocatedHostnames.all(zone, except).map((row) => String(row['hostname']));
    },
    async takenPorts({ transport, ports, hostname, edge }, except = '') {
      return takenOn(sql, { addresses: edgeAddresses(hostname, edge), transport, ports, except });
    },
  };
}
