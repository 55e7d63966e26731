// Finds what cures a refusal, as docs/mailers.md tells it: a setting of the credential, or a change in the program that sent.

import { parse } from 'tldts';
import { asciiDomain } from '../../mail/address/domain.ts';
import type { EventViolation } from '../../spool/events/mail-event.ts';
import { findHeader, type HeaderRow } from '../policy/header-catalogue.ts';
import { type Rejection, type RejectionCode, rejections, tellingWords } from '../policy/rejections.ts';
import { mayStrip } from '../policy/strip.ts';
import { isSystemsOwn, type Setting, smallestSets } from './settings.ts';

/** What makes programs no longer send a field, whose name is in lower case. */
const changes = [
  { mailer: /s-nail|heirloom/i, field: 'user-agent', text: 'set stealthmua=noagent' },
  { mailer: /mailutils/i, field: 'user-agent', text: 'unset xmailer' },
  { mailer: /mutt/i, field: 'user-agent', text: 'set user_agent = no' },
  { mailer: /mutt/i, field: 'mail-followup-to', text: 'set followup_to = no' },
  { mailer: /thunderbird/i, field: 'user-agent', text: 'set the preference mailnews.headers.sendUserAgent to false' },
  { mailer: /thunderbird/i, field: 'autocrypt', text: 'switch Autocrypt headers off in the end-to-end settings' },
  { mailer: /gnus/i, field: 'user-agent', text: 'remove User-Agent from message-required-mail-headers' },
  { mailer: /phpmailer/i, field: 'disposition-notification-to', text: 'leave ConfirmReadingTo empty' },
  { mailer: /mime::lite/i, field: 'content-length', text: 'leave Encoding out, or use base64' },
];

/** The change after which a known mailer no longer sends a field. @param mailer the mailer's mark, as events have it */
function programChange(mailer: string | undefined, field: string): string | undefined {
  if (mailer === undefined) return undefined;
  return changes.find((one) => one.field === field.toLowerCase() && one.mailer.test(mailer))?.text;
}

/** What is known of the message beside the reason. */
export interface MessageFacts {
  /** The mark by which the sending program is known, as events have it. */
  readonly mailer?: string | undefined;
  /** The reverse-path; '' is null. */
  readonly senderPath?: string | undefined;
  /** Sending domains of the account, A-labels, the one to complete addresses with first. */
  readonly sendingDomains?: readonly string[];
  /** Names of all its fields, where the message is at hand. */
  readonly fieldNames?: readonly string[];
  /** The character set of its raw 8-bit header text, where another one is assumed. */
  readonly charset?: string | undefined;
}

/** The code of a hint that is no refusal: raw 8-bit text is read in another character set than its own. */
export const charsetHint = 'legacyCharset' satisfies Setting['kind'];

/** What cures one reason. */
export type Cure =
  /** Settings of the credential; `instead` tells what to change in the program in their place, where that is known. */
  | { readonly kind: 'config'; readonly settings: readonly Setting[]; readonly instead?: string | undefined }
  /** A change in the program, or in something else that is no setting of the credential: a whole sentence. */
  | { readonly kind: 'program'; readonly text: string };

/** Fields that only advise the reader. Where such a field has an invalid value, it can be removed; its good values stay (D4e). */
const hintFields: ReadonlySet<string> = new Set(['precedence', 'importance', 'priority', 'sensitivity']);

/** The names that `strip` may name in the file. */
const strippable = /^[!-)+-9;-~]{1,100}$/;

function program(text: string): Cure {
  return { kind: 'program', text };
}

function config(setting: Setting, instead?: string): Cure {
  return { kind: 'config', settings: [setting], instead };
}

function canStrip(name: string): boolean {
  return strippable.test(name) && mayStrip(name);
}

const rows = new Map<string, Rejection>(Object.entries(rejections));

function remedyOf(code: string): string {
  return rows.get(code)?.remedy ?? 'See docs/errors.md.';
}

function cureNotAllowed({ field: name = '' }: EventViolation, { mailer }: MessageFacts): Cure {
  if (findHeader(name.toLowerCase())?.overSmtp === 'trace') return config({ kind: 'trustedHop' });
  if (canStrip(name)) return config({ kind: 'strip', name }, programChange(mailer, name));
  return program(`Leave ${name} out.`);
}

/** Whether a field says nothing that a reader of the message would miss: no header of the allowlist, no part of it. */
function isExpendable(name: string, row: HeaderRow | undefined): boolean {
  return canStrip(name) && (row === undefined || row.class === 'extension');
}

function cureRepetition(name: string, row: HeaderRow | undefined): Cure {
  if (isExpendable(name, row))
    return config(isSystemsOwn(name) ? { kind: 'strip', name } : { kind: 'keepFirst', name });
  if (row?.overSmtp === 'replaced') return config({ kind: 'keepFirst', name });
  return program(`Give ${name} once: readers differ about which of several they take.`);
}

/** Takes bad values out. The good ones of the name stay, unless they too are only the bookkeeping of a known system. */
function cureBadValue(name: string, instead?: string): Cure {
  return config({ kind: isSystemsOwn(name) ? 'strip' : 'stripInvalid', name }, instead);
}

function cureValue({ message, field: name = '' }: EventViolation): Cure {
  const row = findHeader(name.toLowerCase());
  if (message.endsWith(tellingWords.isRepeated)) return cureRepetition(name, row);
  if (message.endsWith(tellingWords.isEmpty) && canStrip(name))
    return config(isSystemsOwn(name) ? { kind: 'strip', name } : { kind: 'stripEmpty' });
  if (isExpendable(name, row) || hintFields.has(name.toLowerCase()))
    return cureBadValue(name, `Correct it: ${message}.`);
  return program(`Correct the value: ${message}.`);
}

function cureName({ message, field: name = '' }: EventViolation): Cure {
  if (!message.includes(tellingWords.mayHoldOnly) || !canStrip(name))
    return program(`Correct the header section: ${message}.`);
  return config({ kind: 'strip', name }, 'Rename it: letters, digits and hyphens, underscores behind X- only.');
}

/** Whether no registry gives a domain out: below no public suffix (`box.internal`), or of special use (RFC 6761). */
function isNobodys(domain: string): boolean {
  if (asciiDomain(domain) !== domain) return false;
  const { isIcann, isSpecialUse } = parse(domain, { allowPrivateDomains: false, detectSpecialUse: true });
  return isIcann !== true || isSpecialUse === true;
}

function cureSender({ message, field }: EventViolation, { senderPath, sendingDomains = [] }: MessageFacts): Cure {
  const [domain] = sendingDomains;
  if (message.includes(tellingWords.hasNoKey))
    return program('Make the key (postern dkim) and publish its DNS record.');
  // D4b: a mail server's bounce.
  if (senderPath === '' && field === 'From' && domain !== undefined) return config({ kind: 'defaultDomain', domain });
  const place = field === 'From' || message.includes(tellingWords.ofFrom) ? 'From' : "the envelope's sender";
  const wrong = /^\S+/.exec(message)?.[0] ?? 'its domain';
  // D4d: no one can have a key for a name that no registry gives out.
  if (domain !== undefined && isNobodys(wrong))
    return config({ kind: 'senders', pattern: `*@${wrong}`, address: `*@${domain}` });
  const known = sendingDomains.slice(0, 5).join(', ');
  const inOne = known === '' ? 'in a sending domain of the account' : `in a sending domain of the account (${known})`;
  return program(`Set ${place} to an address ${inOne}, or add ${wrong} to sendingDomains with its DKIM key.`);
}

function cureAddress({ message }: EventViolation, { sendingDomains = [] }: MessageFacts): Cure {
  const [domain] = sendingDomains;
  if (domain !== undefined && message.endsWith(tellingWords.hasNoDomain))
    return config({ kind: 'defaultDomain', domain });
  return program(`Correct what the reason names: ${message}.`);
}

/** The cure for too many or too large headers: fields that a known system has added can be removed. */
function cureAmount({ code }: EventViolation, { fieldNames = [] }: MessageFacts): Cure {
  const added = fieldNames.filter((name) => canStrip(name) && isSystemsOwn(name));
  if (added.length === 0 || smallestSets(added).sets.length === 0) return program(remedyOf(code));
  return { kind: 'config', settings: added.map((name) => ({ kind: 'strip', name })) };
}

type FindCure = (reason: EventViolation, facts: MessageFacts) => Cure;

function cureLength({ message, field = '' }: EventViolation): Cure {
  const isExtra = isExpendable(field, findHeader(field.toLowerCase()));
  return isExtra ? cureBadValue(field) : program(`Shorten the value: ${message}.`);
}

/** What cures a code; one without a row has the remedy that docs/errors.md tells. */
const cures: ReadonlyMap<string, FindCure> = new Map<RejectionCode | typeof charsetHint, FindCure>([
  ['E_HEADER_NOT_ALLOWED', cureNotAllowed],
  ['E_HEADER_VALUE_INVALID', cureValue],
  ['E_HEADER_VALUE_TOO_LONG', cureLength],
  ['E_HEADER_NAME_INVALID', cureName],
  ['E_HEADERS_TOO_LARGE', cureAmount],
  ['E_HEADERS_TOO_MANY', cureAmount],
  ['E_SENDER_NOT_VERIFIED', cureSender],
  ['E_VALIDATION_ERROR', cureAddress],
  ['E_FIELD_MISSING', ({ message }) => program(`Add it: ${message}.`)],
  [charsetHint, (_, { charset = 'windows-1252' }) => config({ kind: charsetHint, charset })],
]);

/** Finds what cures one reason of a refusal, with the least that does. Texts quote the message: escape them to print. */
export function cureOf(reason: EventViolation, facts: MessageFacts): Cure {
  const { code } = reason;
  if (/^4\d\d$/.test(code)) return program('Nothing: it is temporary, and mailers come again by themselves.');
  return cures.get(code)?.(reason, facts) ?? program(remedyOf(code));
}
