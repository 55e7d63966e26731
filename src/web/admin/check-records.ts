// Asks DNS what it answers now for the records of sending domains, within a bound of time (D52).

import { Resolver } from 'node:dns/promises';
import { getDomain } from 'tldts';
import { dnsFailure } from '../../base/net/dns-failure.ts';
import type { DnsRecord } from './domain-records.ts';
import { judgeRecord, type RecordCheck } from './judge-record.ts';

/** The resolver that is asked. A `Resolver` of node:dns is one. */
type DnsResolver = Pick<Resolver, 'resolveTxt' | 'resolveMx' | 'cancel'>;

/** How the check asks DNS. */
export interface DnsSettings {
  /** A resolver for one check; it is cancelled when the time is over. */
  readonly newResolver: () => DnsResolver;
  /** How long a whole check may take, in milliseconds. */
  readonly withinMs: number;
}

/**
 * Asks the machine's own name servers, each query at most 2 s and twice, a check at most 8 s.
 * @param servers others to ask, as `address` or `address:port`
 * @throws TypeError where one of them is no address
 */
export function systemDns(servers: readonly string[] = []): DnsSettings {
  const newResolver = (): DnsResolver => {
    const resolver = new Resolver({ timeout: 2000, tries: 2 });
    if (servers.length > 0) resolver.setServers(servers);
    return resolver;
  };
  return { newResolver, withinMs: 8000 };
}

/** How many queries are under way at the same time. */
const parallel = 16;

type Answers = { readonly ok: true; readonly values: string[] } | { readonly ok: false; readonly detail: string };

async function ask(resolver: DnsResolver, type: DnsRecord['type'], name: string): Promise<Answers> {
  try {
    if (type === 'TXT') {
      return { ok: true, values: (await resolver.resolveTxt(name)).map((strings) => strings.join('')) };
    }
    const hosts = (await resolver.resolveMx(name)).toSorted((left, right) => left.priority - right.priority);
    return { ok: true, values: hosts.map(({ priority, exchange }) => `${priority} ${exchange}`) };
  } catch (error) {
    const detail = dnsFailure(error);
    return detail === undefined ? { ok: true, values: [] } : { ok: false, detail };
  }
}

/** Makes a function that runs work, at most `parallel` pieces at the same time. */
function queue(): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running >= parallel) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      // The place passes directly to the next piece of work.
      if (next) next();
      else running -= 1;
    }
  };
}

type Look = (type: DnsRecord['type'], name: string) => Promise<Answers>;

/** Makes a look-up that asks DNS each question only once. */
function lookUp(resolver: DnsResolver, isOver: () => boolean): Look {
  const inOrder = queue();
  const asked = new Map<string, Promise<Answers>>();
  const late: Answers = { ok: false, detail: 'the name server did not answer in time' };
  return (type, name) => {
    const key = `${type} ${name}`;
    const found = asked.get(key) ?? inOrder(async () => (isOver() ? late : await ask(resolver, type, name)));
    asked.set(key, found);
    return found;
  };
}

async function check(record: DnsRecord, look: Look): Promise<RecordCheck> {
  const answers = await look(record.type, record.name);
  if (!answers.ok) return { state: 'error', found: [], detail: answers.detail };
  const verdict = judgeRecord(record, answers.values);
  const parent =
    record.purpose === 'dmarc' && verdict.state === 'missing' ? getDomain(record.name.slice('_dmarc.'.length)) : null;
  const above = `_dmarc.${parent}`;
  if (parent === null || above === record.name) return verdict;
  // RFC 7489 §6.6.3: a name without a DMARC record has that of its organizational domain.
  const inherited = await look('TXT', above);
  if (!inherited.ok) return { state: 'error', found: [], detail: inherited.detail };
  const from = judgeRecord(record, inherited.values);
  if (from.state === 'missing') return verdict;
  return { ...from, detail: [`it stands at ${above}`, ...(from.detail === undefined ? [] : [from.detail])].join('; ') };
}

/** Checks records, in their order. It takes at most `withinMs`; records that are not answered by then are an `error`. */
export async function checkRecords(records: readonly DnsRecord[], dns: DnsSettings): Promise<readonly RecordCheck[]> {
  const resolver = dns.newResolver();
  let over = false;
  const timer = setTimeout(() => {
    over = true;
    resolver.cancel();
  }, dns.withinMs);
  const look = lookUp(resolver, () => over);
  try {
    return await Promise.all(records.map((record) => check(record, look)));
  } finally {
    clearTimeout(timer);
  }
}
