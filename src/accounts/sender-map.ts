// Maps senders that nobody owns, such as cron's `root@box.internal`, to addresses of the account (D4d).

import { asciiDomain } from '../mail/address/domain.ts';

/** One side of the @ of a pattern: a text, or what stands around its one `*`. */
interface Side {
  readonly before: string;
  /** Undefined: the side has no `*`. */
  readonly after: string | undefined;
}

interface SenderRule {
  /** Both as the configuration has them. */
  readonly pattern: string;
  readonly address: string;
  readonly localPart: Side;
  readonly domain: Side;
  readonly toLocalPart: Side;
  /** An A-label in lower case. */
  readonly toDomain: string;
}

/** The map of one credential or listener. */
export interface SenderMap {
  /** The most exact first. */
  readonly rules: readonly SenderRule[];
  /** Whether a message without Reply-To gets one with the address that was there. */
  readonly repliesToOriginal: boolean;
  /** Whether a domain is a sending domain of any account: such senders are never mapped. */
  readonly isOwned: (domain: string) => boolean;
}

/** What a sender becomes. */
export interface MappedSender {
  /** The address that was there, and the one that takes its place. */
  readonly given: string;
  readonly address: string;
  /** The domain of `address`, an A-label in lower case. */
  readonly domain: string;
  /** As the configuration has it. */
  readonly pattern: string;
}

/** RFC 5321 §4.5.3.1.1. */
const maxLocalPart = 64;
/** A local part that needs no quotation marks (RFC 5322 §3.2.3). */
const dotAtom = /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+(?:\.[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+)*$/;

function sideOf(text: string): Side | undefined {
  const [before = '', after, more] = text.split('*');
  return more === undefined && text !== '' ? { before, after } : undefined;
}

/** What the `*` of a side stands for, an empty text where it has none; undefined: the side does not fit. Letters have no case. */
function fitting({ before, after }: Side, text: string): string | undefined {
  const folded = text.toLowerCase();
  if (after === undefined) return folded === before ? '' : undefined;
  const isLong = text.length > before.length + after.length;
  return isLong && folded.startsWith(before) && folded.endsWith(after)
    ? text.slice(before.length, text.length - after.length)
    : undefined;
}

/** A domain as it is compared: an A-label in lower case, each label by itself, since one with a `*` is none. */
function foldedDomain(domain: string): string {
  return domain
    .split('.')
    .map((label) => asciiDomain(label) ?? label.toLowerCase())
    .join('.');
}

/** Reads a line of a map. @returns a text where it has a fault, as the rest of a sentence that begins with the line */
export function senderRule(pattern: string, address: string): SenderRule | string {
  const [from = '', fromDomain = '', more] = pattern.split('@');
  const localPart = sideOf(from.toLowerCase());
  const domain = sideOf(foldedDomain(fromDomain));
  if (more !== undefined || !localPart || !domain)
    return 'want a pattern with one @ and at most one * on either side of it, such as "*@box.internal" or "root@*"';
  const [to = '', toDomain = '', rest] = address.split('@');
  const toLocalPart = sideOf(to);
  const isWritten = to !== '' && dotAtom.test(to.replace('*', 'x'));
  if (rest !== undefined || !toLocalPart || !isWritten || toDomain === '' || toDomain.includes('*'))
    return 'want an address, such as ops@example.com, or *@example.com to keep what * stood for';
  if (toLocalPart.after !== undefined && localPart.after === undefined && domain.after === undefined)
    return 'want an address without *, since the pattern has none for it to stand for';
  return { pattern, address, localPart, domain, toLocalPart, toDomain: foldedDomain(toDomain) };
}

/** The most exact first: a whole address, then a local part, then a domain; of these the longer pattern (D4d). */
function rankOf({ localPart, domain }: SenderRule): number {
  if (domain.after === undefined) return localPart.after === undefined ? 0 : 2;
  return localPart.after === undefined ? 1 : 3;
}

/** Makes a map. @param lines addresses by pattern, without a fault by `senderRule` */
export function senderMap(
  lines: Readonly<Record<string, string>>,
  { repliesToOriginal, isOwned }: Pick<SenderMap, 'repliesToOriginal' | 'isOwned'>,
): SenderMap {
  const rules = Object.entries(lines)
    .map(([pattern, address]) => senderRule(pattern, address))
    .filter((rule) => typeof rule !== 'string')
    .toSorted((one, two) => rankOf(one) - rankOf(two) || two.pattern.length - one.pattern.length);
  return { rules, repliesToOriginal, isOwned };
}

/**
 * Finds what a sender becomes.
 * @param localPart as given, in its quotation marks if it has any
 * @param domain an A-label in lower case
 * @param owns whether the account may send from a domain; a map of a listener serves several accounts
 * @returns undefined where no line fits, or somebody owns the domain
 */
export function mapSender(
  map: SenderMap | undefined,
  { localPart, domain }: { readonly localPart: string; readonly domain: string },
  owns: (domain: string) => boolean,
): MappedSender | undefined {
  if (!map || map.isOwned(domain)) return undefined;
  for (const { pattern, toLocalPart, toDomain, ...rule } of map.rules) {
    const [ofLocalPart, ofDomain] = [fitting(rule.localPart, localPart), fitting(rule.domain, domain)];
    if (ofLocalPart === undefined || ofDomain === undefined || !owns(toDomain)) continue;
    const kept = rule.localPart.after === undefined ? ofDomain : ofLocalPart;
    const mapped = toLocalPart.after === undefined ? toLocalPart.before : toLocalPart.before + kept + toLocalPart.after;
    // What stood there and cannot stand here, a name in quotation marks or too long, leaves the sender to the next line.
    if (mapped.length > maxLocalPart || !dotAtom.test(mapped)) continue;
    return { given: `${localPart}@${domain}`, address: `${mapped}@${toDomain}`, domain: toDomain, pattern };
  }
  return undefined;
}
