// Keeps proxy applications in the embedded database (D87, D89, D90). A write is one transaction; the constraints of the tables
// tell what it has lost to.

import type { Database, Queryable, Row, SqlValue, Transaction } from '../../base/database/database.ts';
import type { ApplicationFields, StoredApplication } from '../application/application.ts';
import { canonicalIp, comparableHostname, wildcardIp } from '../application/ip-address.ts';
import { type Protocol, parseProtocol } from '../application/protocol.ts';
import { applicationMigrations } from './application-tables.ts';
import { ApplicationWriting, releaseUnused, takenOn } from './application-writing.ts';
import { applicationStatements as sql } from './sqlite-statements.ts';
import type {
  ApplicationFactsSource,
  ApplicationQuery,
  ApplicationStore,
  ApplicationWrite,
  Claims,
  StoreConflict,
  Written,
} from './store.ts';

function storedOf(row: Row): StoredApplication {
  const fields: ApplicationFields = JSON.parse(String(row['fields']));
  // An application without an address has NULL here.
  const { addresses } = row;
  return {
    id: String(row['id']),
    zone: String(row['zone']),
    account: String(row['account']),
    fields,
    addresses: typeof addresses === 'string' ? addresses.split(' ') : [],
    createdAt: Number(row['created_at']),
    modifiedAt: Number(row['modified_at']),
  };
}

/** A protocol as the statements compare it: transport, ports, and whether it is the FTP type. */
function protocolValues(protocol: Protocol | undefined): SqlValue[] {
  if (!protocol) return [null, null, null, null];
  return [protocol.transport, protocol.ports.first, protocol.ports.last, protocol.isFtp ? 1 : 0];
}

async function get(on: Pick<Queryable, 'query'>, zone: string, id: string): Promise<StoredApplication | undefined> {
  const [row] = await on.query(sql.get, [id, zone]);
  return row && storedOf(row);
}

async function written(
  transaction: Transaction,
  write: ApplicationWrite,
  lost: StoreConflict | undefined,
): Promise<Written> {
  if (lost) return { ok: false, conflict: lost };
  const application = await get(transaction, write.zone, write.id);
  if (!application) throw new Error(`Application ${write.id} was written and is not there`);
  return { ok: true, application };
}

/** Runs `work` in a transaction, whose changes stay only where the result is `ok`. */
async function keepIfOk<T extends { readonly ok: boolean } | undefined>(
  database: Database,
  work: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  const undo = new Error('A write that has lost is undone');
  let result: { readonly lost: T } | undefined;
  try {
    return await database.transaction(async (transaction) => {
      const end = await work(transaction);
      if (end?.ok) return end;
      result = { lost: end };
      throw undo;
    });
  } catch (thrown) {
    if (!result || thrown !== undo) throw thrown;
    return result.lost;
  }
}

async function replace(
  transaction: Transaction,
  write: ApplicationWrite,
  ifModifiedAt: number | undefined,
): ReturnType<ApplicationStore['replace']> {
  const stored = await get(transaction, write.zone, write.id);
  if (!stored) return undefined;
  if (stored.modifiedAt !== (ifModifiedAt ?? stored.modifiedAt)) return { ok: false, changed: true };
  const writing = new ApplicationWriting(transaction, write);
  return await written(transaction, write, (await writing.update(stored)) ?? (await writing.claim()));
}

async function edgeAddresses(
  on: Pick<Queryable, 'query'>,
  hostname: string,
  edge: Claims['edge'],
): Promise<readonly string[]> {
  if (edge.kind === 'static') return [...new Set(edge.ips.map(canonicalIp))];
  if (edge.kind === 'ipv6') return [wildcardIp];
  const [allocation] = await on.query(sql.allocationOf, [comparableHostname(hostname)]);
  return [...(allocation ? [String(allocation['address'])] : []), ...(edge.andIpv6 ? [wildcardIp] : [])];
}

/** What the rules ask of others' applications. */
function factsOf(database: Database): ApplicationFactsSource {
  return {
    async hostnameZone(name) {
      const [row] = await database.query(sql.hostnameZone, [comparableHostname(name)]);
      return row && String(row['zone']);
    },
    async edgeIpsOfOthers(ips, zone) {
      const zones = await Promise.all(
        ips.map(async (ip) => (await database.query(sql.addressZone, [canonicalIp(ip)]))[0]?.['zone']),
      );
      return ips.filter((_, index) => zones[index] !== undefined && zones[index] !== zone);
    },
    async hasProtocol(account, protocol, except = '') {
      const [sole] = await database.query(sql.soleProtocol, [account, protocol, except]);
      if (sole) return true;
      // One that was written while the account's plan had no such limit counts as well.
      const parts = parseProtocol(protocol);
      if (parts === undefined) return false;
      return (await database.query(sql.portsOf, [account, ...protocolValues(parts), except])).length > 0;
    },
    async ipv4Hostnames(zone, except = '') {
      const rows = await database.query(sql.allocatedHostnames, [zone, except]);
      return rows.map((row) => String(row['hostname']));
    },
    async takenPorts({ transport, ports, hostname, edge }, except = '') {
      const addresses = await edgeAddresses(database, hostname, edge);
      return await takenOn(database, { addresses, transport, ports, except });
    },
  };
}

async function list(database: Database, zone: string, query: ApplicationQuery): ReturnType<ApplicationStore['list']> {
  const { page, perPage, order, direction, hostname, protocol, accepts } = query;
  const name = hostname === undefined ? null : comparableHostname(hostname);
  const filter: SqlValue[] = [zone, name, ...protocolValues(protocol)];
  const begin = (page - 1) * perPage;
  if (!accepts) {
    const [rows, [counted]] = await Promise.all([
      database.query(sql.pages[order][direction], [...filter, perPage, begin]),
      database.query(sql.count, filter),
    ]);
    return { applications: rows.map(storedOf), total: Number(counted?.['count']) };
  }
  const ids = (await database.query(sql.ids[order][direction], filter)).map((row) => String(row['id']));
  const accepted = ids.filter(accepts);
  const wanted = accepted.slice(begin, begin + perPage);
  const applications = await Promise.all(wanted.map((id) => get(database, zone, id)));
  return { applications: applications.flatMap((application) => application ?? []), total: accepted.length };
}

/** Opens the store and brings its tables up to date. Dates come with the writes. */
export async function openApplicationStore(database: Database): Promise<ApplicationStore> {
  await database.migrate(applicationMigrations);
  return {
    ...factsOf(database),
    create: (write) =>
      keepIfOk(database, async (transaction) => {
        const writing = new ApplicationWriting(transaction, write);
        return await written(transaction, write, (await writing.insert()) ?? (await writing.claim()));
      }),
    replace: (write, ifModifiedAt) => keepIfOk(database, (transaction) => replace(transaction, write, ifModifiedAt)),
    remove: (zone, id, ifModifiedAt) =>
      database.transaction(async (transaction) => {
        const stored = await get(transaction, zone, id);
        if (!stored || stored.modifiedAt !== (ifModifiedAt ?? stored.modifiedAt)) return false;
        await transaction.run(sql.unbind, [id]);
        await transaction.run(sql.remove, [id]);
        await releaseUnused(transaction, stored);
        return true;
      }),
    get: (zone, id) => get(database, zone, id),
    list: (zone, query) => list(database, zone, query),
    all: async () => (await database.query(sql.all)).map(storedOf),
    marks: async () =>
      (await database.query(sql.marks)).map((row) => ({
        id: String(row['id']),
        zone: String(row['zone']),
        createdAt: Number(row['created_at']),
        modifiedAt: Number(row['modified_at']),
      })),
    async revision() {
      const [row] = await database.query(sql.revision);
      return Number(row?.['revision']);
    },
  };
}
