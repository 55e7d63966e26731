// Settings of a credential that cure refusals, as lines of its configuration (D4, D4a, D4b, D4d, D4e).

import type { Credential } from '../../accounts/account.ts';
import { senderMap } from '../../accounts/sender-map.ts';
import { type FieldNames, hasName, type StripRules, stripRules } from '../../accounts/strip-rules.ts';
import { isRecord } from '../../base/is-record.ts';
import { patternsOfSets, type StripSetName, stripSetNames, stripSets } from '../policy/strip-sets.ts';

/** Fields of a set that other programs write too: they do not show whose message it is. */
const commonFields: ReadonlySet<string> = new Set([
  'user-agent',
  'sender',
  'accept-language',
  'errors-to',
  'mail-followup-to',
  'autocrypt',
  'disposition-notification-to',
]);

/** With so many of its fields, a set stands for them, because more of its fields are likely to come. */
const worthASet = 3;

function covers(pattern: string, name: string): boolean {
  const [key, start] = [name.toLowerCase(), pattern.toLowerCase()];
  return start.endsWith('*') ? key.startsWith(start.slice(0, -1)) : key === start;
}

/** Whether a field, or a pattern, is one that a set removes. */
function isOfSet(set: StripSetName, name: string): boolean {
  return stripSets[set].some(({ pattern }) => pattern.toLowerCase() === name.toLowerCase() || covers(pattern, name));
}

/** Whether a field is one that only the system of one set writes: it shows where the message was. */
function isDistinctive(set: StripSetName, name: string): boolean {
  if (commonFields.has(name.toLowerCase()) || !isOfSet(set, name)) return false;
  return stripSetNames.every((other) => other === set || !isOfSet(other, name));
}

/** Whether some set names a field that no other system writes. */
export function isSystemsOwn(name: string): boolean {
  return stripSetNames.some((set) => isDistinctive(set, name));
}

function fits(set: StripSetName, names: readonly string[]): boolean {
  if (!names.some((name) => isDistinctive(set, name))) return false;
  const covered = names.filter((name) => isOfSet(set, name)).length;
  return covered >= worthASet || stripSets[set].every(({ pattern }) => names.some((name) => covers(pattern, name)));
}

/** Divides fields that are to be removed among named sets and names. @returns the sets, and the names that none of them has */
export function smallestSets(names: readonly string[]) {
  const sets: StripSetName[] = [];
  let rest = [...names];
  for (;;) {
    const left = rest;
    const covered = (set: StripSetName): number => left.filter((name) => isOfSet(set, name)).length;
    const best = stripSetNames
      .filter((set) => !sets.includes(set) && fits(set, left))
      .toSorted((one, two) => covered(two) - covered(one) || stripSets[one].length - stripSets[two].length)[0];
    if (best === undefined) return { sets, rest };
    sets.push(best);
    rest = rest.filter((name) => !isOfSet(best, name));
  }
}

/** One setting. Names of fields are as they were given, domains A-labels. */
export type Setting =
  | { readonly kind: 'strip'; readonly name: string }
  | { readonly kind: 'stripInvalid'; readonly name: string }
  | { readonly kind: 'keepFirst'; readonly name: string }
  | { readonly kind: 'stripEmpty' }
  | { readonly kind: 'trustedHop' }
  | { readonly kind: 'defaultDomain'; readonly domain: string }
  | { readonly kind: 'senders'; readonly pattern: string; readonly address: string }
  | { readonly kind: 'legacyCharset'; readonly charset: string };

/** A text by which equal settings are known: two that differ in the case of a field's name are equal. */
export function settingKey(setting: Setting): string {
  return Object.values(setting).join(' ').toLowerCase();
}

/** Whether a credential has a setting already. */
export function hasSetting({ strip, ...credential }: Credential, setting: Setting): boolean {
  switch (setting.kind) {
    case 'strip':
      return removes(strip, setting.name);
    case 'stripInvalid':
      return removes(strip, setting.name) || removes(strip.invalid, setting.name);
    case 'keepFirst':
      return strip.keepFirst.has(setting.name.toLowerCase());
    case 'stripEmpty':
      return strip.empty;
    case 'trustedHop':
      return credential.trustedHop;
    case 'defaultDomain':
      return credential.defaultDomain !== undefined;
    case 'senders':
      return credential.senders?.rules.some(({ pattern }) => pattern === setting.pattern) === true;
    case 'legacyCharset':
      return credential.legacyCharset?.toLowerCase() === setting.charset;
    default:
      return setting satisfies never;
  }
}

function removes(names: FieldNames, name: string): boolean {
  return hasName(names, name.toLowerCase());
}

/** The part of a credential's configuration that cures refusals, with keys as in the file. */
export interface CredentialLines {
  readonly strip?: readonly string[];
  readonly stripSets?: readonly StripSetName[];
  readonly stripInvalid?: readonly string[];
  readonly stripEmpty?: true;
  readonly keepFirst?: readonly string[];
  readonly trustedHop?: true;
  readonly defaultDomain?: string;
  readonly senders?: Readonly<Record<string, string>>;
  readonly replyTo?: 'original';
  readonly legacyCharset?: string;
}

/** The map of senders that nobody owns, with the wanted lines behind those that there are. */
function sendersWith(settings: readonly Setting[], present: Credential['senders']): CredentialLines['senders'] {
  const wanted = settings.filter((setting) => setting.kind === 'senders');
  const all = [...(present?.rules ?? []), ...wanted];
  return all.length === 0 ? undefined : Object.fromEntries(all.map(({ pattern, address }) => [pattern, address]));
}

/** The patterns of a list, as the file spells them. */
function patternsOf({ names, prefixes }: FieldNames, spellings: StripRules['spellings']): readonly string[] {
  return [...names, ...prefixes.map((prefix) => `${prefix}*`)].map((key) => spellings.get(key) ?? key);
}

/** The present rules in the form of the configuration: whole sets by their names, the rest as patterns. */
function presentLines(rules: StripRules): Required<Pick<CredentialLines, 'strip' | 'stripSets'>> {
  const patterns = patternsOf(rules, rules.spellings);
  const has = new Set(patterns.map((pattern) => pattern.toLowerCase()));
  const sets = stripSetNames.filter((set) => stripSets[set].every(({ pattern }) => has.has(pattern.toLowerCase())));
  return { stripSets: sets, strip: patterns.filter((pattern) => !sets.some((set) => isOfSet(set, pattern))) };
}

function sorted(names: readonly string[]): readonly string[] {
  return names.toSorted((left, right) => left.localeCompare(right, 'en'));
}

/** The names of `stripInvalid`, without those that go anyhow. @param stripped what `strip` and the sets name */
function invalidNames(settings: readonly Setting[], rules: StripRules | undefined, stripped: readonly string[]) {
  const gone = stripRules({ strip: stripped });
  const present = rules ? patternsOf(rules.invalid, rules.spellings) : [];
  const wanted = namesOf(settings, 'stripInvalid').filter((name) => !removes(gone, name));
  return sorted([...present, ...wanted]);
}

type Named = Extract<Setting, { readonly name: string }>;

function namesOf(settings: readonly Setting[], kind: Named['kind']): string[] {
  const names = settings.filter((setting): setting is Named => setting.kind === kind).map(({ name }) => name);
  return [...Map.groupBy(names, (name) => name.toLowerCase()).values()].flatMap(([first = '']) => first);
}

/**
 * The settings in the configuration's words, together with what the credential has: these lines take the place of its
 * own. Where several fields belong to one of the named sets, the smallest such set stands for them.
 * @param wished the most wanted first: of several domains or charsets the first counts
 * @param credential its present settings stay; undefined: it has none
 */
export function credentialLines(wished: readonly Setting[], credential?: Credential): CredentialLines {
  const { strip: rules, trustedHop, defaultDomain, legacyCharset, senders: map } = credential ?? {};
  const settings = credential ? wished.filter((setting) => !hasSetting(credential, setting)) : wished;
  const senders = sendersWith(settings, map);
  const present = rules ? presentLines(rules) : { strip: [], stripSets: [] };
  const { sets, rest } = smallestSets(namesOf(settings, 'strip'));
  const stripNames = [...present.strip.filter((pattern) => !sets.some((set) => isOfSet(set, pattern))), ...rest];
  const strip = sorted(stripNames);
  const setNames = [...present.stripSets, ...sets];
  const invalid = invalidNames(settings, rules, [...strip, ...patternsOfSets(setNames)]);
  const ownFirsts = rules ? [...rules.keepFirst].map((key) => rules.spellings.get(key) ?? key) : [];
  const keepFirst = [...ownFirsts, ...namesOf(settings, 'keepFirst')];
  const domain = defaultDomain ?? settings.find((setting) => setting.kind === 'defaultDomain')?.domain;
  const charset = settings.find((setting) => setting.kind === 'legacyCharset')?.charset ?? legacyCharset;
  const has = (kind: Setting['kind']): boolean => settings.some((setting) => setting.kind === kind);
  return {
    ...(strip.length > 0 ? { strip } : {}),
    ...(setNames.length > 0 ? { stripSets: setNames } : {}),
    ...(invalid.length > 0 ? { stripInvalid: invalid } : {}),
    ...(rules?.empty || has('stripEmpty') ? { stripEmpty: true } : {}),
    ...(keepFirst.length > 0 ? { keepFirst } : {}),
    ...(trustedHop || has('trustedHop') ? { trustedHop: true } : {}),
    ...(domain === undefined ? {} : { defaultDomain: domain }),
    ...(senders ? { senders } : {}),
    ...(map?.repliesToOriginal === true ? { replyTo: 'original' as const } : {}),
    ...(charset === undefined ? {} : { legacyCharset: charset }),
  };
}

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
    strip: stripRules({ ...lines, strip: [...(lines.strip ?? []), ...patternsOfSets(lines.stripSets ?? [])] }),
    trustedHop: lines.trustedHop ?? false,
    ...(defaultDomain === undefined ? {} : { defaultDomain }),
    ...(legacyCharset === undefined ? {} : { legacyCharset }),
    ...(senders ? { senders: senderMap(senders, { repliesToOriginal: replyTo === 'original', isOwned }) } : {}),
  };
}
