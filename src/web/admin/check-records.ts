// Asks DNS what it answers now for the records of sending domains, within a bound of time (D52), and judges whether that serves their
// purpose: DKIM (RFC 6376 §3.6.1), SPF (RFC 7208 §4.5), DMARC (RFC 7489 §6.3), MX. A record that differs only in its form is accepted.

import { Resolver } from 'node:dns/promises';
import { getDomain } from 'tldts';
import { FairSlots } from '../../base/fifo.ts';
import { dnsFailure } from '../../base/net/dns-failure.ts';
import type { DnsRecord, RecordCheck } from './domain-schemas.ts';

type Judge = (wanted: DnsRecord, answers: string[]) => RecordCheck;

const missing: RecordCheck = { state: 'missing', found: [] };

function different(found: string[], detail: string): RecordCheck {
  return { state: 'different', found, detail };
}

/** RFC 6376 §3.2: `name=value` between semicolons; white space does not count in what is looked at here. */
function tagsOf(text: string): ReadonlyMap<string, string> {
  return new Map(
    text.split(';').map((tag): [string, string] => {
      const equals = tag.indexOf('=');
      return equals < 0 ? [tag.trim(), ''] : [tag.slice(0, equals).trim(), tag.slice(equals + 1).replace(/\s+/g, '')];
    }),
  );
}

const judgeDkim: Judge = (wanted, answers) => {
  const [first] = answers;
  if (first === undefined) return missing;
  // RFC 6376 §3.6.2.2: with several records the result is undefined.
  if (answers.length > 1) return different(answers, 'there are several TXT records, want one');
  const tags = tagsOf(first);
  const own = tagsOf(wanted.value);
  if ((tags.get('v') ?? 'DKIM1') !== 'DKIM1') return different(answers, 'it is no DKIM key record');
  if (tags.get('p') === '') return different(answers, 'the key is revoked: p= is empty');
  if ((tags.get('k') ?? 'rsa') !== own.get('k')) return different(answers, `k= is not ${own.get('k')}`);
  if (tags.get('p') !== own.get('p')) return different(answers, 'p= is another key');
  return { state: 'ok', found: answers };
};

const judgeSpf: Judge = (wanted, answers) => {
  const found = answers.filter((text) => /^v=spf1(?: |$)/i.test(text));
  const [first] = found;
  if (first === undefined) return missing;
  // RFC 7208 §4.5: more than one is a permanent error.
  if (found.length > 1) return different(found, 'there are several SPF records, want one');
  const terms = new Set(
    first
      .toLowerCase()
      .split(/ +/)
      .map((term) => term.replace(/^\+/, '')),
  );
  const needed = wanted.value.split(' ').slice(1, -1);
  const lacking = needed.filter((term) => !terms.has(term) && !terms.has(term.replace('include:', 'redirect=')));
  return lacking.length === 0
    ? { state: 'ok', found }
    : different(found, `it does not name ${lacking.join(' ')}; right only if it names the hosts in another way`);
};

const judgeMx: Judge = (wanted, answers) => {
  if (answers.length === 0) return missing;
  const host = wanted.value.slice(wanted.value.indexOf(' ') + 1);
  const isThere = answers.some((answer) => answer.slice(answer.indexOf(' ') + 1).toLowerCase() === host);
  return isThere ? { state: 'ok', found: answers } : different(answers, `${host} is not among the hosts`);
};

const judgeDmarc: Judge = (_wanted, answers) => {
  const found = answers.filter((text) => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text));
  const [first] = found;
  if (first === undefined) return missing;
  // RFC 7489 §6.6.3: with several records DMARC is not applied.
  if (found.length > 1) return different(found, 'there are several DMARC records, want one');
  const tags = tagsOf(first);
  if (!/^(?:none|quarantine|reject)$/i.test(tags.get('p') ?? '')) {
    return different(found, 'p= is not none, quarantine or reject');
  }
  const strict = tags.get('adkim')?.toLowerCase() === 's';
  const detail = 'adkim=s: mail from a name below the domain fails DMARC';
  return { state: 'ok', found, ...(strict ? { detail } : {}) };
};

const judges = {
  dkim: judgeDkim,
  spf: judgeSpf,
  mx: judgeMx,
  dmarc: judgeDmarc,
} as const satisfies Record<DnsRecord['purpose'], Judge>;

type DnsResolver = Pick<Resolver, 'resolveTxt' | 'resolveMx' | 'cancel'>;

/** How the check asks DNS. */
export interface DnsSettings {
  /** A resolver for one check; it is cancelled when the time is over. */
  readonly newResolver: () => DnsResolver;
  readonly withinMs: number;
}

/** Asks name servers, each query at most 2 s and twice, a check 8 s. @param servers absent: the machine's @throws TypeError for no address */
export function systemDns(servers: readonly string[] = []): DnsSettings {
  const newResolver = (): DnsResolver => {
    const resolver = new Resolver({ timeout: 2000, tries: 2 });
    if (servers.length > 0) resolver.setServers(servers);
    return resolver;
  };
  return { newResolver, withinMs: 8000 };
}

/** How many queries are under way at the same time; one owner may have all of them. */
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

type Look = (type: DnsRecord['type'], name: string) => Promise<Answers>;

/** Makes a look-up that asks DNS each question only once. */
function lookUp(resolver: DnsResolver, isOver: () => boolean): Look {
  const slots = new FairSlots(parallel, parallel);
  const asked = new Map<string, Promise<Answers>>();
  const late: Answers = { ok: false, detail: 'the name server did not answer in time' };
  const inTurn: Look = async (type, name) => {
    const leave = await slots.take('');
    try {
      return isOver() ? late : await ask(resolver, type, name);
    } finally {
      leave();
    }
  };
  return (type, name) => {
    const key = `${type} ${name}`;
    const found = asked.get(key) ?? inTurn(type, name);
    asked.set(key, found);
    return found;
  };
}

async function check(record: DnsRecord, look: Look): Promise<RecordCheck> {
  const answers = await look(record.type, record.name);
  if (!answers.ok) return { state: 'error', found: [], detail: answers.detail };
  const verdict = judges[record.purpose](record, answers.values);
  const parent =
    record.purpose === 'dmarc' && verdict.state === 'missing' ? getDomain(record.name.slice('_dmarc.'.length)) : null;
  const above = `_dmarc.${parent}`;
  if (parent === null || above === record.name) return verdict;
  // RFC 7489 §6.6.3: a name without a DMARC record has that of its organizational domain.
  const inherited = await look('TXT', above);
  if (!inherited.ok) return { state: 'error', found: [], detail: inherited.detail };
  const from = judges[record.purpose](record, inherited.values);
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
