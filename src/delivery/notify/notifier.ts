// Sends the reports that the spool has noted (RFC 3461 §6): it reads those that are due, makes a message of each, and hands it
// to the pipeline. The commit that keeps the message deletes the note, so that a crash neither loses nor repeats a report.

import type { Account } from '../../accounts/account.ts';
import type { Accounts } from '../../accounts/accounts.ts';
import type { Clock } from '../../base/clock.ts';
import { errorMessage, Unavailable } from '../../base/errors.ts';
import { tellOnce } from '../../base/fault/tell-once.ts';
import { onceAtATime } from '../../base/load/once-at-a-time.ts';
import type { Logger } from '../../base/log.ts';
import { Part } from '../../base/part.ts';
import { splitMailbox } from '../../mail/address/domain.ts';
import type { Submit } from '../../pipeline/submit.ts';
import type { DueReport } from '../../spool/reports/report.ts';
import type { Spool, SpoolReports } from '../../spool/spool.ts';
import { composeReport, type Original, type ReportingParts } from './compose-report.ts';

/** What the notifier needs. */
export interface NotifierParts {
  readonly spool: SpoolReports & Pick<Spool, 'load' | 'unavailable'>;
  readonly accounts: Pick<Accounts, 'find' | 'sendingDomain'>;
  /** The pipeline for mail of our own: From is the platform's domain, which its key signs. */
  readonly submit: Submit;
  readonly suppressed: (account: Account, recipient: string) => boolean | Promise<boolean>;
  /** Asked for each report, since a reload may change it. */
  readonly from: () => ReportingParts;
  /** The largest message that a report returns whole, in octets. */
  readonly returnBytes: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** Milliseconds from one look for due reports to the next; 1000 if absent. */
  readonly everyMs?: number;
}

const everySecond = 1000;
const readAtOnce = 10;
/** How long a report waits that could not be made for now, in milliseconds. */
const putOffMs = 60_000;

/** The notifier; it does nothing before `start`. */
export class Notifier extends Part<NotifierParts> {
  /** Since the start: reports that were made, and those that were not although they were noted. */
  readonly counts = { made: 0, left: 0 };
  /** Sends all reports that are due now. */
  readonly sendDue = onceAtATime(() => this.#sendAll());
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  /** Accounts whose reports cannot be kept in this round, because their share of the spool is used up. */
  readonly #blocked = new Set<string>();

  start(): void {
    if (this.#isStopped) return;
    const { log, everyMs = everySecond } = this.parts;
    const teller = tellOnce({
      fault: (err) => log.error({ err }, 'reports could not be read'),
      over: () => log.info('reports can be read again'),
    });
    const ended = (): void => {
      // While the spool takes no questions nothing was read.
      if (!this.parts.spool.unavailable) teller.worked();
    };
    this.#timer = setInterval(() => void this.sendDue().then(ended, teller.failed), everyMs);
  }

  /** Begins no report any more; resolves when the one under way is done with. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await Promise.allSettled([this.sendDue()]);
  }

  async #sendAll(): Promise<void> {
    const { spool, clock } = this.parts;
    let reports: readonly DueReport[];
    this.#blocked.clear();
    do {
      // Reports that cannot be kept now stay noted.
      if (this.#isStopped || spool.unavailable) return;
      reports = await spool.reportsDue({ now: clock.now(), limit: readAtOnce });
      for (const report of reports) if (!this.#isStopped) await this.#send(report);
    } while (reports.length === readAtOnce);
  }

  async #send(report: DueReport): Promise<void> {
    const { log } = this.parts;
    const facts = { id: report.queueId, account: report.account, to: report.senderPath };
    // Making a report takes time, and the next one of the account would be refused like the last.
    if (this.#blocked.has(report.account)) return await this.#putOff(report);
    try {
      const account = this.parts.accounts.find(report.account);
      const reason = account ? await this.#forbidden(account, report) : 'the account is gone';
      if (!account || reason !== undefined) return await this.#leave(report, reason);
      const whole = await this.#whole(report);
      const submission = await composeReport(report, { account, whole, from: this.parts.from() });
      const result = await this.parts.submit(submission);
      if (!result.accepted) return await this.#leave(report, result.violations.map(({ code }) => code).join(' '));
      this.counts.made += 1;
      log.info({ ...facts, report: result.id, recipients: report.recipients.length + report.more }, 'report sent');
    } catch (thrown) {
      // There is no room for it, or more is to be reported than when it was read.
      log.warn({ ...facts, reason: errorMessage(thrown) }, 'report put off');
      if (thrown instanceof Unavailable) this.#blocked.add(report.account);
      await this.#putOff(report);
    }
  }

  async #putOff({ key }: DueReport): Promise<void> {
    await this.parts.spool.endReport(key, this.parts.clock.now() + putOffMs);
  }

  /** Says why a report may not be sent: its address is suppressed, or no longer the account's own (D50, D51). */
  async #forbidden(account: Account, { senderPath }: DueReport): Promise<string | undefined> {
    const { domain = '' } = splitMailbox(senderPath);
    if (!this.parts.accounts.sendingDomain(account, domain)) return 'the sender is no address of the account';
    return (await this.parts.suppressed(account, senderPath)) ? 'the sender is suppressed' : undefined;
  }

  async #leave(report: DueReport, reason: string | undefined): Promise<void> {
    await this.parts.spool.endReport(report.key);
    this.counts.left += 1;
    const { queueId: id, account, senderPath: to } = report;
    this.parts.log.warn({ id, account, to, reason }, 'report not sent');
  }

  /** RFC 3461 §4.3: the whole message where RET=FULL asks for it, for failures only, and as far as the bound allows. */
  async #whole({ ret, recipients, queueId }: DueReport): Promise<Original | undefined> {
    if (ret !== 'FULL' || !recipients.some(({ action }) => action === 'failed')) return undefined;
    const message = await this.parts.spool.load(queueId);
    return message && message.head.length + message.body.length <= this.parts.returnBytes ? message : undefined;
  }
}
