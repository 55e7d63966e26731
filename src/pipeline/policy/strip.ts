// Decides which fields of a message are removed because the operator said so for the credential (D4a, D4e).

import { hasName, type StripRules } from '../../accounts/strip-rules.ts';
import type { HeaderField } from '../../mail/header/header-reader.ts';
import { decodeWords, trimBlanks } from '../../mail/header/header-text.ts';
import { readRawText } from '../../mail/header/raw-text.ts';
import { findHeader } from './header-catalogue.ts';
import { asciiLower } from './value-rules.ts';

/** Why a field is removed: the rules name it, it has no value, another of its name came before it, its value is refused. */
export type StripReason = 'named' | 'empty' | 'repeated' | 'invalid';

/** Decides about the fields of one message. */
export interface Stripper {
  /** Called for each field in order: whether it is removed before it is judged, and why; undefined if it stays. */
  readonly unseen: (key: string, field: HeaderField) => StripReason | undefined;
  /** Called for a field that stayed and whose value is refused: whether it is removed for that. */
  readonly invalid: (key: string) => boolean;
}

/** Tells whether rules may remove a header at all: any but the lifted and the MIME fields (D4a). @param name in any case */
export function mayStrip(name: string): boolean {
  const handling = findHeader(asciiLower(name))?.overSmtp;
  return handling !== 'lifted' && handling !== 'mime';
}

const blankOctets: ReadonlySet<number> = new Set([0x20, 0x09, 0x0d, 0x0a]);

/** Tells whether nothing is left of a value after unfolding, trimming and decoding, as the policy sees it (D11). */
function isEmpty(key: string, { rawBytes, fault }: HeaderField): boolean {
  if (fault !== undefined) return false;
  const start = rawBytes.findIndex((octet) => !blankOctets.has(octet));
  if (start === -1) return true;
  // Otherwise only an encoded-word without content, such as =?utf-8?Q??=, can be empty.
  if (rawBytes[start] !== 0x3d) return false;
  const structured = findHeader(key)?.syntax !== 'text';
  const text = readRawText(rawBytes, { legacyCharset: 'windows-1252', folded: true, structured });
  return trimBlanks(decodeWords(trimBlanks(text))) === '';
}

/** Prepares the rules for one message; its fields are handed in from top to bottom. */
export function createStripper(rules: StripRules): Stripper | undefined {
  const { names, prefixes, invalid, empty, keepFirst } = rules;
  const lists = [names, prefixes, invalid.names, invalid.prefixes, keepFirst];
  if (!empty && lists.every((list) => ('size' in list ? list.size : list.length) === 0)) return undefined;
  const seen = new Set<string>();
  const reasonOf = (key: string, field: HeaderField): StripReason | undefined => {
    if (hasName(rules, key)) return 'named';
    if (empty && isEmpty(key, field)) return 'empty';
    if (!keepFirst.has(key)) return undefined;
    if (seen.has(key)) return 'repeated';
    seen.add(key);
    return undefined;
  };
  return {
    unseen: (key, field) => {
      const reason = reasonOf(key, field);
      return reason !== undefined && mayStrip(key) ? reason : undefined;
    },
    invalid: (key) => {
      if (!hasName(invalid, key) || !mayStrip(key)) return false;
      // What goes is not the first of its name: the next one may be.
      seen.delete(key);
      return true;
    },
  };
}
