// The proposed settings of one credential as lines for the configuration file, and as the credential that they make.

import type { Credential } from '../../accounts/account.ts';
import { senderMap } from '../../accounts/sender-map.ts';
import { stripRules } from '../../accounts/strip-rules.ts';
import { isRecord } from '../../base/is-record.ts';
import { patternsOfSets } from '../policy/strip-sets.ts';
import type { CredentialLines } from './settings.ts';

/** Words that YAML reads as something else than text. */
const plainText = /^(?!(?:true|false|null|yes|no|on|off|y|n)$)[A-Za-z][A-Za-z0-9_.*-]*$/i;

/** A text as YAML, in quotes where it needs them. ASCII. */
export function yamlText(text: string): string {
  return plainText.test(text) ? text : JSON.stringify(text).replace(/[^\x20-\x7e]/g, escapeUnit);
}

/** One unit of UTF-16 as YAML and JSON escape it. */
export function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** A value of a line, as YAML on one line. */
export function yamlValue(value: unknown): string {
  if (value === true) return 'true';
  if (isRecord(value)) {
    const members = Object.entries(value).map(([key, one]) => `${yamlText(key)}: ${yamlText(String(one))}`);
    return `{ ${members.join(', ')} }`;
  }
  return Array.isArray(value) ? `[${value.map((one) => yamlText(String(one))).join(', ')}]` : yamlText(String(value));
}

/** The lines to put into the credential's entry, in place of those of the same keys: `strip: [User-Agent]`. ASCII. */
export function yamlLines(lines: CredentialLines): readonly string[] {
  return Object.entries(lines).map(([key, value]) => `${key}: ${yamlValue(value)}`);
}

/** What each named set among the lines takes out, a sentence each. */
export function setSentences({ stripSets = [] }: CredentialLines): readonly string[] {
  return stripSets.map((set) => `The set ${set} takes out ${patternsOfSets([set]).join(', ')}.`);
}

/** The credential with these lines in its entry. */
export function withLines(credential: Credential, lines: CredentialLines): Credential {
  const { defaultDomain, legacyCharset, senders, replyTo } = lines;
  // What belongs to somebody is known where the file is read; a rehearsal is about mail of nobody's.
  const isOwned = credential.senders?.isOwned ?? (() => false);
  return {
    ...credential,
    strip: stripRules({
      strip: [...(lines.strip ?? []), ...patternsOfSets(lines.stripSets ?? [])],
      stripInvalid: lines.stripInvalid ?? [],
      stripEmpty: lines.stripEmpty ?? false,
      keepFirst: lines.keepFirst ?? [],
    }),
    trustedHop: lines.trustedHop ?? false,
    ...(defaultDomain === undefined ? {} : { defaultDomain }),
    ...(legacyCharset === undefined ? {} : { legacyCharset }),
    ...(senders ? { senders: senderMap(senders, { repliesToOriginal: replyTo === 'original', isOwned }) } : {}),
  };
}
