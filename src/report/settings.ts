// Settings of a credential that cure refusals: their lines in the configuration, and whether a credential has them already (D4,
// D4a, D4b).

import type { Credential } from '../accounts/account.ts';
import type { StripRules } from '../accounts/strip-rules.ts';
import { type StripSetName, stripSetNames, stripSets } from '../policy/strip-sets.ts';
import { isOfSet, smallestSets } from './smallest-sets.ts';

/** One setting. Names of fields are as they were given, domains A-labels. */
export type Setting =
  | { readonly kind: 'strip'; readonly name: string }
  | { readonly kind: 'keepFirst'; readonly name: string }
  | { readonly kind: 'stripEmpty' }
  | { readonly kind: 'trustedHop' }
  | { readonly kind: 'defaultDomain'; readonly domain: string }
  | { readonly kind: 'legacyCharset'; readonly charset: string };

/** A text by which equal settings are known: two that differ in the case of a field's name are equal. */
export function settingKey(setting: Setting): string {
  switch (setting.kind) {
    case 'strip':
    case 'keepFirst':
      return `${setting.kind} ${setting.name.toLowerCase()}`;
    case 'defaultDomain':
      return `${setting.kind} ${setting.domain}`;
    case 'legacyCharset':
      return `${setting.kind} ${setting.charset}`;
    case 'stripEmpty':
    case 'trustedHop':
      return setting.kind;
    default:
      return setting satisfies never;
  }
}

/** Whether a credential has a setting already. */
export function hasSetting({ strip, ...credential }: Credential, setting: Setting): boolean {
  switch (setting.kind) {
    case 'strip':
      return removes(strip, setting.name);
    case 'keepFirst':
      return strip.keepFirst.has(setting.name.toLowerCase());
    case 'stripEmpty':
      return strip.empty;
    case 'trustedHop':
      return credential.trustedHop;
    case 'defaultDomain':
      return credential.defaultDomain !== undefined;
    case 'legacyCharset':
      return credential.legacyCharset?.toLowerCase() === setting.charset;
    default:
      return setting satisfies never;
  }
}

function removes({ names, prefixes }: StripRules, name: string): boolean {
  const key = name.toLowerCase();
  return names.has(key) || prefixes.some((prefix) => key.startsWith(prefix));
}

/** The part of a credential's configuration that cures refusals, with keys as in the file. */
export interface CredentialLines {
  readonly strip?: readonly string[];
  readonly stripSets?: readonly StripSetName[];
  readonly stripEmpty?: true;
  readonly keepFirst?: readonly string[];
  readonly trustedHop?: true;
  readonly defaultDomain?: string;
  readonly legacyCharset?: string;
}

/** The present rules in the form of the configuration: whole sets by their names, the rest as patterns. */
function presentLines({
  names,
  prefixes,
  spellings,
}: StripRules): Required<Pick<CredentialLines, 'strip' | 'stripSets'>> {
  const keys = [...names, ...prefixes.map((prefix) => `${prefix}*`)];
  const patterns = keys.map((key) => spellings.get(key) ?? key);
  const has = new Set(keys);
  const sets = stripSetNames.filter((set) => stripSets[set].every(({ pattern }) => has.has(pattern.toLowerCase())));
  return { stripSets: sets, strip: patterns.filter((pattern) => !sets.some((set) => isOfSet(set, pattern))) };
}

function presentFirsts(rules: StripRules | undefined): readonly string[] {
  return rules ? [...rules.keepFirst].map((key) => rules.spellings.get(key) ?? key) : [];
}

type Named = Extract<Setting, { readonly name: string }>;

function namesOf(settings: readonly Setting[], kind: Named['kind']): string[] {
  const names = new Map<string, string>();
  for (const setting of settings) {
    if (setting.kind === kind && !names.has(setting.name.toLowerCase()))
      names.set(setting.name.toLowerCase(), setting.name);
  }
  return [...names.values()];
}

/**
 * The settings in the configuration's words, together with what the credential has: these lines take the place of its
 * own. Where several fields belong to one of the named sets, the smallest such set stands for them.
 * @param settings the most wanted first: of several domains or charsets the first counts
 * @param credential its present settings stay; undefined: it has none
 */
export function credentialLines(settings: readonly Setting[], credential?: Credential): CredentialLines {
  const { strip: rules, trustedHop, defaultDomain, legacyCharset } = credential ?? {};
  const present = rules ? presentLines(rules) : { strip: [], stripSets: [] };
  const wanted = namesOf(settings, 'strip').filter((name) => !rules || !removes(rules, name));
  const { sets, rest } = smallestSets(wanted);
  const stripNames = [...present.strip.filter((pattern) => !sets.some((set) => isOfSet(set, pattern))), ...rest];
  const strip = stripNames.toSorted((left, right) => left.localeCompare(right, 'en'));
  const setNames = [...present.stripSets, ...sets];
  const keepFirst = [...presentFirsts(rules), ...namesOf(settings, 'keepFirst')];
  const domain = defaultDomain ?? settings.find((setting) => setting.kind === 'defaultDomain')?.domain;
  const charset = settings.find((setting) => setting.kind === 'legacyCharset')?.charset ?? legacyCharset;
  const has = (kind: Setting['kind']): boolean => settings.some((setting) => setting.kind === kind);
  return {
    ...(strip.length > 0 ? { strip } : {}),
    ...(setNames.length > 0 ? { stripSets: setNames } : {}),
    ...(rules?.empty || has('stripEmpty') ? { stripEmpty: true } : {}),
    ...(keepFirst.length > 0
      ? { keepFirst: [...new Map(keepFirst.map((one) => [one.toLowerCase(), one])).values()] }
      : {}),
    ...(trustedHop || has('trustedHop') ? { trustedHop: true } : {}),
    ...(domain === undefined ? {} : { defaultDomain: domain }),
    ...(charset === undefined ? {} : { legacyCharset: charset }),
  };
}
