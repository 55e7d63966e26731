// Finds records in DNS, validated or not, which node:dns does not tell of most types, and keeps them for their time, within bounds.

import { getServers } from 'node:dns';
import type { MonotonicClock } from '../clock.ts';
import { errorMessage } from '../errors.ts';
import { FairSlots } from '../fifo.ts';
import { Part } from '../part.ts';
import type { DnsServerAddress, DnsType } from './dns-exchange.ts';
import { type DnsRecordOf, isHostName, longestChain, normalName, octetsOf, readAnswer } from './dns-records.ts';

/** Names that are kept, and octets of their records. */
const mostNames = 10_000;
const mostOctets = 8_388_608;

/** What is known of a name, or is being asked. */
interface KeptFinding<F> {
  readonly finding: Promise<F>;
  /** Milliseconds of the monotonic clock; endless while it is under way. */
  until: number;
  /** How often in a row it could not be found out. */
  failures: number;
}

/** What is known of records by name, bounded in names and octets: for a new one the one asked for longest ago goes. */
export class KeptFindings<F> {
  readonly #names = new Map<string, { readonly kept: KeptFinding<F>; octets: number }>();
  #octets = 0;

  get size(): number {
    return this.#names.size;
  }

  /** The octets of all records, about. */
  get octets(): number {
    return this.#octets;
  }

  /** @param name in its normal form */
  get(name: string): KeptFinding<F> | undefined {
    return this.#names.get(name)?.kept;
  }

  /** Keeps a finding that is under way, in place of an older one. */
  begin(name: string, kept: KeptFinding<F>): void {
    this.#forget(name);
    this.#names.set(name, { kept, octets: 0 });
    if (this.#names.size > mostNames) this.#forgetOldest();
  }

  /** Notes how many octets the records take that were found, unless the name was forgotten or asked for anew meanwhile. */
  end(name: string, kept: KeptFinding<F>, octets: number): void {
    const weighed = this.#names.get(name);
    if (weighed?.kept !== kept) return;
    weighed.octets = octets;
    this.#octets += octets;
    while (this.#octets > mostOctets) this.#forgetOldest();
  }

  #forget(name: string): void {
    this.#octets -= this.#names.get(name)?.octets ?? 0;
    this.#names.delete(name);
  }

  #forgetOldest(): void {
    const [oldest] = this.#names.keys();
    if (oldest !== undefined) this.#forget(oldest);
  }
}

/** What a look-up came to. */
export type DnsFinding<T extends DnsType> =
  | {
      readonly kind: 'found';
      /** Not empty. */
      readonly records: readonly DnsRecordOf[T][];
      /** The name at the end of the aliases; the name that was asked for where there is none. */
      readonly name: string;
      /** A resolver that validates has said that it did (DNSSEC, RFC 4035). */
      readonly isSecure: boolean;
    }
  /** `none`: the name exists without such a record. `missing`: there is no such name (RFC 8020, RFC 2308). */
  | { readonly kind: 'none' | 'missing'; readonly isSecure: boolean }
  /** It could not be found out; `why` is a clause for people. */
  | { readonly kind: 'failed'; readonly why: string };

/** Finds records. */
export interface DnsLookup {
  /** @param name an A-label in any case. Never rejects */
  find<T extends DnsType>(name: string, type: T): Promise<DnsFinding<T>>;
  /** The same look-up for one who shares it, such as an account. Who asks much of silent servers keeps mostly itself waiting. */
  askedBy(asker: string): DnsLookup;
}

/** How DNS is asked. */
export interface DnsLookupParts {
  /** `address`, `address:port` or `[address]:port`; absent: the machine's own name servers. */
  readonly servers?: readonly string[];
  /** The servers validate DNSSEC, and nobody stands between them and us: their AD bit is believed. */
  readonly validates?: boolean;
  readonly clock: MonotonicClock;
  /** For one question to one server, in milliseconds; each server is asked twice. Absent: 3,000. */
  readonly tryMs?: number;
}

/** Questions under way at the same time; each has a socket of its own. */
const mostAtOnce = 100;
const mostServers = 3;
/** How long an answer is kept, in seconds: at least, at most, after the first of some failures, at most then, where it does not say. */
const keptSeconds = { least: 5, most: 86_400, failure: 5, failures: 60, unsaid: 60 } as const;
/** What a name server answers, other than that there is no such name. */
const refusals: Readonly<Record<number, string>> = {
  1: 'the name server took the query for malformed',
  2: 'the name server answered SERVFAIL',
  4: 'the name server does not answer such queries',
  5: 'the name server refused the query',
};
const nameError = 3;

function serverOf(text: string): DnsServerAddress {
  const [, bracketed, plain, port = '53'] = /^(?:\[([0-9a-f:.%]+)\]|([^:]+))(?::(\d+))?$/i.exec(text) ?? [];
  return { address: bracketed ?? plain ?? text, port: Number(port) };
}

/** What is known of the records of one type, by name; and who waits to ask, by asker and name. */
interface Table<T extends DnsType> {
  readonly kept: KeptFindings<DnsFinding<T>>;
  readonly waiting: Map<string, Promise<DnsFinding<T>>>;
}

function newTable<T extends DnsType>(): Table<T> {
  return { kept: new KeptFindings(), waiting: new Map() };
}

/** Makes a look-up. */
export function createDnsLookup(parts: DnsLookupParts): DnsLookup {
  return new CachedLookup(parts);
}

class CachedLookup extends Part<DnsLookupParts> implements DnsLookup {
  readonly #tables: { readonly [T in DnsType]: Table<T> } = {
    A: newTable(),
    AAAA: newTable(),
    MX: newTable(),
    TLSA: newTable(),
    TXT: newTable(),
  };
  readonly #places = new FairSlots(mostAtOnce);

  askedBy(asker: string): DnsLookup {
    return { find: (name, type) => this.#find(name, type, asker), askedBy: (other) => this.askedBy(other) };
  }

  async find<T extends DnsType>(name: string, type: T): Promise<DnsFinding<T>> {
    return await this.#find(name, type, '');
  }

  async #find<T extends DnsType>(name: string, type: T, asker: string): Promise<DnsFinding<T>> {
    const asked = normalName(name);
    // RFC 1035 §2.3.4: a name that is too long cannot exist.
    if (!isHostName(asked)) return { kind: 'missing', isSecure: false };
    const table: Table<T> = this.#tables[type];
    const known = this.#known(table, asked);
    if (known) return await known;
    // One asker waits for its turn once for each name; where another's turn comes first, both have that answer.
    const key = `${asker} ${asked}`;
    const waiting = table.waiting.get(key) ?? this.#inOrder(table, { asked, type, asker });
    table.waiting.set(key, waiting);
    try {
      return await waiting;
    } finally {
      if (table.waiting.get(key) === waiting) table.waiting.delete(key);
    }
  }

  /** What is known of a name still, or is being asked. */
  #known<T extends DnsType>({ kept }: Table<T>, asked: string): Promise<DnsFinding<T>> | undefined {
    const known = kept.get(asked);
    return known && this.parts.clock.monotonic() < known.until ? known.finding : undefined;
  }

  async #inOrder<T extends DnsType>(
    table: Table<T>,
    { asked, type, asker }: { readonly asked: string; readonly type: T; readonly asker: string },
  ): Promise<DnsFinding<T>> {
    const leave = await this.#places.take(asker);
    const known = this.#known(table, asked);
    if (known) {
      leave();
      return await known;
    }
    const failures = table.kept.get(asked)?.failures ?? 0;
    const asking = this.#follow(asked, type).finally(leave);
    const kept = { finding: asking.then(({ finding }) => finding), until: Number.POSITIVE_INFINITY, failures };
    table.kept.begin(asked, kept);
    const { finding, seconds } = await asking;
    table.kept.end(asked, kept, finding.kind === 'found' ? octetsOf(finding.records) : 0);
    const hasFailed = finding.kind === 'failed';
    // A name that can never be found out is asked for less and less often (RFC 2308 §7: not longer than five minutes).
    const wait = hasFailed ? Math.min(keptSeconds.failure * 2 ** failures, keptSeconds.failures) : seconds;
    kept.failures = hasFailed ? failures + 1 : 0;
    kept.until = this.parts.clock.monotonic() + wait * 1000;
    return finding;
  }

  /** Asks, and asks anew where a server answers with an alias alone. */
  async #follow<T extends DnsType>(asked: string, type: T): Promise<{ finding: DnsFinding<T>; seconds: number }> {
    const failed = (why: string) => ({
      finding: { kind: 'failed', why: `${type} of ${asked}: ${why}` } as const,
      seconds: keptSeconds.failure,
    });
    let name = asked;
    let isSecure = this.parts.validates === true;
    let ttl: number = keptSeconds.most;
    for (let steps = 0; steps < longestChain; steps += 1) {
      const answer = await this.#askServers(name, type);
      if (typeof answer === 'string') return failed(answer);
      const read = readAnswer(answer, name, type);
      if (!read) break;
      isSecure &&= answer.flag_ad;
      ttl = Math.min(ttl, read.ttl ?? keptSeconds.unsaid);
      const seconds = Math.max(keptSeconds.least, ttl);
      if (read.records.length > 0) {
        return { finding: { kind: 'found', records: read.records, name: read.name, isSecure }, seconds };
      }
      // That is a fault of the zone, and not the absence of a record: what is meant for the host is not sent elsewhere.
      if (read.isSpoilt) return failed('its records name no host');
      if (((answer.flags ?? 0) & 15) === nameError) return { finding: { kind: 'missing', isSecure }, seconds };
      if (read.name === name) return { finding: { kind: 'none', isSecure }, seconds };
      if (!isHostName(read.name)) return failed('it is an alias of a name that no host has');
      name = read.name;
    }
    return failed(`more than ${longestChain} aliases in a row`);
  }

  /** @returns the first answer, or why there is none */
  async #askServers(name: string, type: DnsType) {
    const { askServer } = await import('./dns-exchange.ts');
    const { servers = getServers(), tryMs = 3000 } = this.parts;
    let why = 'no name server is configured';
    const all = servers.slice(0, mostServers).map(serverOf);
    for (const server of [...all, ...all]) {
      try {
        const answer = await askServer({ server, name, type, withinMs: tryMs });
        const code = (answer.flags ?? 0) & 15;
        if (code === 0 || code === nameError) return answer;
        why = refusals[code] ?? `the name server answered with code ${code}`;
      } catch (error) {
        why = errorMessage(error);
      }
    }
    return why;
  }
}
