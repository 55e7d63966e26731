// Decides which fields of a message are removed because the operator said so for the credential (D4a).

import type { StripRules } from '../accounts/strip-rules.ts';
import type { HeaderField } from '../mail/header/header-field.ts';
import { decodeWords, trimBlanks } from '../mail/header/header-text.ts';
import { readRawText } from '../mail/header/raw-text.ts';
import { findHeader } from './header-catalogue.ts';
import { asciiLower } from './value-rules.ts';

/** Why a field is removed: the rules name it, it has no value, or another field of its name came before it. */
export type StripReason = 'named' | 'empty' | 'repeated';

/** Tells for each field of one message, called in order, whether it is removed and why; undefined if it stays. */
export type Stripper = (key: string, field: HeaderField) => StripReason | undefined;

/**
 * Tells whether rules may remove a header at all: any but the lifted and the MIME fields (D4a).
 * @param name in any case
 */
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
  const { names, prefixes, empty, keepFirst } = rules;
  if (names.size === 0 && prefixes.length === 0 && !empty && keepFirst.size === 0) return undefined;
  const seen = new Set<string>();
  const reasonOf = (key: string, field: HeaderField): StripReason | undefined => {
    if (names.has(key) || prefixes.some((prefix) => key.startsWith(prefix))) return 'named';
    if (empty && isEmpty(key, field)) return 'empty';
    if (!keepFirst.has(key)) return undefined;
    if (seen.has(key)) return 'repeated';
    seen.add(key);
    return undefined;
  };
  return (key, field) => {
    const reason = reasonOf(key, field);
    return reason !== undefined && mayStrip(key) ? reason : undefined;
  };
}
