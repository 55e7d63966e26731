// One write of a proxy application: its row, then the addresses and ports it holds. It runs inside a transaction of the
// store; a constraint of the tables that stops a statement is what the write lost to (D87).

import type { PortRange, StoredApplication, Transport } from '../application/application.ts';
import {
  canonicalIp,
  comparableHostname,
  ipv4Number,
  ipv4Range,
  ipv4Text,
  wildcardIp,
} from '../application/edge-address.ts';
import { within } from '../application/port-ranges.ts';
import type { ApplicationStatements } from './sqlite-statements.ts';
import type { ApplicationWrite, StoreConflict } from './store.ts';

// Extended result codes (https://www.sqlite.org/rescode.html#extrc).
const constraints = { 275: 'check', 787: 'foreign-key', 1555: 'primary-key', 1811: 'trigger', 2067: 'unique' } as const;

/** Runs a statement. @returns which constraint stopped it, and its columns; undefined where none did */
function stoppedBy(run: () => unknown): { readonly kind: string; readonly text: string } | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    if (!(error instanceof Error) || !('errcode' in error)) throw error;
    const kind = Object.entries(constraints).find(([code]) => Number(code) === error.errcode)?.[1];
    if (kind === undefined) throw error;
    return { kind, text: error.message };
  }
}

function conflict(kind: 'protocol' | 'hostname' | 'quota' | 'pool'): StoreConflict {
  return { kind };
}

/** One write under way. */
export class ApplicationWriting {
  readonly #sql: ApplicationStatements;
  readonly #write: ApplicationWrite;
  readonly #hostname: string;

  constructor(sql: ApplicationStatements, write: ApplicationWrite) {
    this.#sql = sql;
    this.#write = write;
    this.#hostname = comparableHostname(write.fields.dns.name);
  }

  /** Writes the row of a new application. */
  insert(): StoreConflict | undefined {
    const { id, zone, account, now } = this.#write;
    return this.#row(() => this.#sql.insert.run(id, zone, account, ...this.#columns(), now, now));
  }

  /** Writes the row of one that is there; it lets go of what it held and no longer wants. */
  update(stored: StoredApplication): StoreConflict | undefined {
    const { id, zone, account, now } = this.#write;
    this.#sql.unbind.run(id);
    const modifiedAt = Math.max(now, stored.modifiedAt + 1); // Two changes within a millisecond are told apart by it.
    const lost = this.#row(() => this.#sql.update.run(account, ...this.#columns(), modifiedAt, id, zone));
    if (!lost) releaseUnused(this.#sql, stored);
    return lost;
  }

  /** Takes addresses and ports for the row. */
  claim(): StoreConflict | undefined {
    const { edge } = this.#write.claims;
    if (edge.kind === 'ipv6') return this.#bind([wildcardIp], this.#write.zone);
    if (edge.kind === 'static') {
      const ips = [...new Set(edge.ips.map(canonicalIp))];
      return this.#hold(ips) ?? this.#bind(ips, this.#write.zone);
    }
    const allocated = this.#allocate();
    if (typeof allocated !== 'string') return allocated;
    return this.#bind(edge.andIpv6 ? [allocated, wildcardIp] : [allocated], this.#write.zone);
  }

  #columns(): [string, string | null, string, number, number, string, string] {
    const { fields, claims } = this.#write;
    const { transport, ports, edge, soleProtocol = null } = claims;
    return [this.#hostname, soleProtocol, transport, ports.first, ports.last, edge.kind, JSON.stringify(fields)];
  }

  #row(run: () => unknown): StoreConflict | undefined {
    this.#sql.holdHostname.run(this.#hostname, this.#write.zone);
    const stopped = stoppedBy(run);
    if (!stopped) return undefined;
    if (stopped.kind === 'foreign-key') return conflict('hostname');
    if (stopped.kind === 'unique') return conflict('protocol');
    throw new Error(`Application ${this.#write.id} cannot be written: ${stopped.text}`);
  }

  #hold(ips: readonly string[]): StoreConflict | undefined {
    const { zone } = this.#write;
    for (const ip of ips) this.#sql.holdAddress.run(ip, zone, ipv4Number(ip) ?? null);
    const others = ips.filter((ip) => this.#sql.addressZone.get(ip)?.['zone'] !== zone);
    return others.length > 0 ? { kind: 'edge-ips', ips: others } : undefined;
  }

  /** The hostname's address of the pool, a new one where it has none. */
  #allocate(): string | StoreConflict {
    const { zone, claims } = this.#write;
    const { ipv4Quota: quota } = claims;
    const has = this.#sql.allocationOf.get(this.#hostname);
    if (has) return String(has['address']);
    // Slots above a quota that was made smaller count too.
    const count = Number(this.#sql.allocations.get(zone)?.['count']);
    if (count >= quota) return conflict('quota');
    const address = this.#freeAddress();
    if (address === undefined) return conflict('pool');
    const slot = Number(this.#sql.freeSlot.get(zone, count)?.['slot']);
    const stopped = stoppedBy(() => this.#sql.allocate.run(zone, slot, quota, this.#hostname, address));
    return stopped ? conflict('quota') : address;
  }

  /** Takes the next free address behind the one given out last, so that one given back rests before it is another's. */
  #freeAddress(): string | undefined {
    const { zone, claims } = this.#write;
    const range = ipv4Range(claims.ipv4Pool);
    if (!range) return undefined;
    const next = Number(this.#sql.nextOfPool.get(claims.ipv4Pool)?.['next'] ?? range.first);
    const from = next >= range.first && next <= range.last ? next : range.first;
    const behind = Number(this.#sql.firstGap.get(from, from)?.['gap']);
    const number = behind <= range.last ? behind : Number(this.#sql.firstGap.get(range.first, range.first)?.['gap']);
    if (number > range.last) return undefined;
    this.#sql.moveNext.run(claims.ipv4Pool, number + 1);
    this.#sql.holdAddress.run(ipv4Text(number), zone, number);
    return ipv4Text(number);
  }

  #bind(addresses: readonly string[], zone: string): StoreConflict | undefined {
    const { id, claims } = this.#write;
    const { transport, ports } = claims;
    for (const [position, address] of addresses.entries()) {
      const isIpv6 = address.includes(':') ? 1 : 0;
      const heldBy = address === wildcardIp ? null : zone;
      const stopped = stoppedBy(() =>
        this.#sql.bind.run(address, transport, ports.first, ports.last, id, position, heldBy, isIpv6),
      );
      if (!stopped) continue;
      if (stopped.kind !== 'trigger' && stopped.kind !== 'primary-key') return { kind: 'edge-ips', ips: [address] };
      return { kind: 'ports', ports: takenOn(this.#sql, { addresses, transport, ports, except: id }) };
    }
    return undefined;
  }
}

/** Ports that applications other than `except` have on some addresses. */
export function takenOn(
  sql: ApplicationStatements,
  where: {
    readonly addresses: readonly string[];
    readonly transport: Transport;
    readonly ports: PortRange;
    readonly except: string;
  },
): readonly PortRange[] {
  const { transport, ports, except } = where;
  const rows = where.addresses.flatMap((address) => {
    const own = sql.overlaps.all(address, transport, ports.last, ports.first, except);
    if (!address.includes(':')) return own;
    const ofIpv6 = sql.ipv6Overlaps.all(transport, ports.last, ports.first, except);
    return [...own, ...ofIpv6.filter((row) => address === wildcardIp || row['address'] === wildcardIp)];
  });
  return within(
    ports,
    rows.map((row) => ({ first: Number(row['first_port']), last: Number(row['last_port']) })),
  );
}

/** Gives back what an application held and no other one needs. Its bindings are gone, its row is gone or changed. */
export function releaseUnused(sql: ApplicationStatements, stored: StoredApplication): void {
  const hostname = comparableHostname(stored.fields.dns.name);
  sql.releaseAllocation.run(hostname);
  for (const address of stored.addresses) sql.releaseAddress.run(address);
  sql.releaseHostname.run(hostname);
}
