// Finds out whether a row of the journal is one that its readers understand, of this release or an earlier one, which wrote less. Of a
// row that they do not understand readers know nothing, so that it stops nobody from reading the others.

import { errorMessage } from '../../base/errors.ts';
import { isRecord } from '../../base/is-record.ts';
import { fitsPlainly, Type } from '../../base/schema/schema-type.ts';
import { type JournalFacts, type JournalMore, type JournalRow, journalOutcomes } from './journal-row.ts';

const text = Type.String();
const texts = Type.Array(text);
const optional = { text: Type.Optional(text), texts: Type.Optional(texts), number: Type.Optional(Type.Integer()) };

/** The members of each column; those that are not optional every release has written. */
const members = {
  facts: {
    ...{ recipients: texts, count: Type.Integer(), credential: optional.text, via: optional.text, helo: optional.text },
    ...{ client: optional.text, mailer: optional.text, sender: optional.text, subject: optional.text },
    ...{ size: optional.number, codes: optional.texts, fields: optional.texts, messageId: optional.text },
    shadow: Type.Optional(Type.Boolean()),
  },
  more: {
    ...{ session: text, listener: optional.text, stage: optional.text, reason: optional.text, names: optional.text },
    reasons: Type.Optional(Type.Array(Type.Object({ code: text, message: text }))),
    ...{ reasonCount: optional.number, reply: Type.Optional(Type.Object({ code: Type.Integer() })) },
    ...{ verdicts: optional.text, dialogue: optional.text, clientMessageId: optional.text, lacking: optional.text },
    ...{ tls: Type.Optional(Type.Object({ version: text, cipher: text })), sizeAsSent: optional.number },
    timings: Type.Optional(Type.Record(text, Type.Number())),
  },
} as const;

/** A column as its readers take it, or else why they do not understand it. */
type Read<Value> = { readonly value?: Value; readonly fault?: string };

function read<Value>(column: keyof typeof members, json: string): Read<Value> {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (thrown) {
    return { fault: `${column} is no JSON: ${errorMessage(thrown)}` };
  }
  if (!isRecord(value)) return { fault: `${column} is no object` };
  for (const [name, schema] of Object.entries(members[column])) {
    const isKept = Object.hasOwn(value, name) ? fitsPlainly(schema, value[name]) : '~optional' in schema;
    if (!isKept) return { fault: `${column}.${name} is missing or of another type` };
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its members have been judged
  return { value: value as Value };
}

/** Reads the column `facts`; `fault` where it is damaged. */
export function readFacts(json: string): Read<JournalFacts> {
  return read('facts', json);
}

/** Reads the column `more`; `fault` where it is damaged. */
export function readMore(json: string): Read<JournalMore> {
  return read('more', json);
}

/** Why readers do not understand a row: the member and the rule that it breaks; undefined where they do. */
export function faultOfRow(row: Pick<JournalRow, 'outcome' | 'waiting' | 'facts' | 'more'>): string | undefined {
  const { outcome, waiting, facts, more } = row;
  if (!Number.isInteger(outcome) || outcome < 1 || outcome > journalOutcomes.length)
    return `outcome is ${outcome}, and not 1 to ${journalOutcomes.length}`;
  if (!Number.isInteger(waiting) || waiting < 0) return `waiting is ${waiting}, and not a number of recipients`;
  return readFacts(facts).fault ?? readMore(more).fault;
}
