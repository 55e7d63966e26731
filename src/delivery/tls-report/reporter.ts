// Sends the reports of TLS (RFC 8460) after the end of each day, and again for a day, with growing delays, where that fails.

import { once } from 'node:events';
import { isIP, type LookupFunction } from 'node:net';
import { callbackify } from 'node:util';
import type { Clock } from '../../base/clock.ts';
import type { DnsLookup } from '../../base/dns/dns-lookup.ts';
import { errorMessage } from '../../base/errors.ts';
import { tellOnce } from '../../base/fault/tell-once.ts';
import { onceAtATime } from '../../base/load/once-at-a-time.ts';
import type { Logger } from '../../base/log.ts';
import { Part } from '../../base/part.ts';
import { asciiDomain, percentDecoded, splitMailbox } from '../../mail/address/domain.ts';
import type { Submit } from '../../pipeline/submit.ts';
import type { AddressJudge } from '../mx/address-judge.ts';
import { Poster } from '../webhooks/post.ts';
import { makeReport, reportMail, type TlsReportSettings } from './make-report.ts';
import type { SessionCounts } from './session-counts.ts';
import type { DueTlsReport, TlsReportStore } from './tls-report-store.ts';

/** Looks the addresses of a host up as mail does. */
function lookupBy(lookup: () => DnsLookup): LookupFunction {
  return callbackify(async (host: string, _options: object) => {
    const found = await Promise.all([lookup().find(host, 'A'), lookup().find(host, 'AAAA')]);
    const addresses = found.flatMap((one) => (one.kind === 'found' ? one.records : []));
    return addresses.map((address) => ({ address, family: isIP(address) }));
  });
}

/** One place. `uri` is as the record has it. */
type ReportDestination =
  | { readonly kind: 'mailto'; readonly uri: string; readonly address: string }
  | { readonly kind: 'https'; readonly uri: string; readonly url: URL };

/** Places that are used of one record; the others are passed over. */
const mostDestinations = 5;
/** Records of this length may have been cut when they were read (base/dns). */
const mostRecord = 1000;
const mostUri = 500;

const version = 'v=TLSRPTv1';
/** ABNF of RFC 8460 §3: after the version fields of `name=value`, each behind `;`; one more `;` may stand at the end. */
const field = /^[ \t]*([A-Za-z0-9][A-Za-z0-9_.-]{0,30})=([\x21-\x3a\x3c\x3e-\x7e, \t=]*?)[ \t]*$/;
const mailbox = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@[^@]+$/;

function mailtoOf(uri: string): ReportDestination | undefined {
  // Fields of a header (`?subject=`) are somebody else's words in our mail.
  const address = percentDecoded(uri.slice('mailto:'.length).replace(/\?.*$/, '')).toString('utf8');
  if (address.length > 254 || !mailbox.test(address)) return undefined;
  const { localPart, domain = '' } = splitMailbox(address);
  const ascii = asciiDomain(domain);
  if (ascii === undefined || isIP(ascii) !== 0 || localPart.length > 64) return undefined;
  return { kind: 'mailto', uri, address: `${localPart}@${ascii}` };
}

function httpsOf(uri: string): ReportDestination | undefined {
  const url = URL.parse(uri);
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '' || url.port === '0') return undefined;
  url.hash = '';
  return { kind: 'https', uri, url };
}

function destinationOf(text: string): ReportDestination | undefined {
  const uri = text.replace(/^[ \t]+|[ \t]+$/g, '');
  if (uri.length > mostUri || /[ \t!]|%(?![0-9a-f]{2})/i.test(uri)) return undefined;
  if (/^mailto:/i.test(uri)) return mailtoOf(uri);
  return /^https:\/\//i.test(uri) ? httpsOf(uri) : undefined;
}

/** Reads the TXT records of `_smtp._tls.DOMAIN`. @returns where reports go; nothing where none are wanted as RFC 8460 has it */
export function destinationsOf(texts: readonly string[]): readonly ReportDestination[] {
  const records = texts.filter((text) => text.startsWith(version));
  const [record = ''] = records;
  if (records.length !== 1 || record.length > mostRecord) return [];
  const [rest, ...parts] = record.slice(version.length).split(';');
  if (rest?.trim() !== '') return [];
  if (parts.at(-1)?.trim() === '') parts.pop();
  const fields = parts.map((part) => field.exec(part));
  const ruas = fields.flatMap((one) => (one?.[1] === 'rua' ? [one[2] ?? ''] : []));
  if (fields.includes(null) || ruas.length !== 1) return [];
  const all = (ruas[0] ?? '').split(',').flatMap((text) => destinationOf(text) ?? []);
  return [...new Map(all.map((one) => [one.uri, one])).values()].slice(0, mostDestinations);
}

/** What sending needs. Functions are asked each time, since a reload may change what they give. */
interface TlsReporterParts {
  readonly store: TlsReportStore;
  readonly counts: Pick<SessionCounts, 'flush' | 'lost'>;
  readonly settings: () => TlsReportSettings & { readonly platformDomain: string };
  readonly lookup: () => DnsLookup;
  readonly judge: () => AddressJudge;
  readonly submit: Submit;
  readonly clock: Clock;
  readonly log: Logger;
  /** Milliseconds from one round to the next; absent: 5,000. */
  readonly everyMs?: number;
  /** For one request by HTTPS, in milliseconds; absent: 30,000. */
  readonly postWithinMs?: number;
}

/** Reports that are worked at side by side, so that one slow name server does not keep back all others. */
const atOnce = 10;
/** The delay before the second attempt and the longest one, in milliseconds. */
const firstDelayMs = 300_000;
const longestDelayMs = 14_400_000;
/** More than there are in a day; they end a report whose day cannot end because the clock was set back. */
const mostAttempts = 20;

/** The reporter; it does nothing before `start`. */
export class TlsReporter extends Part<TlsReporterParts> {
  readonly #stopping = new AbortController();
  readonly #stopped = once(this.#stopping.signal, 'abort');
  /** Since the start: reports that were handed over, by destination, and those that were given up. */
  readonly totals = { sent: 0, givenUp: 0 };
  /** Sends all reports that are due now. */
  readonly sendDue = onceAtATime(() => this.#sendAll());
  /** Hands reports over by HTTPS (RFC 8460 §5.4). The certificate is not verified (§3): a report of failing certificates has to arrive. */
  readonly #poster = new Poster({
    refuse: (address, port) => this.parts.judge()(address, port) && 'no report is sent to that address',
    lookup: lookupBy(this.parts.lookup),
    timeoutMs: this.parts.postWithinMs ?? 30_000,
    isUnverified: true,
  });
  #timer: NodeJS.Timeout | undefined;

  start(): void {
    const { counts, log, everyMs = 5000 } = this.parts;
    const teller = tellOnce({
      fault: (err) => log.error({ err }, 'TLS reports could not be read'),
      over: () => log.info('TLS reports can be read again'),
    });
    this.#timer = setInterval(() => {
      void counts.flush();
      void this.sendDue().then(teller.worked, teller.failed);
    }, everyMs);
  }

  /** Begins nothing any more, ends what is under way, and writes the counts down. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort();
    await Promise.allSettled([this.sendDue()]);
    this.#poster.close();
    await this.parts.counts.flush();
  }

  async #sendAll(): Promise<void> {
    const { store, clock } = this.parts;
    for (;;) {
      if (this.#stopping.signal.aborted) return;
      const due = await store.due(clock.now(), atOnce);
      const ends = await Promise.allSettled(due.map((one) => this.#send(one)));
      // One that failed is still due; the next round tries it.
      const failed = ends.find((end) => end.status === 'rejected');
      if (failed) throw failed.reason;
      if (due.length < atOnce) return;
    }
  }

  async #send(due: DueTlsReport): Promise<void> {
    const { store, clock } = this.parts;
    if (!this.parts.settings().enabled) return await store.remove(due);
    if (!(await store.claim(due, clock.now()))) return;
    const wanted = await this.#destinations(due);
    if (wanted === 'stopped') return;
    if (typeof wanted === 'string') return await this.#putOff(due, due.told, wanted);
    const open = wanted.filter(({ uri }) => !due.told.includes(uri));
    const report =
      open.length === 0 ? undefined : await makeReport(due, await store.contents(due), this.parts.settings());
    if (!report) return await store.remove(due);
    const told = [...due.told];
    let fault: string | undefined;
    for (const destination of open) {
      if (this.#stopping.signal.aborted) return await store.putOff(due, clock.now(), told);
      const why = await this.#handOver(due, destination, report);
      if (why === undefined) told.push(destination.uri);
      else fault = `${destination.uri}: ${why}`;
    }
    if (fault === undefined) await store.remove(due);
    else await this.#putOff(due, told, fault);
  }

  /** @returns where the report goes; `stopped`; or why that cannot be found out */
  async #destinations({ domain }: DueTlsReport): Promise<readonly ReportDestination[] | string> {
    const asked = this.parts.lookup().find(`_smtp._tls.${domain}`, 'TXT');
    const finding = await Promise.race([asked, this.#stopped]);
    if (!('kind' in finding)) return 'stopped';
    if (finding.kind === 'failed') return finding.why;
    return finding.kind === 'found' ? destinationsOf(finding.records) : [];
  }

  async #handOver(due: DueTlsReport, destination: ReportDestination, report: Buffer): Promise<string | undefined> {
    const { submit, settings, log } = this.parts;
    const { day, domain, id } = due;
    try {
      if (destination.kind === 'https') {
        const headers = { 'content-type': 'application/tlsrpt+gzip' };
        const request = { owner: domain, url: destination.url.href, headers, body: report };
        const answer = await this.#poster.post({ ...request, signal: this.#stopping.signal });
        if ('error' in answer) return answer.error;
        if (answer.status < 200 || answer.status >= 300) return `the answer was ${answer.status}`;
      } else {
        const { platformDomain } = settings();
        const result = await submit(await reportMail(due, { report, to: destination.address, platformDomain }));
        if (!result.accepted) return result.violations.map(({ code }) => code).join(' ');
      }
    } catch (error) {
      return errorMessage(error);
    }
    this.totals.sent += 1;
    log.info({ domain, day, report: id, to: destination.uri }, 'TLS report sent');
    return undefined;
  }

  async #putOff(due: DueTlsReport, told: readonly string[], reason: string): Promise<void> {
    const { store, clock, log } = this.parts;
    const { day, domain, id, attempts, giveUpAt } = due;
    const now = clock.now();
    if (now >= giveUpAt || attempts + 1 >= mostAttempts) {
      await store.remove(due);
      this.totals.givenUp += 1;
      return log.warn({ domain, day, report: id, reason }, 'TLS report given up');
    }
    const delay = Math.min(firstDelayMs * 2 ** attempts, longestDelayMs);
    await store.putOff(due, Math.min(now + delay, giveUpAt), told);
    log.info({ domain, day, report: id, reason, retryInMs: delay }, 'TLS report put off');
  }
}
