// Staging safety: rules of an account or a route that keep mail from the recipients it names. They are applied whenever an
// attempt is made, not when the message is accepted, so that they hold for every message in the queue, however old.

import { parentName, parentNames } from '../../base/net/domain-labels.ts';
import { oncePer } from '../../base/once-per.ts';
import { asciiDomain, splitMailbox } from '../../mail/address/domain.ts';
import { comparableMailbox, readComparable, readPath } from '../../mail/address/path.ts';
import { writeField } from '../../mail/write-field.ts';

/** One entry of `allowRecipients`: an address in its comparable spelling, a domain, or all names below a domain (A-labels). */
export type RecipientPattern =
  | { readonly kind: 'address'; readonly address: string }
  | { readonly kind: 'domain' | 'below'; readonly domain: string };

/** What keeps mail from the recipients it names, at an account or a route; at most one of the two (staging safety, D98a). */
export interface RecipientRule {
  /** The address that every message goes to, in place of its recipients; its domain is an A-label. */
  readonly redirectAll?: string;
  /** Recipients that match none of these are captured, not sent. */
  readonly allowRecipients?: readonly RecipientPattern[];
}

/** Reads a pattern: an address, `@domain` or `*@domain`, or `*@*.domain` for all names below it; undefined for none. */
export function readPattern(text: string): RecipientPattern | undefined {
  const ofDomain = /^\*?@(\*\.)?(.+)$/u.exec(text);
  if (!ofDomain) {
    const address = text.includes('*') ? undefined : readComparable(text);
    return address === undefined ? undefined : { kind: 'address', address };
  }
  const domain = asciiDomain(ofDomain[2] ?? '');
  if (domain === undefined) return undefined;
  return { kind: ofDomain[1] === undefined ? 'domain' : 'below', domain };
}

/** Reads the address of `redirectAll`, with its domain as A-label; undefined where it is none. */
export function readTarget(text: string): string | undefined {
  if (readComparable(text) === undefined) return undefined;
  return readPath(text, 0)?.mailbox;
}

/** The patterns of a list in sets, so that the cost of a recipient does not grow with the list. */
type PatternSets = Readonly<Record<RecipientPattern['kind'], ReadonlySet<string>>>;

/** Lists never change. */
const setsOf = oncePer((patterns: readonly RecipientPattern[]): PatternSets => {
  const sets = { address: new Set<string>(), domain: new Set<string>(), below: new Set<string>() };
  for (const pattern of patterns) sets[pattern.kind].add(pattern.kind === 'address' ? pattern.address : pattern.domain);
  return sets;
});

/** Whether a recipient is one of those that `allowRecipients` names; letter case, quotes and script are not compared. */
export function isAllowed(patterns: readonly RecipientPattern[], recipient: string): boolean {
  const sets = setsOf(patterns);
  const address = comparableMailbox(recipient);
  const domain = splitMailbox(address).domain ?? '';
  return (
    sets.address.has(address) ||
    sets.domain.has(domain) ||
    parentNames(parentName(domain)).some((name) => sets.below.has(name))
  );
}

/** What rules say of a recipient: as it is, to another address, or into the capture folder. */
export type Ruling =
  | { readonly kind: 'deliver' }
  | { readonly kind: 'redirect'; readonly to: string }
  | { readonly kind: 'withhold' };

const deliver: Ruling = { kind: 'deliver' };

/** Judges a recipient by the rule of an account or a route; without a rule it is delivered as it is. */
export function rule({ redirectAll, allowRecipients }: RecipientRule, recipient: string): Ruling {
  if (redirectAll !== undefined) return { kind: 'redirect', to: redirectAll };
  if (!allowRecipients || isAllowed(allowRecipients, recipient)) return deliver;
  return { kind: 'withhold' };
}

/**
 * Writes the field that names the recipients in whose place a message goes to another address. Everyone in the envelope is
 * named, recipients of blind copies too: the copy leaves to the people of a staging address alone.
 * @returns the octets of the field with its line end, in ASCII
 */
export function originalRecipientsField(recipients: readonly string[]): Buffer {
  return Buffer.from(writeField('X-Original-To', recipients.join(', ')), 'latin1');
}
