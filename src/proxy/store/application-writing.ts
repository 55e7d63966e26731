// One write of a proxy application, within a transaction: its row, addresses and ports. A constraint that stops it tells the loss (D87).

import type { Queryable, Row, SqlValue, Transaction } from '../../base/database/database.ts';
import type { ApplicationFields, PortRange, StoredApplication, TransportProtocol } from '../application/application.ts';
import { within } from '../application/port-ranges.ts';
import { canonicalIp, comparableHostname, ipv4Number, ipv4Range, ipv4Text, wildcardIp } from '../application/texts.ts';
import { applicationStatements as sql } from './application-tables.ts';

/** The most applications of a zone: each change of one has the listeners of all applications reckoned anew. */
export const maxApplications = 10_000;

/** What a write lost to (D87). */
export type StoreConflict =
  /** The pay-as-you-go account has an application of this protocol: 11034. */
  | { readonly kind: 'protocol' }
  /** Another zone holds the hostname: 16001. */
  | { readonly kind: 'hostname' }
  /** Another zone holds these edge IPs: 11033. */
  | { readonly kind: 'edge-ips'; readonly ips: readonly string[] }
  /** Another application has these ports on one of the addresses: 13002. */
  | { readonly kind: 'ports'; readonly ports: readonly PortRange[] }
  /** The zone's IPv4 quota is used up: 12005. */
  | { readonly kind: 'quota' }
  /** The zone has as many applications as it may. */
  | { readonly kind: 'applications' }
  /** The pool has no address left: 12005 as well, whatever the quota. */
  | { readonly kind: 'pool' };

/** What a write needs to know besides the fields; all of it follows from fields and configuration. */
export interface Claims {
  readonly transport: TransportProtocol;
  readonly ports: PortRange;
  /** Canonical protocol that a pay-as-you-go account may have once; absent for other plans. */
  readonly soleProtocol?: string;
  /** `static`: these IPs; `ipv4`: one of the pool, with `andIpv6` the wildcard address beside it; `ipv6`: the wildcard address. */
  readonly edge:
    | { readonly kind: 'static'; readonly ips: readonly string[] }
    | { readonly kind: 'ipv4'; readonly andIpv6?: true }
    | { readonly kind: 'ipv6' };
  /** The zone's. */
  readonly ipv4Quota: number;
  /** CIDR. */
  readonly ipv4Pool: string;
}

/** One write. */
export interface ApplicationWrite {
  /** 32 hex. */
  readonly id: string;
  readonly zone: string;
  readonly account: string;
  readonly fields: ApplicationFields;
  readonly claims: Claims;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** How a write ended. */
export type Written =
  | { readonly ok: true; readonly application: StoredApplication }
  | { readonly ok: false; readonly conflict: StoreConflict };

/** @returns the first row */
async function first(on: Pick<Queryable, 'query'>, sql: string, params: readonly SqlValue[]): Promise<Row | undefined> {
  const [row] = await on.query(sql, params);
  return row;
}

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
    if (edge.kind === 'ipv6') return await this.#bind([wildcardIp]);
    if (edge.kind === 'static') {
      const ips = [...new Set(edge.ips.map(canonicalIp))];
      return (await this.#takeAddresses(ips)) ?? (await this.#bind(ips));
    }
    const allocated = await this.#allocate();
    if (typeof allocated !== 'string') return allocated;
    return await this.#bind(edge.andIpv6 ? [allocated, wildcardIp] : [allocated]);
  }

  #columns(): SqlValue[] {
    const { fields, claims } = this.#write;
    const { transport, ports, edge, soleProtocol = null } = claims;
    const isFtp = ftpProtocols.has(fields.protocol) ? 1 : 0;
    return [this.#hostname, soleProtocol, transport, ports.first, ports.last, edge.kind, JSON.stringify(fields), isFtp];
  }

  /** Runs a statement that a constraint may stop. @returns which one did; undefined where none */
  async #attempt(text: string, params: readonly SqlValue[]) {
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

  async #bind(addresses: readonly string[]): Promise<StoreConflict | undefined> {
    const { id, zone, claims } = this.#write;
    const { transport, ports } = claims;
    for (const [position, address] of addresses.entries()) {
      const isIpv6 = address.includes(':') ? 1 : 0;
      const takenBy = address === wildcardIp ? null : zone;
      const values = [address, transport, ports.first, ports.last, id, position, takenBy, isIpv6];
      const stopped = await this.#attempt(sql.bind, values);
      if (!stopped) continue;
      const { stoppedBy } = stopped;
      if (stoppedBy !== 'trigger' && stoppedBy !== 'primary-key') return { kind: 'edge-ips', ips: [address] };
      const taken = await takenOn(this.#transaction, addresses, claims, id);
      return { kind: 'ports', ports: taken };
    }
    return undefined;
  }
}

/** Ports that applications other than `except` have on some addresses. */
export async function takenOn(
  on: Pick<Queryable, 'query'>,
  addresses: readonly string[],
  { transport, ports }: Pick<Claims, 'transport' | 'ports'>,
  except: string,
): Promise<readonly PortRange[]> {
  const overlap = [transport, ports.last, ports.first, except];
  const rows = await Promise.all(
    addresses.map(async (address) => {
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
