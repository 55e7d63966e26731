// Writes what was refused as rules of the old server, so that it removes or rewrites at the source what would be refused here. Names
// and domains come from strangers: only those of plain characters become part of a rule, and the others are counted in a comment.

import { Part } from '../../base/part.ts';
import { findHeader } from '../policy/header-catalogue.ts';
import { headerLimits } from '../policy/value-rules.ts';
import type { CredentialReport, Problem } from './findings.ts';
import type { Setting } from './settings.ts';

/** What a kit is written for. */
export const kitFormats = ['postfix', 'exim', 'exchange'] as const;

/** One of them. */
export type KitFormat = (typeof kitFormats)[number];

/** Which headers of a name a rule removes: all, the empty ones, those with no allowed word, the too long, or all but the first. */
type RuleKind = 'all' | 'empty' | 'wrong' | 'long' | 'later';

interface HeaderRule {
  readonly kind: RuleKind;
  readonly name: string;
  /** The words that a value may be, where the rule is about others. */
  readonly words: readonly string[];
}

/** Why a setting has no rule in any of the languages; senders are known by what their reason says. */
const withoutRule: Partial<Record<Setting['kind'], string>> = {
  stripInvalid: 'no rule looks for such characters',
  trustedHop: 'a server that hands mail on writes Received itself',
  defaultDomain: 'a server completes addresses by settings of its own',
  legacyCharset: 'no rule reads text in another character set',
};

/** A header name without any character that means something in a pattern, a list or a string of these servers. */
const plainName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;
/** A domain of the same kind. */
const plainDomain = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/i;

/** The rule that does what a setting does about a problem; undefined where there is none. */
function ruleOf(setting: Setting, { code, field = '' }: Problem): HeaderRule | undefined {
  if (setting.kind === 'stripEmpty') return { kind: 'empty', name: field, words: [] };
  if (setting.kind === 'strip') return { kind: 'all', name: setting.name, words: [] };
  if (setting.kind === 'keepFirst') return { kind: 'later', name: setting.name, words: [] };
  if (setting.kind !== 'stripInvalid') return undefined;
  const { name } = setting;
  if (code === 'E_HEADER_VALUE_TOO_LONG') return { kind: 'long', name, words: [] };
  const value = findHeader(name.toLowerCase())?.value;
  return value?.kind === 'one-of' && !value.comments ? { kind: 'wrong', name, words: value.values } : undefined;
}

/** The domain that a cure maps because nobody owns it (D4d). Another's is never mapped: Postfix would rewrite recipients too. */
function mappedBy({ cure }: Problem): string | undefined {
  const setting = cure.kind === 'config' ? cure.settings.find(({ kind }) => kind === 'senders') : undefined;
  return setting?.kind === 'senders' ? setting.pattern.replace('*@', '').toLowerCase() : undefined;
}

type Written = ((rule: HeaderRule) => readonly string[]) | string;

const inPostfix: Record<RuleKind, Written> = {
  all: ({ name }) => [`/^${name}:/ IGNORE`],
  empty: ({ name }) => [`/^${name}:[[:space:]]*$/ IGNORE`],
  wrong: ({ name, words }) => [`/^${name}:[[:space:]]*(${words.join('|')})[[:space:]]*$/ DUNNO`, `/^${name}:/ IGNORE`],
  long: 'header_checks sees a value folded and encoded, which is longer',
  later: 'header_checks looks at one header at a time',
};

/** Items of headers_remove. Exim removes by name alone, so the conditions stand around the names. */
const inExim: Record<RuleKind, Written> = {
  all: ({ name }) => [name],
  empty: ({ name }) => [`\${if eq{$h_${name}:}{}{${name}}}`],
  wrong: ({ name, words }) => [`\${if !inlisti{$h_${name}:}{${words.join(':')}}{${name}}}`],
  long: ({ name }) => [`\${if >{\${strlen:\${sg{$h_${name}:}{\\n}{}}}}{${headerLimits.valueBytes}}{${name}}}`],
  later: ({ name }) => [`\${if >{\${listcount:$lh_${name}:}}{1}{${name}}}`],
};

function removal(name: string): string {
  return `New-TransportRule -Name "Postern: remove ${name}" -SentToScope NotInOrganization -RemoveHeader "${name}"`;
}

const inExchange: Record<RuleKind, Written> = {
  all: ({ name }) => [removal(name)],
  empty: 'no condition of a transport rule is known to match a header without a value',
  wrong: ({ name, words }) => [
    `${removal(name)} -ExceptIfHeaderMatchesMessageHeader "${name}" -ExceptIfHeaderMatchesPatterns '^(${words.join('|')})$'`,
  ],
  long: 'no condition of a transport rule is about the length of a value',
  later: 'a transport rule removes every header of a name',
};

interface Rules {
  /** Those that remove all headers of a name first. */
  readonly headers: readonly HeaderRule[];
  /** Domains that are rewritten, with the sending domain that stands in their place. */
  readonly domains: readonly (readonly [from: string, to: string])[];
}

function linesOf(written: Record<RuleKind, Written>, headers: readonly HeaderRule[]): readonly string[] {
  return headers.flatMap((rule) => {
    const write = written[rule.kind];
    return typeof write === 'string' ? [] : write(rule);
  });
}

function postfix({ headers, domains }: Rules): readonly string[] {
  return [
    '# main.cf, of what hands mail to Postern',
    'smtp_header_checks = regexp:/etc/postfix/postern_headers',
    'smtp_generic_maps = texthash:/etc/postfix/postern_senders',
    '',
    '# /etc/postfix/postern_headers',
    ...linesOf(inPostfix, headers),
    '',
    '# /etc/postfix/postern_senders',
    ...domains.map(([from, to]) => `@${from} @${to}`),
  ];
}

/** Exim removes all headers of a name that repeats, and adds the first again. */
function firstAgain({ name }: HeaderRule): string {
  return `  headers_add = \${if >{\${listcount:$lh_${name}:}}{1}{${name}: \${listextract{1}{$lh_${name}:}}}}`;
}

function exim({ headers, domains }: Rules): readonly string[] {
  // The list is cut at its colons before an item is expanded: those within an item are doubled.
  const removed = linesOf(inExim, headers).map((item) => item.replaceAll(':', '::'));
  const rewritten = domains.map(([from, to]) => `*@${from} $1@${to} fs`);
  const path = domains.reduce(
    (otherwise, [from, to]) =>
      `\${if eqi{$sender_address_domain}{${from}}{$sender_address_local_part@${to}}{${otherwise}}}`,
    '$return_path',
  );
  return [
    '# in the transport that hands mail to Postern',
    ...(removed.length > 0 ? [`  headers_remove = ${removed.join(' : ')}`] : []),
    ...headers.filter(({ kind }) => kind === 'later').map(firstAgain),
    ...(domains.length > 0 ? [`  headers_rewrite = ${rewritten.join(' : ')}`, `  return_path = ${path}`] : []),
  ];
}

function exchange({ headers, domains }: Rules): readonly string[] {
  return [
    '# in the Exchange Management Shell',
    ...linesOf(inExchange, headers),
    '# on an Edge Transport server',
    ...domains.map(
      ([from, to]) =>
        `New-AddressRewriteEntry -Name "Postern: ${from}" -InternalAddress "${from}" -ExternalAddress "${to}" -OutboundOnly $true`,
    ),
  ];
}

const languages = {
  postfix: { write: postfix, written: inPostfix },
  exim: { write: exim, written: inExim },
  exchange: { write: exchange, written: inExchange },
} as const;

/** The rules for problems, and what no rule can do. */
class Kit extends Part<{ readonly written: Record<RuleKind, Written> }> {
  readonly #headers = new Map<string, HeaderRule>();
  readonly #domains = new Map<string, string>();
  readonly #reasons = new Set<string>();
  #left = 0;

  /** Adds what a rule can do about a problem. @param target the domain that its account sends from */
  add(problem: Problem, target: string | undefined): void {
    const { cure } = problem;
    const domain = mappedBy(problem);
    if (domain !== undefined && target !== undefined && plainDomain.test(domain) && plainDomain.test(target)) {
      this.#domains.set(domain, target);
      return;
    }
    const settings = cure.kind === 'config' ? cure.settings : [];
    const said = settings.filter((setting) => this.#addSetting(setting, problem));
    if (settings.length === 0 || said.length < settings.length) this.#left += 1;
  }

  /** @returns whether there is a rule for it */
  #addSetting(setting: Setting, problem: Problem): boolean {
    const rule = ruleOf(setting, problem);
    if (rule && !plainName.test(rule.name)) return false;
    const written = rule && this.parts.written[rule.kind];
    if (rule && typeof written === 'function') {
      this.#headers.set(`${rule.kind} ${rule.name.toLowerCase()}`, rule);
      return true;
    }
    const why = written ?? withoutRule[setting.kind];
    const name = rule?.name ?? ('name' in setting ? setting.name : undefined);
    const about = name !== undefined && plainName.test(name) ? ` of ${name}` : '';
    if (typeof why === 'string') this.#reasons.add(`# ${setting.kind}${about}: ${why}`);
    return false;
  }

  rules(): Rules {
    const all = [...this.#headers.values()];
    const gone = new Set(all.filter(({ kind }) => kind === 'all').map(({ name }) => name.toLowerCase()));
    const others = all.filter(({ kind, name }) => kind !== 'all' && !gone.has(name.toLowerCase()));
    return { headers: [...all.filter(({ kind }) => kind === 'all'), ...others], domains: [...this.#domains] };
  }

  /** What no rule can do, and why, where that is known, as comments. */
  remarks(): readonly string[] {
    if (this.#left === 0) return [];
    const told = `# ${this.#left} kinds of refusals have no rule here: postern report tells their cures`;
    return ['', told, ...this.#reasons];
  }
}

/** Writes the rules for an old server, in lines. @param sendingDomain of an account, in place of those that nobody owns */
export function kitLines(
  format: KitFormat,
  reports: readonly CredentialReport[],
  sendingDomain: (account: string) => string | undefined,
): readonly string[] {
  const { write, written } = languages[format];
  const kit = new Kit({ written });
  for (const { account, mailers } of reports)
    for (const problem of mailers.flatMap(({ problems }) => problems)) kit.add(problem, sendingDomain(account));
  return [...write(kit.rules()), ...kit.remarks()];
}
