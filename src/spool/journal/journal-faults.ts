// Finds out whether a stored row of the journal is one that its readers understand: what pack-journal.ts writes, of this release
// or an earlier one. What is absent is no fault, since earlier releases wrote less.

import { errorMessage } from '../../base/errors.ts';
import { journalOutcomes } from '../../journal/journal-row.ts';

/** The columns that are looked at. */
export interface StoredJournalRow {
  /** `outcomeNumbers`. */
  readonly outcome: number;
  readonly waiting: number;
  /** `JournalFacts` and `JournalMore` as JSON. */
  readonly facts: string;
  readonly more: string;
}

type Rule = (value: unknown) => string | undefined;

const isText: Rule = (value) => (typeof value === 'string' ? undefined : 'no text');
const isNumber: Rule = (value) => (typeof value === 'number' ? undefined : 'no number');
const isTexts: Rule = (value) =>
  Array.isArray(value) && value.every((one) => typeof one === 'string') ? undefined : 'no list of texts';
const isObject: Rule = (value) =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? undefined : 'no object';
const isReasons: Rule = (value) =>
  Array.isArray(value) && value.every((one) => isObject(one) === undefined) ? undefined : 'no list of objects';

const factRules: Readonly<Record<string, Rule>> = {
  ...{ credential: isText, via: isText, client: isText, helo: isText, mailer: isText, sender: isText },
  ...{ recipients: isTexts, count: isNumber, subject: isText, size: isNumber, codes: isTexts, fields: isTexts },
  messageId: isText,
};
const moreRules: Readonly<Record<string, Rule>> = {
  ...{ session: isText, listener: isText, stage: isText, reasons: isReasons, reasonCount: isNumber, reason: isText },
  ...{ reply: isObject, names: isText, verdicts: isText, dialogue: isText, tls: isObject, timings: isObject },
  ...{ clientMessageId: isText, sizeAsSent: isNumber, lacking: isText },
};
/** Members that every release has written. */
const required: ReadonlySet<string> = new Set(['facts.recipients', 'facts.count', 'more.session']);

function faultOfJson(column: string, json: string, rules: Readonly<Record<string, Rule>>): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (thrown) {
    return `${column} is no JSON: ${errorMessage(thrown)}`;
  }
  const fault = isObject(value);
  if (fault !== undefined) return `${column} is ${fault}`;
  const members = new Map<string, unknown>(Object.entries(value ?? {}));
  for (const [name, rule] of Object.entries(rules)) {
    const path = `${column}.${name}`;
    const member = members.get(name);
    if (member === undefined && required.has(path)) return `${path} is missing`;
    const wrong = member === undefined ? undefined : rule(member);
    if (wrong !== undefined) return `${path} is ${wrong}`;
  }
  return undefined;
}

/** Why readers do not understand a row: the member and the rule that it breaks; undefined where they do. */
export function faultOfRow({ outcome, waiting, facts, more }: StoredJournalRow): string | undefined {
  if (!Number.isInteger(outcome) || outcome < 1 || outcome > journalOutcomes.length)
    return `outcome is ${outcome}, and not 1 to ${journalOutcomes.length}`;
  if (!Number.isInteger(waiting) || waiting < 0) return `waiting is ${waiting}, and not a number of recipients`;
  return faultOfJson('facts', facts, factRules) ?? faultOfJson('more', more, moreRules);
}
