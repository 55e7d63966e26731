// One write of a proxy application, within a transaction: its row, addresses and ports. A constraint that stops it tells the loss (D87).

import type { ConstraintKind, Queryable, Row, SqlValue, Transaction } from '../../base/database/database.ts';
import type { PortRange, StoredApplication, TransportProtocol } from '../application/application.ts';
import {
  canonicalIp,
  comparableHostname,
  ipv4Number,
  ipv4Range,
  ipv4Text,
  wildcardIp,
} from '../application/ip-address.ts';
import { within } from '../application/port-ranges.ts';
import { applicationStatements as sql } from './application-tables.ts';
import { type ApplicationWrite, maxApplications, type StoreConflict } from './store.ts';

/** The statements under way, and what they are asked of. */
type On = Pick<Queryable, 'query'>;

/** @returns the first row */
async function first(on: On, sql: string, params: readonly SqlValue[]): Promise<Row | undefined> {
  const [row] = await on.query(sql, params);
  return row;
}

/** Which constraint stopped a statement; undefined where none did. */
type Stopped = { readonly stoppedBy: ConstraintKind; readonly text: string } | undefined;

/** The spellings of the FTP type (D81). */
const ftpProtocols: ReadonlySet<string> = new Set(['ftp', 'ftp/21']);

/** One write under way. */
export class ApplicationWriting {
  readonly #transaction: Transaction;
  readonly #write: ApplicationWrite;
  readonly #hostname: string;

  constructor(transaction: Transaction, write: ApplicationWrite) {
    this.#transaction = transaction;
    this.#write = write;
    this.#hostname = comparableHostname(write.fields.dns.name);
  }

  async insert(): Promise<StoreConflict | undefined> {
    const { id, zone, account, now } = this.#write;
    const has = Number((await first(this.#transaction, sql.ofZone, [zone]))?.['count']);
    if (has >= maxApplications) return { kind: 'applications' };
    return await this.#row(sql.insert, [id, zone, account, ...this.#columns(), now, now]);
  }

  /** Writes the row of an existing application, which gives up what it had taken and no longer wants. */
  async update(stored: StoredApplication): Promise<StoreConflict | undefined> {
    const { id, zone, account, now } = this.#write;
    await this.#transaction.run(sql.unbind, [id]);
    const modifiedAt = Math.max(now, stored.modifiedAt + 1); // Two changes within a millisecond are told apart by it.
    const lost = await this.#row(sql.update, [account, ...this.#columns(), modifiedAt, id, zone]);
    if (!lost) await releaseUnused(this.#transaction, stored);
    return lost;
  }

  /** Takes addresses and ports for the row. */
  async claim(): Promise<StoreConflict | undefined> {
    const { edge } = this.#write.claims;
    if (edge.kind === 'ipv6') return await this.#bind([wildcardIp], this.#write.zone);
    if (edge.kind === 'static') {
      const ips = [...new Set(edge.ips.map(canonicalIp))];
      return (await this.#takeAddresses(ips)) ?? (await this.#bind(ips, this.#write.zone));
    }
    const allocated = await this.#allocate();
    if (typeof allocated !== 'string') return allocated;
    return await this.#bind(edge.andIpv6 ? [allocated, wildcardIp] : [allocated], this.#write.zone);
  }

  #columns(): SqlValue[] {
    const { fields, claims } = this.#write;
    const { transport, ports, edge, soleProtocol = null } = claims;
    const isFtp = ftpProtocols.has(fields.protocol) ? 1 : 0;
    return [this.#hostname, soleProtocol, transport, ports.first, ports.last, edge.kind, JSON.stringify(fields), isFtp];
  }

  /** Runs a statement that a constraint may stop. */
  async #attempt(text: string, params: readonly SqlValue[]): Promise<Stopped> {
    const end = await this.#transaction.attempt(text, params);
    return 'stoppedBy' in end ? end : undefined;
  }

  async #row(text: string, params: readonly SqlValue[]): Promise<StoreConflict | undefined> {
    await this.#transaction.run(sql.holdHostname, [this.#hostname, this.#write.zone]);
    const stopped = await this.#attempt(text, params);
    if (!stopped) return undefined;
    if (stopped.stoppedBy === 'foreign-key') return { kind: 'hostname' };
    if (stopped.stoppedBy === 'unique') return { kind: 'protocol' };
    throw new Error(`Application ${this.#write.id} cannot be written: ${stopped.text}`);
  }

  async #takeAddresses(ips: readonly string[]): Promise<StoreConflict | undefined> {
    const { zone } = this.#write;
    const others: string[] = [];
    for (const ip of ips) await this.#transaction.run(sql.holdAddress, [ip, zone, ipv4Number(ip) ?? null]);
    for (const ip of ips) {
      const taken = await first(this.#transaction, sql.addressZone, [ip]);
      if (taken?.['zone'] !== zone) others.push(ip);
    }
    return others.length > 0 ? { kind: 'edge-ips', ips: others } : undefined;
  }

  /** The hostname's address of the pool, a new one where it has none. */
  async #allocate(): Promise<string | StoreConflict> {
    const { zone, claims } = this.#write;
    const { ipv4Quota: quota } = claims;
    const has = await first(this.#transaction, sql.allocationOf, [this.#hostname]);
    if (has) return String(has['address']);
    // Slots above a quota that was made smaller count too.
    const count = Number((await first(this.#transaction, sql.allocations, [zone]))?.['count']);
    if (count >= quota) return { kind: 'quota' };
    const address = await this.#freeAddress();
    if (address === undefined) return { kind: 'pool' };
    const slot = Number((await first(this.#transaction, sql.freeSlot, [zone, count]))?.['slot']);
    const stopped = await this.#attempt(sql.allocate, [zone, slot, quota, this.#hostname, address]);
    return stopped ? { kind: 'quota' } : address;
  }

  /** Takes the next free address after the one given out last, so that an address given back rests before its next use. */
  async #freeAddress(): Promise<string | undefined> {
    const { zone, claims } = this.#write;
    const range = ipv4Range(claims.ipv4Pool);
    if (!range) return undefined;
    const gapFrom = async (number: number): Promise<number> =>
      Number((await first(this.#transaction, sql.firstGap, [number, number]))?.['gap']);
    const next = Number((await first(this.#transaction, sql.nextOfPool, [claims.ipv4Pool]))?.['next'] ?? range.first);
    const behind = await gapFrom(next >= range.first && next <= range.last ? next : range.first);
    const number = behind <= range.last ? behind : await gapFrom(range.first);
    if (number > range.last) return undefined;
    await this.#transaction.run(sql.moveNext, [claims.ipv4Pool, number + 1]);
    await this.#transaction.run(sql.holdAddress, [ipv4Text(number), zone, number]);
    return ipv4Text(number);
  }

  async #bind(addresses: readonly string[], zone: string): Promise<StoreConflict | undefined> {
    const { id, claims } = this.#write;
    const { transport, ports } = claims;
    for (const [position, address] of addresses.entries()) {
      const isIpv6 = address.includes(':') ? 1 : 0;
      const takenBy = address === wildcardIp ? null : zone;
      const values = [address, transport, ports.first, ports.last, id, position, takenBy, isIpv6];
      const stopped = await this.#attempt(sql.bind, values);
      if (!stopped) continue;
      const { stoppedBy } = stopped;
      if (stoppedBy !== 'trigger' && stoppedBy !== 'primary-key') return { kind: 'edge-ips', ips: [address] };
      const taken = await takenOn(this.#transaction, { addresses, transport, ports, except: id });
      return { kind: 'ports', ports: taken };
    }
    return undefined;
  }
}

/** Ports that applications other than `except` have on some addresses. */
export async function takenOn(
  on: On,
  where: {
    readonly addresses: readonly string[];
    readonly transport: TransportProtocol;
    readonly ports: PortRange;
    readonly except: string;
  },
): Promise<readonly PortRange[]> {
  const { transport, ports, except } = where;
  const overlap = [transport, ports.last, ports.first, except];
  const rows = await Promise.all(
    where.addresses.map(async (address) => {
      const own = await on.query(sql.overlaps, [...overlap, address]);
      if (!address.includes(':')) return own;
      const ofIpv6 = await on.query(sql.ipv6Overlaps, overlap);
      return [...own, ...ofIpv6.filter((row) => address === wildcardIp || row['address'] === wildcardIp)];
    }),
  );
  return within(
    ports,
    rows.flat().map((row) => ({ first: Number(row['first_port']), last: Number(row['last_port']) })),
  );
}

/** Gives back what an application had taken and no other one needs. Its bindings are gone, its row is gone or changed. */
export async function releaseUnused(transaction: Queryable, stored: StoredApplication): Promise<void> {
  const hostname = comparableHostname(stored.fields.dns.name);
  await transaction.run(sql.releaseAllocation, [hostname]);
  for (const address of stored.addresses) await transaction.run(sql.releaseAddress, [address]);
  await transaction.run(sql.releaseHostname, [hostname]);
}
