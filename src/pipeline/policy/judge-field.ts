// Judges one header field by itself: its name, class, characters, length and value (in the order of rules of D2).

import type { FieldFault, HeaderField } from '../../mail/header/header-reader.ts';
import { decodeWords, trimBlanks } from '../../mail/header/header-text.ts';
import { readRawText } from '../../mail/header/raw-text.ts';
import { canFoldAddresses } from '../../mail/write-field.ts';
import { findHeader, type HeaderRow, headerCatalogue, type OverSmtp } from './header-catalogue.ts';
import { type RejectionCode, tellingWords } from './rejections.ts';
import type { Stripper, StripReason } from './strip.ts';
import type { CheckedField, Submission } from './submission.ts';
import {
  asciiLower,
  byteOrderMarkFault,
  forbiddenCharacter,
  headerLimits,
  judgeValue,
  nameFault,
  shown,
} from './value-rules.ts';

/** What becomes of a field: as in the catalogue, or removed for the credential (D4a), or refused for its name or class. */
export type Handling = OverSmtp | 'stripped';

/** The order in which a name's rules are judged (D2); the first broken one is reported. */
export const ruleRank = { name: 0, class: 1, characters: 2, length: 3, value: 4, repetition: 5 } as const;

/** A broken rule of one field. */
export interface FieldViolation {
  readonly rank: number;
  readonly code: RejectionCode;
  readonly message: string;
}

/** A field's name, looked up in the catalogue. */
interface FieldIdentity {
  /** In lower case; a name that breaks the syntax has only its ASCII letters lowered. */
  readonly key: string;
  /** Undefined where the catalogue does not have the name. */
  readonly row: HeaderRow | undefined;
  readonly fault: string | undefined;
}

/** One field with its verdict. */
export interface JudgedField {
  readonly field: HeaderField;
  readonly key: string;
  readonly row: HeaderRow | undefined;
  readonly handling: Handling;
  /** Why the field is removed; only stripped fields have it. */
  readonly stripReason?: StripReason;
  /** Absent on stripped fields and on fields refused for their name or class. */
  readonly value?: CheckedField;
  readonly violation?: FieldViolation;
}

const lineFaults: Partial<Record<FieldFault, (name: string) => string>> = {
  'no-colon': (name) => `The header line "${shown(name)}" has no colon`,
  'space-before-colon': (name) => `The header name "${shown(trimBlanks(name))}" has white space before its colon`,
  'leading-continuation': () => 'The header section begins with a continuation line',
};

const valueFaults: Partial<Record<FieldFault, string>> = {
  'not-a-string': 'must be a string',
  'lone-surrogate': 'has a lone surrogate, which is no character',
};

// Most names come in one of two spellings, which skip the syntax check and the lowering.
const knownSpellings = new Map<string, FieldIdentity>();
for (const [key, row] of Object.entries(headerCatalogue)) {
  if (key.endsWith('*')) continue;
  const identity = { key, row, fault: undefined };
  knownSpellings.set(row.name, identity).set(key, identity);
}

/** Looks a field's name up and judges its syntax (D10). */
function identify(field: HeaderField): FieldIdentity {
  const describe = field.fault && lineFaults[field.fault];
  if (describe) {
    const fault = byteOrderMarkFault(field.name) ?? describe(field.name);
    return { key: asciiLower(trimBlanks(field.name)), row: undefined, fault };
  }
  const known = knownSpellings.get(field.name);
  if (known) return known;
  const fault = nameFault(field.name);
  if (fault !== undefined) return { key: asciiLower(field.name), row: undefined, fault };
  const key = field.name.toLowerCase();
  return { key, row: findHeader(key), fault: undefined };
}

/** Whether a field is a custom header of a REST request; else it is of the header section or of the API's other fields. */
export function isApiHeader(field: HeaderField): boolean {
  return field.pointer?.startsWith('/headers/') ?? false;
}

function notAllowed(name: string, row: HeaderRow | undefined): FieldViolation {
  const reason =
    row === undefined
      ? 'is not on the allowlist'
      : row.overSmtp === 'trace'
        ? 'is set by the platform; only a trusted hop may bring its own'
        : row.class === 'mime'
          ? 'describes the body and cannot be given as a header'
          : 'is set by the platform and cannot be given';
  return { rank: ruleRank.class, code: 'E_HEADER_NOT_ALLOWED', message: `${shown(name)} ${reason}` };
}

/** What becomes of a field of this row, or why its class is refused (D3, D4). */
function classify(field: HeaderField, row: HeaderRow | undefined, trustedHop: boolean): Handling | FieldViolation {
  if (row === undefined) return notAllowed(field.name, row);
  if (row.overSmtp === 'custom') return 'custom';
  if (isApiHeader(field)) {
    if (row.apiField === undefined) return notAllowed(field.name, row);
    const message = `${shown(field.name)} belongs in the field "${row.apiField}", not in headers`;
    return { rank: ruleRank.class, code: 'E_HEADER_USE_API_FIELD', message };
  }
  if (row.overSmtp === 'refused' || (row.overSmtp === 'trace' && !trustedHop)) return notAllowed(field.name, row);
  return row.overSmtp;
}

function invalid(rank: number, message: string): FieldViolation {
  return { rank, code: 'E_HEADER_VALUE_INVALID', message };
}

/** Judges characters (D11) before and after decoding; `decoded` is `given` where encoded-words are not decoded. */
function judgeCharacters(given: string, decoded: string): string | undefined {
  const character = forbiddenCharacter(given);
  if (character !== undefined) return `holds ${character}`;
  if (!given.includes('=?')) return undefined;
  const hidden = forbiddenCharacter(decoded);
  if (hidden !== undefined) return `holds ${hidden} inside an encoded-word`;
  return decoded.isWellFormed() ? undefined : 'holds a lone surrogate inside an encoded-word';
}

/** Judges a custom header whose characters are allowed: emptiness, length, value (D6, D8, D9, D11). */
function judgeCustom(
  row: HeaderRow,
  name: string,
  { text, decoded }: Pick<CheckedField, 'text' | 'decoded'>,
): FieldViolation | { readonly canonical?: string } {
  if (decoded === '') return invalid(ruleRank.characters, `${name}${tellingWords.isEmpty}`);
  // UTF-8 takes at most three bytes for each unit of UTF-16, so short values need not be counted.
  if (decoded.length * 3 > headerLimits.valueBytes) {
    const bytes = Buffer.byteLength(decoded);
    if (bytes > headerLimits.valueBytes) {
      const message = `${name} has ${bytes} bytes, at most ${headerLimits.valueBytes} are allowed`;
      return { rank: ruleRank.length, code: 'E_HEADER_VALUE_TOO_LONG', message };
    }
  }
  const { reason, canonical } = judgeValue(row, decoded, text);
  if (reason !== undefined) return invalid(ruleRank.value, `${name} ${reason}`);
  return canonical === undefined ? {} : { canonical };
}

/** Judges addresses that people see (D12); From has rules of its own, and Bcc never leaves. */
function judgeLifted({ name, syntax }: HeaderRow, text: string): FieldViolation | undefined {
  if (syntax !== 'addresses' || name === 'From' || name === 'Bcc' || canFoldAddresses(text)) return undefined;
  return invalid(ruleRank.length, `${name} holds an address that no line of 998 octets can hold`);
}

/** Reads and judges the value of a field that its class lets pass. */
function judgeFieldValue(submission: Submission, field: HeaderField, row: HeaderRow): Omit<JudgedField, 'key' | 'row'> {
  const { legacyCharset, kind } = submission.via;
  const handling = row.overSmtp;
  const name = row.class === 'extension' ? field.name : row.name;
  const structured = row.syntax !== 'text';
  // D11: in JSON any CR or LF is forbidden, also one that would be a fold.
  const given = readRawText(field.rawBytes, { legacyCharset, folded: kind !== 'rest', structured });
  const text = trimBlanks(given);
  const words = decodeWords(text);
  const decoded = words === text ? text : trimBlanks(words);
  const value = { name, text, decoded, rawBytes: field.rawBytes };
  const fault = field.fault === undefined ? undefined : valueFaults[field.fault];
  const bad = fault ?? judgeCharacters(given, handling === 'lifted' || handling === 'custom' ? words : given);
  if (bad !== undefined) {
    return { field, handling, value, violation: invalid(ruleRank.characters, `${shown(name)} ${bad}`) };
  }
  if (handling !== 'custom') {
    const violation = handling === 'lifted' ? judgeLifted(row, text) : undefined;
    return { field, handling, value, ...(violation ? { violation } : {}) };
  }
  const judged = judgeCustom(row, shown(name), value);
  if ('code' in judged) return { field, handling, value, violation: judged };
  return { field, handling, value: judged.canonical === undefined ? value : { ...value, text: judged.canonical } };
}

/** Tells whether a line is no field: the text in place of its name cannot be a name that an operator meant. */
function isBrokenLine({ fault }: HeaderField): boolean {
  return fault !== undefined && lineFaults[fault] !== undefined;
}

/** The verdict on a field that is removed for the credential: its value counts for nothing. */
export function strippedField(
  { field, key, row }: Pick<JudgedField, 'field' | 'key' | 'row'>,
  stripReason: StripReason,
): JudgedField {
  return { field, key, row, handling: 'stripped', stripReason };
}

/** Judges one field by itself. @param strip decides what the operator has removed (D4a, D4e); absent: nothing */
export function judgeField(submission: Submission, field: HeaderField, strip?: Stripper): JudgedField {
  const { key, row, fault } = identify(field);
  // Decided before the name is judged, so that a name that breaks D10, such as MSIP_Labels, can be removed too.
  const stripReason = strip && !isBrokenLine(field) ? strip.unseen(key, field) : undefined;
  if (stripReason) return strippedField({ field, key, row }, stripReason);
  if (fault !== undefined) {
    const violation = { rank: ruleRank.name, code: 'E_HEADER_NAME_INVALID', message: fault } as const;
    return { field, key, row, handling: 'refused', violation };
  }
  const handling = classify(field, row, submission.via.trustedHop);
  if (typeof handling !== 'string' || row === undefined) {
    const violation = typeof handling === 'string' ? notAllowed(field.name, row) : handling;
    return { field, key, row, handling: 'refused', violation };
  }
  const judged = judgeFieldValue(submission, field, row);
  return judged.violation && strip?.invalid(key)
    ? strippedField({ field, key, row }, 'invalid')
    : { ...judged, key, row };
}
