// What `postern doctor` looks at outside this machine: DNS, next hops, its name, the clock. Each look is bounded and writes nothing.

import { createSocket } from 'node:dgram';
import type { Resolver } from 'node:dns/promises';
import { connect, isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorMessage } from '../base/errors.ts';
import { dnsFailure } from '../base/net/dns-failure.ts';
import { stsId } from '../delivery/mx/sts-policy.ts';
import type { Route } from '../delivery/settings.ts';
import { smarthostsOf } from '../delivery/smarthost.ts';
import type { DnsRecord, RecordCheck } from '../web/admin/domain-schemas.ts';

/** How something is. */
export type State = 'ok' | 'warning' | 'fault';

/** What was seen at one thing. */
export interface Seen {
  /** What was looked at: `dkim s1._domainkey.example.com`. */
  readonly what: string;
  readonly state: State;
  readonly text: string;
  /** What to do; absent where nothing is to be done. */
  readonly cure?: string;
}

/** Makes what was seen. @param cure absent where nothing is to be done */
export function seen(what: string, state: State, text: string, cure?: string): Seen {
  return { what, state, text, ...(cure === undefined ? {} : { cure }) };
}

/** How long each look may take, in milliseconds. */
export const lookMs = 6000;
const noDns = 'See that DNS answers here';

/** Gives what a look has seen, or, where it takes too long or fails, that it is not known. */
export async function within(
  what: string,
  look: (signal: AbortSignal) => Promise<readonly Seen[]>,
): Promise<readonly Seen[]> {
  const ended = new AbortController();
  const unknown = (why: string) => [seen(what, 'warning', why, 'Look again')];
  const late = sleep(lookMs, unknown(`no answer within ${lookMs / 1000} s`), { signal: ended.signal });
  try {
    return await Promise.race([look(ended.signal), late]);
  } catch (error) {
    return unknown(`not known: ${errorMessage(error)}`);
  } finally {
    late.catch(() => undefined);
    ended.abort();
  }
}

/** What the check of a record says. Without its DKIM record signed mail is taken for forged; the others cost reputation or bounces. */
export function seenRecord({ purpose, name, zone, value }: DnsRecord, { state, detail, found }: RecordCheck): Seen {
  const what = `${purpose} ${name}`;
  if (state === 'ok') return seen(what, 'ok', detail ?? 'in place');
  if (state === 'error') return seen(what, 'warning', `not known: ${detail ?? 'DNS does not answer'}`, noDns);
  const first = found[0] === undefined ? undefined : `found ${found[0]}`;
  const text = [state, detail, first].filter((part) => part !== undefined).join('; ');
  const cure = state === 'missing' ? `Publish: ${zone}` : `Change it to: ${value}`;
  return seen(what, purpose === 'dkim' ? 'fault' : 'warning', text, cure);
}

/** Looks whether the policy of MTA-STS that a domain names is one (RFC 8461 §3.1). None is needed. */
export async function lookAtSts(domain: string, resolver: Pick<Resolver, 'resolveTxt'>): Promise<readonly Seen[]> {
  const name = `_mta-sts.${domain}`;
  const what = `mta-sts ${name}`;
  try {
    const texts = (await resolver.resolveTxt(name)).map((strings) => strings.join(''));
    if (!texts.some((text) => text.startsWith('v=STSv1'))) return [seen(what, 'ok', 'none, and none is needed')];
    const id = stsId(texts);
    if (id !== undefined) return [seen(what, 'ok', `policy ${id}`)];
    const cure = 'Publish one record: v=STSv1; id=20260101000000;';
    return [seen(what, 'warning', 'its record is malformed, so that no policy holds', cure)];
  } catch (error) {
    const failure = dnsFailure(error);
    if (failure === undefined) return [seen(what, 'ok', 'none, and none is needed')];
    return [seen(what, 'warning', `not known: ${failure}`, noDns)];
  }
}

/** Opens a connection and closes it. @returns undefined where it was opened, else why not */
function opened(host: string, port: number, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const end = (why?: string) => {
      socket.destroy();
      resolve(why);
    };
    socket.once('connect', () => end());
    socket.once('error', (error) => end(errorMessage(error)));
    socket.setTimeout(lookMs - 1000, () => end('no answer, as where a firewall lets it out nowhere'));
    signal.addEventListener('abort', () => end('aborted'));
  });
}

async function lookAtHop(host: string, port: number, signal: AbortSignal): Promise<Seen> {
  const what = `connection to ${host}:${port}`;
  const why = await opened(host, port, signal);
  if (why === undefined) return seen(what, 'ok', 'opens');
  const outside = 'Have port 25 opened to the outside, or relay by a smarthost';
  return seen(what, 'fault', why, port === 25 ? outside : 'See that the next hop runs and is let through');
}

/** Exchangers that are tried at most, to see whether port 25 is let out. */
const mostExchangers = 2;

/** Looks whether each smarthost can be reached. */
export async function lookAtSmarthosts(routes: readonly Route[], signal: AbortSignal): Promise<readonly Seen[]> {
  const servers = routes.flatMap((route) => (route.type === 'smarthost' ? smarthostsOf(route) : []));
  const hops = new Map(servers.map((server) => [`${server.host} ${server.port}`, server]));
  return await Promise.all([...hops.values()].map(({ host, port }) => lookAtHop(host, port, signal)));
}

/** Looks whether mail by MX is let out: to the exchangers of some of the sending domains on port 25. */
export async function lookAtExchangers(
  domains: readonly string[],
  { resolver, signal }: { readonly resolver: Pick<Resolver, 'resolveMx'>; readonly signal: AbortSignal },
): Promise<readonly Seen[]> {
  const found = await Promise.allSettled(domains.slice(0, 5).map((domain) => resolver.resolveMx(domain)));
  const hosts = found.flatMap((one) => (one.status === 'fulfilled' ? one.value.map(({ exchange }) => exchange) : []));
  const tried = [...new Set(hosts)].filter((host) => host !== '').slice(0, mostExchangers);
  const text = 'no exchanger of a sending domain is known to try it with';
  if (tried.length === 0) return [seen('port 25 to the outside', 'warning', text, noDns)];
  return await Promise.all(tried.map((host) => lookAtHop(host, 25, signal)));
}

/** Looks whether the addresses of this machine's name lead back to it, which many receivers ask of a sender. */
export async function lookAtName(
  hostname: string,
  resolver: Pick<Resolver, 'resolve4' | 'resolve6' | 'reverse'>,
): Promise<readonly Seen[]> {
  const asked = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
  const addresses = asked.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
  const failure = asked.flatMap((one) => (one.status === 'rejected' ? (dnsFailure(one.reason) ?? []) : []))[0];
  if (addresses.length === 0) {
    const text = failure === undefined ? 'has no address in DNS' : `not known: ${failure}`;
    const cure = 'Publish A or AAAA of smtp.hostname, or name the host that mail leaves from there';
    return [seen(`name ${hostname}`, 'warning', text, cure)];
  }
  return await Promise.all(
    addresses.slice(0, 8).map(async (address): Promise<Seen> => {
      const names = await resolver.reverse(address).catch((): readonly string[] => []);
      const what = `reverse name of ${address}`;
      if (names.some((name) => name.toLowerCase().replace(/\.$/, '') === hostname)) return seen(what, 'ok', hostname);
      const text = names.length === 0 ? 'has none' : `is ${names.slice(0, 3).join(', ')}, not ${hostname}`;
      return seen(what, 'warning', text, `Have whoever gave you the address set its PTR record to ${hostname}`);
    }),
  );
}

/** Seconds from 1900, from which NTP counts, to 1970 (RFC 5905 §6). */
const ntpEpochSeconds = 2_208_988_800;

/** Asks a time server by SNTP (RFC 4330). @returns by how many milliseconds our clock is ahead */
function clockOffset(host: string, port: number, signal: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = createSocket({ type: isIP(host) === 6 ? 'udp6' : 'udp4', signal });
    const sentAt = Date.now();
    const question = Buffer.alloc(48);
    question[0] = 0x23; // version 4, client
    socket.once('error', reject);
    socket.once('message', (answer) => {
      if (answer.length < 48) return reject(new Error('what answers is no time server'));
      const theirs = (answer.readUInt32BE(40) - ntpEpochSeconds) * 1000 + (answer.readUInt32BE(44) / 2 ** 32) * 1000;
      resolve((sentAt + Date.now()) / 2 - theirs);
    });
    socket.send(question, port, host, (error) => (error ? reject(error) : undefined));
  });
}

/** Milliseconds by which a clock may be wrong before signatures and dates of mail begin to look odd. */
const [warnedMs, faultyMs] = [5000, 300_000];

/** Looks by how much this machine's clock differs from a time server's. */
export async function lookAtClock(host: string, port: number, signal: AbortSignal): Promise<readonly Seen[]> {
  const what = `clock, by ${host}`;
  const aheadMs = await clockOffset(host, port, signal);
  const away = Math.abs(aheadMs);
  const text = `${(away / 1000).toFixed(1)} s ${aheadMs < 0 ? 'behind' : 'ahead'}`;
  if (away < warnedMs) return [seen(what, 'ok', text)];
  return [seen(what, away < faultyMs ? 'warning' : 'fault', text, 'Have the clock kept by NTP')];
}
