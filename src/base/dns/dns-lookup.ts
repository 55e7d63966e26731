// Finds records in DNS, with whether they were validated and for as long as they may be kept: what node:dns does not tell
// of most types. Each answer is kept in memory for its time to live, within bounds.

import { getServers } from 'node:dns';
import type { MonotonicClock } from '../clock.ts';
import { errorMessage } from '../errors.ts';
import { askServer, type DnsServerAddress, type DnsType } from './dns-exchange.ts';
import { type DnsRecordOf, isHostName, longestChain, normalName, readAnswer } from './dns-records.ts';

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

/** Answers of each type in memory. */
const mostKept = 10_000;
/** Questions under way at the same time; each has a socket of its own. */
const mostAtOnce = 100;
/** Servers that are asked. */
const mostServers = 3;
/** How long an answer is kept, in seconds: at least, at most, and where it does not say. */
const keptSeconds = { least: 5, most: 86_400, failure: 5, unsaid: 60 } as const;
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

interface Kept<T extends DnsType> {
  readonly finding: Promise<DnsFinding<T>>;
  /** Milliseconds of the monotonic clock; endless while it is under way. */
  until: number;
}

/** Makes a look-up. */
export function createDnsLookup(parts: DnsLookupParts): DnsLookup {
  return new CachedLookup(parts);
}

class CachedLookup implements DnsLookup {
  readonly #parts: DnsLookupParts;
  readonly #kept: { readonly [T in DnsType]: Map<string, Kept<T>> } = {
    A: new Map(),
    AAAA: new Map(),
    MX: new Map(),
    TLSA: new Map(),
    TXT: new Map(),
  };
  readonly #waiting: (() => void)[] = [];
  #underWay = 0;

  constructor(parts: DnsLookupParts) {
    this.#parts = parts;
  }

  async find<T extends DnsType>(name: string, type: T): Promise<DnsFinding<T>> {
    const asked = normalName(name);
    // RFC 1035 §2.3.4: a name that is too long cannot exist.
    if (!isHostName(asked)) return { kind: 'missing', isSecure: false };
    const table: Map<string, Kept<T>> = this.#kept[type];
    const now = this.#parts.clock.monotonic();
    const known = table.get(asked);
    if (known && now < known.until) return await known.finding;
    const asking = this.#ask(asked, type);
    const kept: Kept<T> = { finding: asking.then(({ finding }) => finding), until: Number.POSITIVE_INFINITY };
    table.delete(asked);
    table.set(asked, kept);
    const [oldest] = table.size > mostKept ? table.keys() : [];
    if (oldest !== undefined) table.delete(oldest);
    const { finding, seconds } = await asking;
    kept.until = this.#parts.clock.monotonic() + seconds * 1000;
    return finding;
  }

  async #ask<T extends DnsType>(name: string, type: T): Promise<{ finding: DnsFinding<T>; seconds: number }> {
    if (this.#underWay >= mostAtOnce) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#underWay += 1;
    try {
      return await this.#follow(name, type);
    } finally {
      const next = this.#waiting.shift();
      // The place passes directly to the next question.
      if (next) next();
      else this.#underWay -= 1;
    }
  }

  /** Asks, and asks anew where a server answers with an alias alone. */
  async #follow<T extends DnsType>(asked: string, type: T): Promise<{ finding: DnsFinding<T>; seconds: number }> {
    const failed = (why: string) => ({
      finding: { kind: 'failed', why: `${type} of ${asked}: ${why}` } as const,
      seconds: keptSeconds.failure,
    });
    let name = asked;
    let isSecure = this.#parts.validates === true;
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
      if (((answer.flags ?? 0) & 15) === nameError) return { finding: { kind: 'missing', isSecure }, seconds };
      if (read.name === name) return { finding: { kind: 'none', isSecure }, seconds };
      if (!isHostName(read.name)) return { finding: { kind: 'missing', isSecure }, seconds };
      name = read.name;
    }
    return failed(`more than ${longestChain} aliases in a row`);
  }

  /** @returns the first answer, or why there is none */
  async #askServers(name: string, type: DnsType) {
    const { servers = getServers(), tryMs = 3000 } = this.#parts;
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
