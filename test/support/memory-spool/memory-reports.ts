// The reports that are to be made, in memory: they behave like those in the database, but end with the process.

import type { DsnRequest, ReportWish } from '../../../src/mail/envelope.ts';
import type { SmtpReply } from '../../../src/mail/smtp-reply.ts';
import {
  type DueReport,
  headToKeep,
  type NotedOutcome as Noted,
  type ReportedRecipient,
  type ReportKey,
  type ReportLimits,
  reportAction,
  reportBits,
  reportedRecipients,
  unlimitedReports,
  wantedReports,
} from '../../../src/spool/reports/report.ts';

/** A message of which outcomes are noted. */
interface NotedMail extends Omit<DueReport, 'key' | 'queueId' | 'ret' | 'envid' | 'recipients' | 'more'> {
  readonly id: string;
  readonly dsn?: DsnRequest | undefined;
  readonly reports?: ReportWish;
}

interface NotedOutcome extends Pick<Noted, 'kind' | 'handover'> {
  readonly recipient: string;
  readonly reply: SmtpReply;
  readonly host: string;
}

interface Open extends Omit<DueReport, 'key' | 'recipients' | 'more'> {
  readonly seq: number;
  version: number;
  dueAt: number;
  more: number;
  readonly recipients: Map<string, ReportedRecipient>;
}

const dayMilliseconds = 86_400_000;

/** The reports of one process. */
export class MemoryReports {
  readonly #limits: ReportLimits;
  readonly #open = new Map<string, Open>();
  /** Reports begun about each message, and on each day to each address and for each account. */
  readonly #counts = new Map<string, number>();
  /** Recipients that were reported as delayed. */
  readonly #delayed = new Set<string>();
  #seq = 0;
  #unreported = 0;

  constructor(limits: ReportLimits = unlimitedReports) {
    this.#limits = limits;
  }

  get unreported(): number {
    return this.#unreported;
  }

  /** Notes an outcome if it is to be reported. */
  note(
    mail: NotedMail,
    outcome: NotedOutcome,
    { now, isLast }: { readonly now: number; readonly isLast: boolean },
  ): void {
    const name = `${mail.id} ${outcome.recipient}`;
    const wanted = wantedReports(mail, outcome.recipient) & (this.#delayed.has(name) ? ~reportBits.delay : ~0);
    const ageMilliseconds = now - mail.acceptedAt;
    const action = reportAction(outcome, wanted, { ageMilliseconds, delaySeconds: this.#limits.delaySeconds });
    const report = action ? this.#reportOf(mail, now) : this.#open.get(mail.id);
    if (action && !report) this.#unreported += 1;
    if (!report) return;
    if (action) {
      if (action === 'delayed') this.#delayed.add(name);
      const { recipient: address, reply, host } = outcome;
      const orcpt = mail.dsn?.recipients?.get(address)?.orcpt;
      const listed = { address, action, at: now, reply, host, ...(orcpt === undefined ? {} : { orcpt }) };
      if (report.recipients.size < reportedRecipients) report.recipients.set(address, listed);
      else report.more += 1;
      report.version += 1;
    }
    report.dueAt = Math.min(report.dueAt, isLast ? now : now + this.#limits.gatherSeconds * 1000);
  }

  due({ now, limit }: { readonly now: number; readonly limit: number }): DueReport[] {
    return [...this.#open.values()]
      .filter(({ dueAt }) => dueAt <= now)
      .toSorted((left, right) => left.dueAt - right.dueAt)
      .slice(0, limit)
      .map(({ seq, version, dueAt: _dueAt, recipients, ...report }) => ({
        ...report,
        key: { seq, version },
        recipients: [...recipients.values()],
      }));
  }

  end({ seq, version }: ReportKey): boolean {
    const found = this.#find(seq);
    return found?.version === version && this.#open.delete(found.queueId);
  }

  postpone({ seq }: ReportKey, until: number): boolean {
    const found = this.#find(seq);
    if (found) found.dueAt = until;
    return true;
  }

  /** The wall clock was set by `step`: what waits, waits as long as before. */
  move(step: number): void {
    for (const report of this.#open.values()) report.dueAt += step;
  }

  #find(seq: number): Open | undefined {
    return [...this.#open.values()].find((report) => report.seq === seq);
  }

  #reportOf(mail: NotedMail, now: number): Open | undefined {
    const open = this.#open.get(mail.id);
    if (open) return open;
    const day = Math.floor(now / dayMilliseconds);
    const bounds: readonly (readonly [string, number])[] = [
      [mail.id, this.#limits.perMessage],
      [`${day} ${mail.account} ${mail.senderPath}`, this.#limits.perAddressPerDay],
      [`${day} ${mail.account}`, this.#limits.perAccountPerDay],
    ];
    if (bounds.some(([name, most]) => (this.#counts.get(name) ?? 0) >= most)) return undefined;
    for (const [name] of bounds) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    const {
      id,
      account,
      sessionId,
      messageId,
      clientMessageId,
      senderPath,
      smtputf8,
      requireTls,
      acceptedAt,
      expiresAt,
    } = mail;
    const { ret, envid } = mail.dsn ?? {};
    this.#seq += 1;
    const report: Open = {
      ...{ seq: this.#seq, version: 0, more: 0, recipients: new Map(), queueId: id },
      ...{ account, sessionId, messageId, senderPath, smtputf8, requireTls, acceptedAt, expiresAt },
      ...(clientMessageId === undefined ? {} : { clientMessageId }),
      // RFC 8689 §5: a message with REQUIRETLS is never returned whole.
      ...(ret === undefined || requireTls ? {} : { ret }),
      ...(envid === undefined ? {} : { envid }),
      dueAt: now + this.#limits.gatherSeconds * 1000,
      head: Buffer.from(headToKeep(mail.head)),
    };
    this.#open.set(id, report);
    return report;
  }
}
