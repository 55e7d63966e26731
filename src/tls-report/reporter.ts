// Sends the reports of TLS (RFC 8460): each some time after the end of its day, to where the domain asks for it. What could not
// be handed over is tried again for a day, with growing delays.

import type { Clock } from '../base/clock.ts';
import type { DnsLookup } from '../base/dns/dns-lookup.ts';
import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { AddressJudge } from '../deliver/mx/address-judge.ts';
import type { Submit } from '../submit.ts';
import { destinationsOf, type ReportDestination } from './destinations.ts';
import { makeReport } from './make-report.ts';
import { postReport } from './post-report.ts';
import { reportMail } from './report-mail.ts';
import type { SessionCounts } from './session-counts.ts';
import type { TlsReportSettings } from './settings.ts';
import type { DueTlsReport, TlsReportStore } from './tls-report-store.ts';

/** What sending needs. Functions are asked each time, since a reload may change what they give. */
export interface TlsReporterParts {
  readonly store: TlsReportStore;
  readonly counts: Pick<SessionCounts, 'flush' | 'lost'>;
  readonly settings: () => TlsReportSettings & { readonly platformDomain: string };
  readonly lookup: () => DnsLookup;
  readonly judge: () => AddressJudge;
  /** The pipeline for mail of our own. */
  readonly submit: Submit;
  readonly clock: Clock;
  readonly log: Logger;
  /** Milliseconds from one round to the next; absent: 5,000. */
  readonly everyMs?: number;
  /** For one request by HTTPS, in milliseconds; absent: 30,000. */
  readonly postWithinMs?: number;
}

/** The reporter at work. */
export interface TlsReporter {
  start(): void;
  /** Begins nothing any more, ends what is under way, and writes the counts down. */
  stop(): Promise<void>;
  /** Sends all reports that are due now. */
  sendDue(): Promise<void>;
  /** Since the start: reports that were handed over, by destination, and those that were given up. */
  readonly totals: { readonly sent: number; readonly givenUp: number };
}

/** Reports that are worked at side by side, so that one slow name server does not keep back all others. */
const atOnce = 10;
/** The delay before the second attempt and the longest one, in milliseconds. */
const firstDelayMs = 300_000;
const longestDelayMs = 14_400_000;
/** More than there are in a day; they end a report whose day cannot end because the clock was set back. */
const mostAttempts = 20;

/** Makes the reporter; it does nothing before `start`. */
export function createTlsReporter(parts: TlsReporterParts): TlsReporter {
  return new RoundReporter(parts);
}

class RoundReporter implements TlsReporter {
  readonly #parts: TlsReporterParts;
  readonly #stopping = new AbortController();
  readonly #stopped: Promise<void>;
  readonly totals = { sent: 0, givenUp: 0 };
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;

  constructor(parts: TlsReporterParts) {
    this.#parts = parts;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#stopped = promise;
    this.#stopping.signal.addEventListener('abort', () => resolve());
  }

  start(): void {
    const { counts, log, everyMs = 5000 } = this.#parts;
    this.#timer = setInterval(() => {
      void counts.flush();
      this.sendDue().catch((error: unknown) => log.error({ err: error }, 'TLS reports could not be read'));
    }, everyMs);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort();
    await Promise.allSettled([this.#round]);
    await this.#parts.counts.flush();
  }

  async sendDue(): Promise<void> {
    this.#round ??= this.#sendAll().finally(() => {
      this.#round = undefined;
    });
    await this.#round;
  }

  async #sendAll(): Promise<void> {
    const { store, clock, log } = this.#parts;
    for (;;) {
      if (this.#stopping.signal.aborted) return;
      const due = await store.due(clock.now(), atOnce);
      const ends = await Promise.allSettled(due.map((one) => this.#send(one)));
      for (const end of ends) {
        if (end.status === 'rejected') log.error({ err: end.reason }, 'TLS reports could not be read');
      }
      // One that failed is still due; the next round tries it.
      if (due.length < atOnce || ends.some(({ status }) => status === 'rejected')) return;
    }
  }

  async #send(due: DueTlsReport): Promise<void> {
    const { store, clock } = this.#parts;
    if (!this.#parts.settings().enabled) return await store.remove(due);
    if (!(await store.claim(due, clock.now()))) return;
    const wanted = await this.#destinations(due);
    if (wanted === 'stopped') return;
    if (typeof wanted === 'string') return await this.#putOff(due, due.told, wanted);
    const open = wanted.filter(({ uri }) => !due.told.includes(uri));
    const report =
      open.length === 0 ? undefined : await makeReport(due, await store.contents(due), this.#parts.settings());
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
    const asked = this.#parts.lookup().find(`_smtp._tls.${domain}`, 'TXT');
    const finding = await Promise.race([asked, this.#stopped]);
    if (!finding) return 'stopped';
    if (finding.kind === 'failed') return finding.why;
    return finding.kind === 'found' ? destinationsOf(finding.records) : [];
  }

  async #handOver(due: DueTlsReport, destination: ReportDestination, report: Buffer): Promise<string | undefined> {
    const { lookup, judge, submit, settings, log, postWithinMs: withinMs = 30_000 } = this.#parts;
    const { day, domain, id } = due;
    try {
      if (destination.kind === 'https') {
        const { signal } = this.#stopping;
        const posting = postReport(destination.url, report, { lookup: lookup(), judge: judge(), signal, withinMs });
        // A name server that is slow to answer must not hold up a stop.
        const why = await Promise.race([posting, this.#stopped.then(() => 'the server is stopping')]);
        if (why !== undefined) return why;
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
    const { store, clock, log } = this.#parts;
    const { day, domain, id, attempts, giveUpAt } = due;
    const now = clock.now();
    if (now >= giveUpAt || attempts + 1 >= mostAttempts) {
      await store.remove(due);
      this.totals.givenUp += 1;
      log.warn({ domain, day, report: id, reason }, 'TLS report given up');
      return;
    }
    const delay = Math.min(firstDelayMs * 2 ** attempts, longestDelayMs);
    await store.putOff(due, Math.min(now + delay, giveUpAt), told);
    log.info({ domain, day, report: id, reason, retryInMs: delay }, 'TLS report put off');
  }
}
