// Keeps proxy applications (D87, D89, D90). A write is one transaction; the tables' constraints tell what it has lost to.

import type { Database, Queryable, Row, SqlValue, Transaction } from '../../base/database/database.ts';
import { rowReader } from '../../base/database/row-reader.ts';
import type { ApplicationFields, PortRange, StoredApplication } from '../application/application.ts';
import { canonicalIp, comparableHostname, type Protocol, parseProtocol, wildcardIp } from '../application/texts.ts';
import { type ApplicationQuery, applicationMigrations, applicationStatements as sql } from './application-tables.ts';
import {
  type ApplicationWrite,
  ApplicationWriting,
  type Claims,
  releaseUnused,
  type StoreConflict,
  takenOn,
  type Written,
} from './application-writing.ts';

/** Names one state of an application: it changes with every change of the application. */
export type ApplicationMark = Pick<StoredApplication, 'id' | 'zone' | 'createdAt' | 'modifiedAt'>;

const mark = { id: String, zone: String, createdAt: Number, modifiedAt: Number };
const markOf: (row: Row) => ApplicationMark = rowReader(mark);
const storedOf: (row: Row) => StoredApplication = rowReader({
  ...mark,
  account: String,
  fields: (column): ApplicationFields => JSON.parse(String(column)),
  // An application without an address has NULL here.
  addresses: (column) => (typeof column === 'string' ? column.split(' ') : []),
});

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

/** What the facts ask the store about others (D86). */
export type ApplicationFactsSource = Pick<
  ApplicationStore,
  'hostnameZone' | 'edgeIpsOfOthers' | 'hasProtocol' | 'ipv4Hostnames' | 'takenPorts'
>;

/** The applications of all zones. Only `openApplicationStore` makes one. Dates come with the writes. */
export class ApplicationStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  create(write: ApplicationWrite): Promise<Written> {
    return keepIfOk(this.#database, async (transaction) => {
      const writing = new ApplicationWriting(transaction, write);
      return await written(transaction, write, (await writing.insert()) ?? (await writing.claim()));
    });
  }

  /** Puts new fields in place. @returns `changed` where `ifModifiedAt` is not the stored one; undefined where there is none */
  replace(
    write: ApplicationWrite,
    ifModifiedAt?: number,
  ): Promise<Written | { readonly ok: false; readonly changed: true } | undefined> {
    return keepIfOk(this.#database, async (transaction) => {
      const stored = await get(transaction, write.zone, write.id);
      if (!stored) return undefined;
      if (stored.modifiedAt !== (ifModifiedAt ?? stored.modifiedAt)) return { ok: false, changed: true } as const;
      const writing = new ApplicationWriting(transaction, write);
      return await written(transaction, write, (await writing.update(stored)) ?? (await writing.claim()));
    });
  }

  /** Removes one and frees what it held. @returns false where there is none, or `ifModifiedAt` is not the stored one */
  remove(zone: string, id: string, ifModifiedAt?: number): Promise<boolean> {
    return this.#database.transaction(async (transaction) => {
      const stored = await get(transaction, zone, id);
      if (!stored || stored.modifiedAt !== (ifModifiedAt ?? stored.modifiedAt)) return false;
      await transaction.run(sql.unbind, [id]);
      await transaction.run(sql.remove, [id]);
      await releaseUnused(transaction, stored);
      return true;
    });
  }

  /** One application; undefined where the zone has none of this id. */
  get(zone: string, id: string): Promise<StoredApplication | undefined> {
    return get(this.#database, zone, id);
  }

  /** A page of a zone's applications, and how many there are in all. */
  async list(
    zone: string,
    query: ApplicationQuery,
  ): Promise<{ readonly applications: readonly StoredApplication[]; readonly total: number }> {
    const { page, perPage, hostname, protocol, accepts } = query;
    const name = hostname === undefined ? null : comparableHostname(hostname);
    const filter: SqlValue[] = [zone, name, ...protocolValues(protocol)];
    const begin = (page - 1) * perPage;
    if (!accepts) {
      const [rows, [counted]] = await Promise.all([
        this.#database.query(sql.page(query), [...filter, perPage, begin]),
        this.#database.query(sql.count, filter),
      ]);
      return { applications: rows.map(storedOf), total: Number(counted?.['count']) };
    }
    const ids = (await this.#database.query(sql.ids(query), filter)).map((row) => String(row['id']));
    const accepted = ids.filter(accepts);
    const wanted = accepted.slice(begin, begin + perPage);
    const applications = await Promise.all(wanted.map((id) => this.get(zone, id)));
    return { applications: applications.flatMap((application) => application ?? []), total: accepted.length };
  }

  async all(): Promise<readonly StoredApplication[]> {
    return (await this.#database.query(sql.all)).map(storedOf);
  }

  /** The state that each is in, the oldest first: much cheaper than all(). */
  async marks(): Promise<readonly ApplicationMark[]> {
    return (await this.#database.query(sql.marks)).map(markOf);
  }

  /** Grows with every change of any application, whichever process made it (D94). */
  async revision(): Promise<number> {
    const [row] = await this.#database.query(sql.revision);
    return Number(row?.['revision']);
  }

  /** Id of the zone that holds a hostname by an application (16001). `name` is an A-label in lower case. */
  async hostnameZone(name: string): Promise<string | undefined> {
    const [row] = await this.#database.query(sql.hostnameZone, [comparableHostname(name)]);
    return row && String(row['zone']);
  }

  /** Of these IPs, those that another zone's applications use (11033). Spelling does not matter. */
  async edgeIpsOfOthers(ips: readonly string[], zone: string): Promise<readonly string[]> {
    const zones = await Promise.all(
      ips.map(async (ip) => (await this.#database.query(sql.addressZone, [canonicalIp(ip)]))[0]?.['zone']),
    );
    return ips.filter((_, index) => zones[index] !== undefined && zones[index] !== zone);
  }

  /** True if the account has an application of the canonical protocol, other than `except` (11034). */
  async hasProtocol(account: string, protocol: string, except = ''): Promise<boolean> {
    const parts = parseProtocol(protocol);
    if (parts === undefined) return false;
    return (await this.#database.query(sql.portsOf, [account, ...protocolValues(parts), except])).length > 0;
  }

  /** Hostnames of a zone that hold an IPv4 of the pool, applications other than `except` counting (12005). */
  async ipv4Hostnames(zone: string, except = ''): Promise<readonly string[]> {
    const rows = await this.#database.query(sql.allocatedHostnames, [zone, except]);
    return rows.map((row) => String(row['hostname']));
  }

  /** Ports of a range that an application of any zone, other than `except`, has on one of these addresses or the hostname's (13002). */
  async takenPorts(
    where: Pick<Claims, 'transport' | 'ports' | 'edge'> & { readonly hostname: string },
    except = '',
  ): Promise<readonly PortRange[]> {
    return await takenOn(this.#database, await this.#edgeAddresses(where.hostname, where.edge), where, except);
  }

  async #edgeAddresses(hostname: string, edge: Claims['edge']): Promise<readonly string[]> {
    if (edge.kind === 'static') return [...new Set(edge.ips.map(canonicalIp))];
    if (edge.kind === 'ipv6') return [wildcardIp];
    const [allocation] = await this.#database.query(sql.allocationOf, [comparableHostname(hostname)]);
    return [...(allocation ? [String(allocation['address'])] : []), ...(edge.andIpv6 ? [wildcardIp] : [])];
  }
}

/** Opens the store and brings its tables up to date. */
export async function openApplicationStore(database: Database): Promise<ApplicationStore> {
  await database.migrate(applicationMigrations);
  return new ApplicationStore(database);
}
