// Writes what was refused as rules of the old server, so that it removes or rewrites at the source what would be refused here. Names
// and domains come from strangers: only those of plain characters become part of a rule, and the others are counted in a comment.

import type { CredentialReport, Problem } from './findings.ts';

/** What a kit is written for. */
export const kitFormats = ['postfix', 'exim', 'exchange'] as const;

/** One of them. */
export type KitFormat = (typeof kitFormats)[number];

/** What the rules do. */
interface Rules {
  /** Headers that are removed. */
  readonly removed: readonly string[];
  /** Headers that are removed where they are empty, as far as the server can tell. */
  readonly ifEmpty: readonly string[];
  /** Domains that are rewritten, with the sending domain that stands in their place. */
  readonly domains: readonly (readonly [from: string, to: string])[];
  /** Refusals that no rule can cure, and names that no rule can hold. */
  readonly left: number;
}

/** A header name without any character that means something in a pattern, a list or a string of these servers. */
const plainName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;
/** A domain of the same kind. */
const plainDomain = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/i;
/** How the reasons about senders begin (D50). */
const foreignDomain = /^(\S+) (?:\(domain of (?:From|Sender)\) is not a|is no) sending domain of account /;

/** The names that the cure of a problem takes out; undefined where it takes out nothing that a rule could. */
function removedBy({ cure, field = '' }: Problem): { readonly name: string; readonly isEmpty: boolean } | undefined {
  if (cure.kind !== 'config') return undefined;
  for (const setting of cure.settings) {
    if (setting.kind === 'strip') return { name: setting.name, isEmpty: false };
    if (setting.kind === 'stripEmpty') return { name: field, isEmpty: true };
  }
  return undefined;
}

/** Gathers the rules for some credentials. @param sendingDomain gives the domain that an account sends from */
function rulesOf(reports: readonly CredentialReport[], sendingDomain: (account: string) => string | undefined): Rules {
  const removed = new Map<string, string>();
  const ifEmpty = new Map<string, string>();
  const domains = new Map<string, string>();
  let left = 0;
  for (const { account, mailers } of reports) {
    for (const problem of mailers.flatMap(({ problems }) => problems)) {
      const taken = removedBy(problem);
      const domain = foreignDomain.exec(problem.message)?.[1]?.toLowerCase();
      const target = sendingDomain(account);
      if (taken && plainName.test(taken.name))
        (taken.isEmpty ? ifEmpty : removed).set(taken.name.toLowerCase(), taken.name);
      else if (domain !== undefined && target !== undefined && plainDomain.test(domain) && plainDomain.test(target))
        domains.set(domain, target);
      else left += 1;
    }
  }
  return { removed: [...removed.values()], ifEmpty: [...ifEmpty.values()], domains: [...domains], left };
}

function postfix({ removed, ifEmpty, domains }: Rules): readonly string[] {
  return [
    '# main.cf, of what hands mail to Postern',
    'smtp_header_checks = regexp:/etc/postfix/postern_headers',
    'smtp_generic_maps = texthash:/etc/postfix/postern_senders',
    '',
    '# /etc/postfix/postern_headers',
    ...removed.map((name) => `/^${name}:/ IGNORE`),
    ...ifEmpty.map((name) => `/^${name}:[[:space:]]*$/ IGNORE`),
    '',
    '# /etc/postfix/postern_senders',
    ...domains.map(([from, to]) => `@${from} @${to}`),
  ];
}

function exim({ removed, ifEmpty, domains }: Rules): readonly string[] {
  // Exim removes a header by its name alone; empty ones are named with the others only where their text is empty.
  // The list is cut at its colons before an item is expanded: the colon behind the name is doubled.
  const empty = ifEmpty.map((name) => `\${if eq{$h_${name}::}{}{${name}}}`);
  const rewritten = domains.map(([from, to]) => `*@${from} $1@${to} fs`);
  const path = domains.reduce(
    (otherwise, [from, to]) =>
      `\${if eqi{$sender_address_domain}{${from}}{$sender_address_local_part@${to}}{${otherwise}}}`,
    '$return_path',
  );
  return [
    '# in the transport that hands mail to Postern',
    ...(removed.length + empty.length > 0 ? [`  headers_remove = ${[...removed, ...empty].join(' : ')}`] : []),
    ...(domains.length > 0 ? [`  headers_rewrite = ${rewritten.join(' : ')}`, `  return_path = ${path}`] : []),
  ];
}

function exchange({ removed, domains }: Rules): readonly string[] {
  return [
    '# in the Exchange Management Shell',
    ...removed.map(
      (name) =>
        `New-TransportRule -Name "Postern: remove ${name}" -SentToScope NotInOrganization -RemoveHeader "${name}"`,
    ),
    '# on an Edge Transport server',
    ...domains.map(
      ([from, to]) =>
        `New-AddressRewriteEntry -Name "Postern: ${from}" -InternalAddress "${from}" -ExternalAddress "${to}" -OutboundOnly $true`,
    ),
  ];
}

const writers = { postfix, exim, exchange } as const satisfies Record<KitFormat, (rules: Rules) => readonly string[]>;

/**
 * Writes the rules for an old server: lines without their ends.
 * @param sendingDomain gives the domain that an account sends from, which stands in place of those that nobody owns
 */
export function kitLines(
  format: KitFormat,
  reports: readonly CredentialReport[],
  sendingDomain: (account: string) => string | undefined,
): readonly string[] {
  const rules = rulesOf(reports, sendingDomain);
  const left = `# ${rules.left} kinds of refusals have no rule here: postern report tells their cures`;
  return [...writers[format](rules), ...(rules.left > 0 ? ['', left] : [])];
}
