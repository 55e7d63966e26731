// Collects refusals by credential and mailer, and what cures them, in a bounded number of rows.

import type { Credential } from '../../accounts/account.ts';
import { cutText } from '../../spool/events/event-bounds.ts';
import type { EventViolation } from '../../spool/events/mail-event.ts';
import { type Cure, cureOf, type MessageFacts } from './cure.ts';
import { type CredentialLines, credentialLines, hasSetting, type Setting, settingKey } from './settings.ts';

/** Rows that are held at most: kinds of reasons, over all credentials and mailers. */
export const MAX_ROWS = 10_000;
/** How many mailers of one credential, and how many credentials, are kept apart at most. Further ones are told together. */
export const MAX_MAILERS = 2000;
const maxCredentials = 2000;
/** The name under which further mailers and credentials are told together. */
export const otherMailers = '(others)';
const mostExamples = 3;

/** In how many equal parts of a time the messages of a reason are counted. */
export const countedParts = 24;

/** One message that was judged, by the gateway or in a rehearsal, or one recipient that was refused. */
export interface Finding {
  readonly account: string;
  readonly credential: string;
  /** The mark by which its program is known: `User-Agent: s-nail v14.9.24`, `HELO printer.example`. */
  readonly mailer: string;
  /** Milliseconds since 1970: of the event, or the message's Date. */
  readonly at?: number | undefined;
  /** Where it can be looked at: the id of its entry in the journal, or its file with its number there. */
  readonly id?: string | undefined;
  /** Only a recipient was refused: no message is counted. */
  readonly isRecipient?: boolean;
  /** Why it was refused, or, for an accepted message, what was removed because it would have been refused (D4c). */
  readonly reasons: readonly EventViolation[];
  readonly accepted: boolean;
  /** Problems that are no reason to refuse, in the form of reasons: text that is read in the wrong character set. */
  readonly hints?: readonly EventViolation[];
  readonly facts: MessageFacts;
}

/** One kind of reason. */
export interface Problem {
  readonly code: string;
  readonly field?: string | undefined;
  /** The text of the first such reason found. */
  readonly message: string;
  readonly count: number;
  /** Milliseconds since 1970. */
  readonly firstSeen?: number | undefined;
  readonly lastSeen?: number | undefined;
  /** How many have it in each part of the counted time, the oldest first; absent where none is counted. */
  readonly times?: readonly number[] | undefined;
  /** Where the last messages that have it can be looked at, as `Finding.id` says: the newest last. */
  readonly examples: readonly string[];
  readonly cure: Cure;
  /** Whether the credential's present configuration cures it already. */
  readonly isCured: boolean;
}

/** What one mailer sent by one credential. */
export interface MailerReport {
  readonly mailer: string;
  readonly refused: number;
  /** How many recipients were refused by themselves. */
  readonly recipients: number;
  /** How many messages passed only because the policy is observed, and would be refused when it is enforced (D4c). */
  readonly observed: number;
  readonly lastSeen?: number | undefined;
  /** The most frequent first. */
  readonly problems: readonly Problem[];
}

/** The report of one credential. */
export interface CredentialReport {
  readonly account: string;
  readonly credential: string;
  readonly accepted: number;
  readonly refused: number;
  readonly observed: number;
  /** Those with problems, the most refused first. */
  readonly mailers: readonly MailerReport[];
  /** Settings that cure problems and that the credential does not have yet, the most frequent first. */
  readonly settings: readonly Setting[];
  /** The lines of its configuration entry with these settings added. Empty where there are none to add. */
  readonly proposal: CredentialLines;
}

/** Finds a credential of the present configuration. */
export type FindCredential = (account: string, credential: string) => Credential | undefined;

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

interface ProblemRow extends Mutable<Omit<Problem, 'times' | 'examples' | 'isCured'>> {
  readonly times: number[] | undefined;
  readonly examples: string[];
}

interface MailerRow extends Mutable<Omit<MailerReport, 'problems'>> {
  readonly problems: Map<string, ProblemRow>;
}

interface CredentialRow extends Mutable<Omit<CredentialReport, 'mailers' | 'settings' | 'proposal'>> {
  readonly mailers: Map<string, MailerRow>;
}

/** The rule that a reason is about: reasons that differ only in what they quote share one row. */
function ruleOf({ code, message }: EventViolation): string {
  // Each such reason names the recipient.
  if (code === 'E_RECIPIENT_SUPPRESSED') return '';
  return message
    .replace(/"[^"]*"/g, '""')
    .replace(/<[^>]*>/g, '<>')
    .replace(/; got .*$/, '')
    .replace(/\d+/g, '0');
}

/** What reasons of one row have in common. A domain that is nobody's is told at MAIL and for From: once, where one change cures both. */
function keyOf(reason: EventViolation, facts: MessageFacts): string {
  const { code, field = '', message } = reason;
  if (code !== 'E_SENDER_NOT_VERIFIED') return cutText(`${code} ${field} ${ruleOf(reason)}`.toLowerCase(), 400);
  const cure = cureOf(reason, facts);
  const change = cure.kind === 'config' ? cure.settings.map(settingKey).join(' ') : cure.text;
  return cutText(`${code} ${message.split(' ', 1)[0]} ${change}`.toLowerCase(), 400);
}

function later(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.max(one, other);
}

/** What was found so far. */
export class Findings {
  /** How many reasons got no row because there were too many kinds. */
  unlisted = 0;
  readonly #credentials = new Map<string, CredentialRow>();
  readonly #time: { readonly from: number; readonly to: number } | undefined;
  #rows = 0;

  /** @param time whose parts are counted, milliseconds since 1970 */
  constructor(time?: { readonly from: number; readonly to: number }) {
    this.#time = time;
  }

  add(finding: Finding): void {
    const row = this.#credential(finding);
    if (finding.accepted) row.accepted += 1;
    else if (!finding.isRecipient) row.refused += 1;
    if (finding.accepted && finding.reasons.length > 0) row.observed += 1;
    const { reasons, hints = [] } = finding;
    if (finding.accepted && reasons.length + hints.length === 0) return;
    const mailer = this.#mailer(row, finding.mailer);
    if (finding.isRecipient) mailer.recipients += 1;
    else if (!finding.accepted) mailer.refused += 1;
    else if (reasons.length > 0) mailer.observed += 1;
    mailer.lastSeen = later(mailer.lastSeen, finding.at);
    const told = new Set<string>();
    for (const reason of [...reasons, ...hints]) {
      const key = keyOf(reason, finding.facts);
      if (!told.has(key)) this.#addReason(mailer, key, reason, finding);
      told.add(key);
    }
  }

  /** Tells what was found, the most refused first. @param present finds the settings that credentials have now */
  report(present: FindCredential): readonly CredentialReport[] {
    return [...this.#credentials.values()]
      .map((row) => credentialReport(row, present(row.account, row.credential)))
      .toSorted((one, two) => two.refused - one.refused || two.observed - one.observed);
  }

  #credential({ account, credential }: Finding): CredentialRow {
    const isFull = this.#credentials.size >= maxCredentials;
    const wanted = `${account}/${credential}`;
    const found = this.#credentials.get(wanted) ?? (isFull ? this.#credentials.get(otherMailers) : undefined);
    if (found) return found;
    const counts = { accepted: 0, refused: 0, observed: 0, mailers: new Map<string, MailerRow>() };
    const row = isFull ? { account: otherMailers, credential: '', ...counts } : { account, credential, ...counts };
    this.#credentials.set(isFull ? otherMailers : wanted, row);
    return row;
  }

  #mailer({ mailers }: CredentialRow, name: string): MailerRow {
    const isFull = mailers.size >= MAX_MAILERS || this.#rows >= MAX_ROWS;
    const key = mailers.has(name) || !isFull ? name : otherMailers;
    const found = mailers.get(key);
    if (found) return found;
    const counts = { refused: 0, recipients: 0, observed: 0, lastSeen: undefined };
    const row: MailerRow = { mailer: key, ...counts, problems: new Map() };
    mailers.set(key, row);
    this.#rows += 1;
    return row;
  }

  #addReason({ problems }: MailerRow, key: string, reason: EventViolation, { facts, at, id }: Finding): void {
    const found = problems.get(key);
    if (found) {
      found.count += 1;
      found.lastSeen = later(found.lastSeen, at);
      this.#countTime(found, at);
      return keepExample(found.examples, id);
    }
    if (this.#rows >= MAX_ROWS) {
      this.unlisted += 1;
      return;
    }
    this.#rows += 1;
    const { code, field, message } = reason;
    const cure = cureOf(reason, facts);
    const seenAt = { count: 1, firstSeen: at, lastSeen: at, examples: id === undefined ? [] : [id] };
    const times = this.#time && Array.from({ length: countedParts }, () => 0);
    const row: ProblemRow = { code, field, message, cure, ...seenAt, times };
    this.#countTime(row, at);
    problems.set(key, row);
  }

  #countTime({ times }: ProblemRow, at: number | undefined): void {
    if (!this.#time || !times || at === undefined) return;
    const { from, to } = this.#time;
    const part = Math.floor((countedParts * (at - from)) / Math.max(1, to - from));
    // An event of the last moment may be a little newer than the end that was asked for.
    const index = Math.max(0, Math.min(countedParts - 1, part));
    times[index] = (times[index] ?? 0) + 1;
  }
}

function keepExample(examples: string[], id: string | undefined): void {
  if (id === undefined || examples.at(-1) === id) return;
  examples.push(id);
  if (examples.length > mostExamples) examples.shift();
}

function isCured({ cure }: ProblemRow, present: Credential | undefined): boolean {
  return present !== undefined && cure.kind === 'config' && cure.settings.every((one) => hasSetting(present, one));
}

function mailerReport(row: MailerRow, present: Credential | undefined): MailerReport {
  const problems = [...row.problems.values()].toSorted((one, two) => two.count - one.count);
  return { ...row, problems: problems.map((problem) => ({ ...problem, isCured: isCured(problem, present) })) };
}

/** The settings that cure problems, each once, the most wanted first, without those that the credential has. */
function wantedSettings(mailers: readonly MailerReport[], present: Credential | undefined): readonly Setting[] {
  const counts = new Map<string, { readonly setting: Setting; count: number }>();
  for (const { cure, count } of mailers.flatMap(({ problems }) => problems)) {
    if (cure.kind !== 'config') continue;
    for (const setting of cure.settings) {
      if (present && hasSetting(present, setting)) continue;
      const known = counts.get(settingKey(setting));
      if (known) known.count += count;
      else counts.set(settingKey(setting), { setting, count });
    }
  }
  return [...counts.values()].toSorted((one, two) => two.count - one.count).map(({ setting }) => setting);
}

function weightOf({ refused, recipients, observed }: MailerReport): number {
  return refused + recipients + observed;
}

function credentialReport(row: CredentialRow, present: Credential | undefined): CredentialReport {
  const mailers = [...row.mailers.values()]
    .map((one) => mailerReport(one, present))
    .toSorted((one, two) => weightOf(two) - weightOf(one));
  const settings = wantedSettings(mailers, present);
  const proposal = settings.length === 0 ? {} : credentialLines(settings, present);
  return { ...row, mailers, settings, proposal };
}
