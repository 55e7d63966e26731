// Which policy of MTA-STS holds for a domain now (RFC 8461 §3.3, §5.1). A policy that was fetched once holds until its max_age
// is over, whatever DNS and the policy host say meanwhile, unless they say that there is a new one.

import type { ClientRequest, IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { isIPv6 } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { DnsLookup } from '../../base/dns/dns-lookup.ts';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { FairSlots } from '../../base/fifo.ts';
import type { Logger } from '../../base/log.ts';
import { readRegularFile } from '../../base/named-file.ts';
import { boundInterims } from '../../base/net/bound-interims.ts';
import { Part } from '../../base/part.ts';
import { RecentMap } from '../../base/recent-map.ts';
import type { AddressJudge } from './address-judge.ts';
import { type KeptPolicy, readStsPolicy, type StsPolicy, type StsStore, stsId } from './sts-policy.ts';
import type { StsFault } from './tls-demand.ts';

// Fetches the policy file of a domain by HTTPS (RFC 8461 §3.3): from an address that mail may go to, within bounds of time
// and size, no redirect followed, the certificate verified for the policy host.

interface StsFetchParts {
  readonly lookup: DnsLookup;
  readonly judge: AddressJudge;
  /** Certificates to trust instead of the system's: path of a PEM file, read at each fetch. */
  readonly caFile?: string | undefined;
  /** The port of policy hosts; RFC 8461 knows 443 alone. */
  readonly port: number;
  /** For one fetch, in milliseconds, however slowly its octets come. */
  readonly withinMs: number;
}

/** RFC 8461 §3.3: 64 KiB are enough for any policy. */
const mostOctets = 65_536;
/** The codes of Node and OpenSSL for certificates that cannot be verified. */
const certificateErrors = /CERT|ISSUER|SIGNATURE/;
const mostAddresses = 2;

async function addressesOf(host: string, { lookup, judge, port }: StsFetchParts): Promise<readonly string[]> {
  const found = await Promise.all([lookup.find(host, 'A'), lookup.find(host, 'AAAA')]);
  const all = found.flatMap((one) => (one.kind === 'found' ? one.records : []));
  // A policy host may be a zone of this gateway; it may not be in a private network.
  return all.filter((address) => judge(address, port) !== 'private').slice(0, mostAddresses);
}

/** Why an answer is no policy file; undefined where it is one. */
function headFault({ statusCode, headers }: IncomingMessage): string | undefined {
  if (statusCode !== 200) return `the policy host answered ${statusCode}`;
  const type = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase();
  return type === 'text/plain'
    ? undefined
    : `the policy is no text/plain but ${(type ?? '').slice(0, 100) || 'nothing'}`;
}

function answerTo(asking: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    boundInterims(asking);
    asking.on('error', reject).on('response', resolve);
    // Nobody asked for another protocol; without a listener Node would close the connection and tell nobody.
    asking.on('upgrade', (answer, socket) => {
      socket.destroy();
      resolve(answer);
    });
    asking.end();
  });
}

async function get(host: string, address: string, { port, withinMs, caFile }: StsFetchParts): Promise<string> {
  const signal = AbortSignal.timeout(withinMs);
  const ca = caFile === undefined ? {} : { ca: readRegularFile(caFile) };
  const place = {
    host: address,
    family: isIPv6(address) ? 6 : 4,
    port,
    servername: host,
    path: '/.well-known/mta-sts.txt',
  };
  const asking = request({ ...place, ...ca, headers: { Host: host, Accept: 'text/plain' }, agent: false, signal });
  try {
    const answer = await answerTo(asking);
    const fault = headFault(answer);
    if (fault !== undefined) throw new Error(fault);
    let text = Buffer.alloc(0);
    for await (const piece of answer) {
      text = Buffer.concat([text, piece]);
      if (text.length > mostOctets) throw new Error(`the policy is larger than ${mostOctets} octets`);
    }
    return text.toString('utf8');
  } catch (error) {
    throw signal.aborted ? new Error('the policy host did not answer in time', { cause: error }) : error;
  } finally {
    asking.destroy();
  }
}

/** Fetches a policy, and never rejects. @param id from the TXT record @returns it, or why there is none */
async function fetchStsPolicy(domain: string, id: string, parts: StsFetchParts): Promise<StsPolicy | StsFault> {
  const host = `mta-sts.${domain}`;
  let why = 'the policy host has no address that may be asked';
  let failure: StsFault['failure'] = 'sts-policy-fetch-error';
  for (const address of await addressesOf(host, parts)) {
    try {
      const policy = readStsPolicy(await get(host, address, parts), id);
      return typeof policy === 'string' ? { failure: 'sts-policy-invalid', why: policy } : policy;
    } catch (error) {
      const isOfCertificate = certificateErrors.test(errorCode(error) ?? '');
      failure = isOfCertificate ? 'sts-webpki-invalid' : 'sts-policy-fetch-error';
      why = errorMessage(error);
    }
  }
  return { failure, why };
}

/** What is found of a policy: it, or why it could not be had. */
export interface StsFinding {
  readonly policy?: StsPolicy;
  readonly fault?: StsFault;
}

/** What finding needs. */
interface StsPoliciesParts extends StsFetchParts {
  readonly store: StsStore;
  readonly clock: Clock;
  readonly log: Logger;
}

/** RFC 8461 §3.3: after a failed fetch at least five minutes; a policy is fetched anew each day. In milliseconds. */
const fetchAgainAfter = 300_000;
const refreshAfter = 86_400_000;
/** Fetches under way at the same time, and failures that are remembered. */
const mostAtOnce = 100;
const mostFailures = 10_000;

interface Wanted {
  readonly domain: string;
  readonly id: string;
  readonly account: string;
}

/** Finds policies. */
export class StsPolicies extends Part<StsPoliciesParts> {
  readonly #fetching = new Map<string, Promise<StsPolicy | StsFault>>();
  readonly #places = new FairSlots(mostAtOnce);
  /** By domain and id: why a policy could not be had, and before which moment of the monotonic clock it is not fetched again. */
  readonly #failed = new RecentMap<string, { readonly fault: StsFault; readonly until: number }>(mostFailures);

  /**
   * The policy of a domain, or why none could be had; neither where it has none.
   * @param account who asks: accounts have shares of the fetches that are made at the same time
   * @throws Unavailable where the database cannot be read: it is not known then whether the domain is protected
   */
  async find(domain: string, account: string): Promise<StsFinding> {
    const lookup = this.parts.lookup.askedBy(account);
    const [known, texts] = await Promise.all([this.#kept(domain), lookup.find(`_mta-sts.${domain}`, 'TXT')]);
    const id = texts.kind === 'found' ? stsId(texts.records) : undefined;
    // RFC 8461 §5.1: without a TXT record the policy that is known holds on; else anybody who can silence DNS could end it.
    const { policy } = known ?? {};
    if (id === undefined) return policy ? { policy } : {};
    if (known?.policy.id === id) {
      if (this.#age(known) >= refreshAfter) void this.#fetch({ domain, id, account });
      return { policy: known.policy };
    }
    const fetched = await this.#fetch({ domain, id, account });
    if (!('failure' in fetched)) return { policy: fetched };
    return policy ? { policy } : { fault: fetched };
  }

  /** The policy that is kept, while it holds. */
  async #kept(domain: string): Promise<KeptPolicy | undefined> {
    const kept = await this.parts.store.get(domain);
    return kept && this.#isInForce(kept) ? kept : undefined;
  }

  #age({ fetchedAt }: KeptPolicy): number {
    return this.parts.clock.now() - fetchedAt;
  }

  /** Whether a policy's time is not over. Where the clock was set back, it holds from now on no longer than it would anyway. */
  #isInForce(kept: KeptPolicy): boolean {
    return this.#age(kept) < kept.policy.maxAge * 1000;
  }

  async #fetch(wanted: Wanted): Promise<StsPolicy | StsFault> {
    const key = `${wanted.domain} ${wanted.id}`;
    const failed = this.#failureOf(key);
    if (failed) return failed;
    // All wait for a place, since mail that goes without the policy of its domain is what a policy is made against.
    const leave = await this.#places.take(wanted.account);
    try {
      const under = this.#fetching.get(key);
      if (under) return await under;
      const failedNow = this.#failureOf(key);
      if (failedNow) return failedNow;
      const fetching = this.#fetchAndKeep(wanted, key).finally(() => this.#fetching.delete(key));
      this.#fetching.set(key, fetching);
      return await fetching;
    } finally {
      leave();
    }
  }

  #failureOf(key: string): StsFault | undefined {
    const failed = this.#failed.get(key);
    return failed && failed.until > this.parts.clock.monotonic() ? failed.fault : undefined;
  }

  async #fetchAndKeep({ domain, id, account }: Wanted, key: string): Promise<StsPolicy | StsFault> {
    const { store, clock, log } = this.parts;
    // Another account may have fetched it while this one waited for its place.
    const known = await this.#kept(domain).catch(() => undefined);
    if (known?.policy.id === id && this.#age(known) < refreshAfter) return known.policy;
    const lookup = this.parts.lookup.askedBy(account);
    const policy = await fetchStsPolicy(domain, id, { ...this.parts, lookup });
    if ('failure' in policy) {
      log.warn({ domain, reason: policy.why }, 'an MTA-STS policy cannot be fetched');
      this.#failed.set(key, { fault: policy, until: clock.monotonic() + fetchAgainAfter });
      return policy;
    }
    this.#failed.delete(key);
    try {
      await store.put(domain, { policy, fetchedAt: clock.now() });
    } catch (error) {
      // It holds for this message all the same, and is fetched again for the next one.
      log.error({ domain, err: error }, 'an MTA-STS policy cannot be kept');
    }
    return policy;
  }
}
