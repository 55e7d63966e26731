// Settings of the spool in either engine: the free room that must be left on the disk, each account's share of the spool, and more.

import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { defaultEventLimits, type EventLimits } from './events/event-store.ts';
import type { ContentGauge } from './journal/content-gauge.ts';
import { type ReportLimits, unlimitedReports } from './reports/report.ts';
import type { Tally } from './tally.ts';

/** Milliseconds of a claim: longer than a transaction (45 minutes at most), so that it ends when its holder is gone or stuck. */
export const leaseMilliseconds = 60 * 60 * 1000;

/** How long a message is kept after its last recipient's end, where a recipient has failed, in milliseconds. */
export const failedRetentionMilliseconds = 30 * 24 * 60 * 60 * 1000;

/** How much the spool takes and keeps. */
export interface SpoolLimits {
  /** With less free room than this on a file system of the spool no mail is taken; absent: see `defaultMinFreeBytes`. */
  readonly minFreeBytes?: number;
  /** Queued messages that one account may have; more are refused. */
  readonly queuedMessages: number;
  /** Octets that one account's queued messages may have; absent: a quarter of the database's file system. */
  readonly queuedBytes?: number;
  /** Messages of one account that are kept as failed; the oldest are removed first. */
  readonly failedMessages: number;
  /** Octets of one account's messages that are kept as failed. */
  readonly failedBytes: number;
}

/** No limits at all, for commands and tests. */
export const unlimited: SpoolLimits = {
  minFreeBytes: 0,
  queuedMessages: Number.POSITIVE_INFINITY,
  queuedBytes: Number.POSITIVE_INFINITY,
  failedMessages: Number.POSITIVE_INFINITY,
  failedBytes: Number.POSITIVE_INFINITY,
};

/** 5 % of the file system or 1 GiB, whichever is smaller. @param totalBytes of the file system */
export function defaultMinFreeBytes(totalBytes: number): number {
  return Math.min(Math.floor(totalBytes / 20), 1_073_741_824);
}

/** Says to an account why it may not have one more message queued, and what it can do; undefined where it may. @param held what it has queued @param size octets */
export function whyOverQuota(limits: SpoolLimits, held: Tally, account: string, size: number): string | undefined {
  const { queuedMessages, queuedBytes = Number.POSITIVE_INFINITY } = limits;
  const { queued } = held.messages;
  const { octets } = held;
  const cure = 'try again when some have left the queue, or have the operator raise the limit';
  if (queued >= queuedMessages)
    return `Account ${account} has ${queued} messages queued, and spool.account.queuedMessages is ${queuedMessages}: ${cure}`;
  if (octets.queued + size <= queuedBytes) return undefined;
  return `Account ${account} has ${octets.queued} octets of messages queued, and spool.account.queuedBytes is ${queuedBytes}; this message has ${size}: ${cure}`;
}

/** Messages of one account that were removed before their time. */
export interface RemovedFailures {
  readonly account: string;
  readonly messages: number;
  readonly octets: number;
}

/** What a spool is opened with, whatever the engine. */
export interface SpoolOptions {
  readonly clock?: Clock;
  readonly log?: Logger;
  /** Absent: no limits. The free room of a server's disk is not known. */
  readonly limits?: SpoolLimits;
  /** How long events are kept; absent: `defaultEventLimits`. */
  readonly eventLimits?: EventLimits;
  /** How many reports to senders are made; absent: any number. */
  readonly reportLimits?: ReportLimits;
  /** Whether messages get rows in the journal; absent: yes. */
  readonly hasJournal?: boolean;
  /** Knows how much content the journal keeps; absent: it may be any amount. */
  readonly contentGauge?: ContentGauge | undefined;
  /** Called with how many failed messages were removed, and of which account, because their account has too many. */
  readonly onRemoved?: (removed: RemovedFailures) => void;
  /** Called after each commit with how many operations it had. */
  readonly onCommitted?: (operations: number) => void;
}

/** What a spool keeps, with a value for everything. */
export type KeptSettings = Required<Pick<SpoolOptions, 'limits' | 'eventLimits' | 'reportLimits' | 'hasJournal'>>;

/** Fills in what a spool was not told. */
export function keptSettings(told: SpoolOptions): KeptSettings {
  const { limits = unlimited, eventLimits = defaultEventLimits, hasJournal = true } = told;
  return { limits, eventLimits, reportLimits: told.reportLimits ?? unlimitedReports, hasJournal };
}
