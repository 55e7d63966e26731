// Finds out whether a row of the journal is one that its readers understand, of this release or an earlier one, which wrote less. Of a
// row that they do not understand readers know nothing, so that it stops nobody from reading the others.

import { errorMessage } from '../../base/errors.ts';
import { isRecord } from '../../base/is-record.ts';
import { type JournalFacts, type JournalMore, type JournalRow, journalOutcomes } from './journal-row.ts';

type Rule = (value: unknown) => string | undefined;

const isText: Rule = (value) => (typeof value === 'string' ? undefined : 'no text');
const isNumber: Rule = (value) => (Number.isSafeInteger(value) ? undefined : 'no whole number');
const isTrue: Rule = (value) => (value === true ? undefined : 'not true');
const isTexts: Rule = (value) =>
  Array.isArray(value) && value.every((one) => typeof one === 'string') ? undefined : 'no list of texts';
const hasTexts = (value: unknown, names: readonly string[]): boolean =>
  isRecord(value) && names.every((name) => typeof value[name] === 'string');
const isReasons: Rule = (value) =>
  Array.isArray(value) && value.every((one) => hasTexts(one, ['code', 'message'])) ? undefined : 'no list of reasons';
const isReply: Rule = (value) =>
  isRecord(value) && Number.isSafeInteger(value['code']) ? undefined : 'no reply with a code';
const isTls: Rule = (value) => (hasTexts(value, ['version', 'cipher']) ? undefined : 'no version and cipher');
const isTimings: Rule = (value) =>
  isRecord(value) && Object.values(value).every((one) => Number.isFinite(one)) ? undefined : 'no object of numbers';

const factRules: Readonly<Record<string, Rule>> = {
  ...{ credential: isText, via: isText, client: isText, helo: isText, mailer: isText, sender: isText },
  ...{ recipients: isTexts, count: isNumber, subject: isText, size: isNumber, codes: isTexts, fields: isTexts },
  ...{ messageId: isText, shadow: isTrue },
};
const moreRules: Readonly<Record<string, Rule>> = {
  ...{ session: isText, listener: isText, stage: isText, reasons: isReasons, reasonCount: isNumber, reason: isText },
  ...{ reply: isReply, names: isText, verdicts: isText, dialogue: isText, tls: isTls, timings: isTimings },
  ...{ clientMessageId: isText, sizeAsSent: isNumber, lacking: isText },
};
/** Members that every release has written. */
const required: ReadonlySet<string> = new Set(['facts.recipients', 'facts.count', 'more.session']);

/** A column as its readers take it, or else why they do not understand it. */
type Read<Value> = { readonly value?: Value; readonly fault?: string };

function faultOfValue(column: string, value: unknown, rules: Readonly<Record<string, Rule>>): string | undefined {
  if (!isRecord(value)) return `${column} is no object`;
  for (const [name, rule] of Object.entries(rules)) {
    const path = `${column}.${name}`;
    const member = Object.hasOwn(value, name) ? value[name] : undefined;
    if (member === undefined && required.has(path)) return `${path} is missing`;
    const wrong = member === undefined ? undefined : rule(member);
    if (wrong !== undefined) return `${path} is ${wrong}`;
  }
  return undefined;
}

function read<Value>(column: string, json: string, rules: Readonly<Record<string, Rule>>): Read<Value> {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (thrown) {
    return { fault: `${column} is no JSON: ${errorMessage(thrown)}` };
  }
  const fault = faultOfValue(column, value, rules);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the rules have judged it
  return fault === undefined ? { value: value as Value } : { fault };
}

/** Reads the column `facts`; `fault` where it is damaged. */
export function readFacts(json: string): Read<JournalFacts> {
  return read('facts', json, factRules);
}

/** Reads the column `more`; `fault` where it is damaged. */
export function readMore(json: string): Read<JournalMore> {
  return read('more', json, moreRules);
}

/** Why readers do not understand a row: the member and the rule that it breaks; undefined where they do. */
export function faultOfRow(row: Pick<JournalRow, 'outcome' | 'waiting' | 'facts' | 'more'>): string | undefined {
  const { outcome, waiting, facts, more } = row;
  if (!Number.isInteger(outcome) || outcome < 1 || outcome > journalOutcomes.length)
    return `outcome is ${outcome}, and not 1 to ${journalOutcomes.length}`;
  if (!Number.isInteger(waiting) || waiting < 0) return `waiting is ${waiting}, and not a number of recipients`;
  return readFacts(facts).fault ?? readMore(more).fault;
}
