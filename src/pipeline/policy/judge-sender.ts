// Judges From (D4b), its domain and the reverse-path's (D50), and completes addresses without a domain (RFC 6409 §8.1).

import type { Account, Credential, SendingDomain } from '../../accounts/account.ts';
import { type MappedSender, mapSender } from '../../accounts/sender-map.ts';
import { type AddressList, type Mailbox, parseAddressList } from '../../mail/address/address.ts';
import { asciiDomain, splitMailbox } from '../../mail/address/domain.ts';
import { writeMailbox } from '../../mail/address/write-mailbox.ts';
import { decodeWords } from '../../mail/header/header-text.ts';
import { type RejectionCode, tellingWords, type Violation } from './rejections.ts';
import type { CheckedField, Submission } from './submission.ts';
import { shown } from './value-rules.ts';

const originalFromName = 'X-Original-From';

/** Finds the sending domain of an account that covers a domain (D50); `domain` is an A-label in lower case. */
export type FindSendingDomain = (account: Account, domain: string) => SendingDomain | undefined;

/** The sender of an admitted message. */
export interface Sender {
  /** The From field written anew (D4b), its domain completed. */
  readonly field: CheckedField;
  /** The address; its domain is an A-label in lower case. */
  readonly address: string;
  /** An A-label in lower case. */
  readonly domain: string;
  readonly sendingDomain: SendingDomain;
  /** X-Original-From with what From was, where the bounce of a mail server (D4b), or a sender that nobody owns (D4d), got a new one. */
  readonly originalFrom?: CheckedField;
  /** What From was, where it is of a sender that nobody owns (D4d). */
  readonly mapped?: MappedSender;
  /** The Reply-To that a mapped sender gets, where the message has none and the map says so. */
  readonly replyTo?: CheckedField;
}

/** Whether the X-Original-From of a new From (D4b, D4d) replaces a field of that name. @param key its name in lower case */
export function isReplacedByOriginalFrom(key: string, sender: Sender | undefined): boolean {
  return sender?.originalFrom !== undefined && key === originalFromName.toLowerCase();
}

/** The verdict on the sender: faults of the fields themselves, and domains that the account may not send from. */
export interface SenderVerdict {
  readonly sender: Sender | undefined;
  readonly malformed: Violation | undefined;
  /** What is wrong with the reverse-path. */
  readonly envelope: Violation | undefined;
  readonly unverified: readonly Violation[];
}

function withDomains(text: string, boxes: readonly Mailbox[], domain: string): string {
  let completed = '';
  let copied = 0;
  for (const box of boxes) {
    completed += `${text.slice(copied, box.end)}@${domain}`;
    copied = box.end;
  }
  return completed + text.slice(copied);
}

/** Completes addresses without a domain (D4b). What is no address list stays: only From is refused for its syntax (D14). */
export function completeAddresses(field: CheckedField, defaultDomain: string): CheckedField {
  const list = parseAddressList(field.text);
  if (!list.ok) return field;
  const bare = list.addresses
    .flatMap((address) => (address.kind === 'group' ? address.members : [address]))
    .filter((box) => box.domain === undefined);
  if (bare.length === 0) return field;
  const text = withDomains(field.text, bare, defaultDomain);
  return { ...field, text, decoded: decodeWords(text) };
}

/** Octets of a From value that are read at most: an address has 254, and what comes with it is written anew on this thread. */
const MAX_FROM_BYTES = 8192;

type FromMailbox = { readonly mailbox: Mailbox } | { readonly code: RejectionCode; readonly reason: string };

function malformed(reason: string): FromMailbox {
  return { code: 'E_VALIDATION_ERROR', reason };
}

function oneMailbox(text: string): FromMailbox {
  const list: AddressList = parseAddressList(text, { strict: true });
  if (!list.ok) return malformed(`From is malformed: ${list.reason}; got "${shown(text)}"`);
  const [first, second] = list.addresses;
  if (!first) return { code: 'E_FIELD_MISSING', reason: 'From holds no address' };
  if (second) return malformed(`From must be one mailbox; got ${list.addresses.length}: "${shown(text)}"`);
  if (first.kind === 'group') return malformed(`From must be one mailbox; got a group: "${shown(text)}"`);
  return { mailbox: first };
}

const ofPath = '(domain of MAIL FROM)';

function unverified(place: string, domain: string, account: Account): Violation {
  const message = `${shown(domain)} ${place} is not a sending domain of account ${account.name}`;
  return { code: 'E_SENDER_NOT_VERIFIED', message };
}

// Bounces of mail servers behind a credential with a default domain (D4b): the From of such a bounce holds no address
// that the account may send from, or no address at all (RFC 3464 §2, RFC 5321 §4.5.5).

const serverNames = new Set(['mailer-daemon', 'postmaster']);

/** The one mailbox of a From; `none` where it is empty (`<>`, `MAILER-DAEMON <>`, comments), undefined for all else. */
function readMailbox(text: string): Mailbox | 'none' | undefined {
  const list = parseAddressList(text);
  if (list.ok) {
    const [first, second] = list.addresses;
    if (!first) return 'none';
    return second || first.kind === 'group' ? undefined : first;
  }
  // RFC 5322 has no empty address: a filler is put in, so that everything around it is read by the usual rules.
  const filled = parseAddressList(text.replace(/<[ \t]*>/, '<none>'));
  if (!filled.ok) return undefined;
  const [first, second] = filled.addresses;
  return first?.kind === 'mailbox' && !second && first.localPart === 'none' ? 'none' : undefined;
}

/** Whether From is a mail server's own: empty, MAILER-DAEMON or postmaster without a domain, or of a domain that the account may not use. */
function isServersFrom(text: string, isSendingDomain: (domain: string) => boolean): boolean {
  const mailbox = readMailbox(text);
  if (mailbox === undefined) return false;
  if (mailbox === 'none') return true;
  if (mailbox.domain === undefined) return serverNames.has(mailbox.localPart.toLowerCase());
  const domain = asciiDomain(mailbox.domain);
  return domain === undefined || !isSendingDomain(domain);
}

/** The state of the From header: it passed the rules for all fields, was refused by them, or is missing. */
export type FromState =
  | { readonly kind: 'given'; readonly value: CheckedField; readonly pointer?: string | undefined }
  | { readonly kind: 'refused' }
  | { readonly kind: 'missing'; readonly pointer?: string | undefined };

interface ReadFrom {
  readonly malformed?: Violation;
  /** The field written anew (D4b), its address, and its domain as an A-label in lower case. */
  readonly from?: Omit<Sender, 'sendingDomain'>;
}

/** Reads the From of a mail server's bounce (D4b), which becomes MAILER-DAEMON at the default domain; undefined for others. */
function readBounceFrom(submission: Submission, given: CheckedField, find: FindSendingDomain): ReadFrom['from'] {
  const { account, credential } = submission.submitter;
  const domain = credential.defaultDomain;
  // A REST request is no server's bounce: its reverse-path is also empty where its sender could not be read.
  if (domain === undefined || submission.envelope.reversePath !== '' || submission.via.kind === 'rest')
    return undefined;
  if (!isServersFrom(given.text, (name) => find(account, name) !== undefined)) return undefined;
  const address = `MAILER-DAEMON@${domain}`;
  const originalFrom = given.text === '' ? {} : { originalFrom: { ...given, name: originalFromName } };
  return { field: { ...given, text: address, decoded: address }, address, domain, ...originalFrom };
}

/** The map for a submission's senders (D4d): that of its listener, else of its credential. */
function mapOf({ senders, submitter, via }: Submission): Credential['senders'] {
  // Our own reports are nobody's to map.
  return via.kind === 'dsn' ? undefined : (senders ?? submitter.credential.senders);
}

/** Finds what a sender that nobody owns becomes (D4d), if anything. @param mailbox as in a path, its domain an A-label */
function mappedSender(
  submission: Submission,
  mailbox: { readonly localPart: string; readonly domain: string | undefined },
  find: FindSendingDomain,
): MappedSender | undefined {
  const map = mapOf(submission);
  const { localPart, domain } = mailbox;
  if (!map || !domain) return undefined;
  return mapSender(map, { localPart, domain }, (name) => find(submission.submitter.account, name) !== undefined);
}

/** The submission with the reverse-path that a sender becomes whom nobody owns (D4d); the same object for any other. */
export function withMappedPath(submission: Submission, find: FindSendingDomain): Submission {
  if (!mapOf(submission) || submission.envelope.reversePath === '') return submission;
  const mapped = mappedSender(submission, splitMailbox(submission.envelope.reversePath), find);
  if (!mapped) return submission;
  return { ...submission, mappedPath: mapped, envelope: { ...submission.envelope, reversePath: mapped.address } };
}

/** From of a sender that nobody owns (D4d): its display name stays, and the address that was there is kept. */
function mappedFrom(
  submission: Submission,
  mapped: MappedSender,
  { given, mailbox }: { readonly given: CheckedField; readonly mailbox: Mailbox },
): ReadFrom['from'] {
  const { localPart } = splitMailbox(mapped.address);
  const anew = writeMailbox({ ...mailbox, localPart, domain: mapped.domain }, 'From: '.length);
  if (!anew.ok) return undefined;
  const was = { ...given, text: mapped.given, decoded: mapped.given };
  const replies = mapOf(submission)?.repliesToOriginal === true;
  return {
    field: { ...given, text: anew.text, decoded: decodeWords(anew.text) },
    address: mapped.address,
    domain: mapped.domain,
    originalFrom: { ...was, name: originalFromName },
    mapped,
    ...(replies ? { replyTo: { ...was, name: 'Reply-To' } } : {}),
  };
}

function placeOf(state: FromState): Pick<Violation, 'name' | 'pointer'> {
  const { pointer } = state.kind === 'refused' ? {} : state;
  return { name: 'From', ...(pointer === undefined ? {} : { pointer }) };
}

function readFrom(submission: Submission, state: FromState, find: FindSendingDomain): ReadFrom {
  if (state.kind === 'refused') return {};
  const place = placeOf(state);
  const fail = (code: RejectionCode, message: string): ReadFrom => ({ malformed: { code, message, ...place } });
  if (state.kind === 'missing') return fail('E_FIELD_MISSING', 'From is missing');
  const given = state.value;
  const { length } = given.rawBytes;
  if (length > MAX_FROM_BYTES) {
    const reason = `From has ${length} octets, at most ${MAX_FROM_BYTES} are allowed: it is one mailbox`;
    return fail('E_VALIDATION_ERROR', reason);
  }
  const bounce = readBounceFrom(submission, given, find);
  if (bounce) return { from: bounce };
  const { defaultDomain } = submission.submitter.credential;
  const read = oneMailbox(given.text);
  if ('reason' in read) return fail(read.code, read.reason);
  const domain = read.mailbox.domain ?? defaultDomain;
  if (domain === undefined)
    return fail(
      'E_VALIDATION_ERROR',
      `The address "${shown(read.mailbox.localPart)}" of From${tellingWords.hasNoDomain}`,
    );
  // D4b: always written anew, so that no reader can see another mailbox than the one judged here.
  const written = writeMailbox({ ...read.mailbox, domain }, 'From: '.length);
  if (!written.ok) return fail('E_VALIDATION_ERROR', `From ${written.reason}; got "${shown(given.text)}"`);
  const sender = mappedSender(submission, written, find);
  const mapped = sender && mappedFrom(submission, sender, { given, mailbox: read.mailbox });
  if (mapped) return { from: mapped };
  const field = { ...given, text: written.text, decoded: decodeWords(written.text) };
  return { from: { field, address: `${written.localPart}@${written.domain}`, domain: written.domain } };
}

/** Judges From, then its domain and that of the reverse-path; at most one violation for each domain. */
export function judgeSender(submission: Submission, state: FromState, find: FindSendingDomain): SenderVerdict {
  const { account } = submission.submitter;
  const { malformed, from } = readFrom(submission, state, find);
  const broken: Violation[] = [];
  let sender: Sender | undefined;
  if (from) {
    const sendingDomain = find(account, from.domain);
    if (sendingDomain) sender = { ...from, sendingDomain };
    else broken.push({ ...unverified(tellingWords.ofFrom, from.domain, account), ...placeOf(state) });
  }
  const envelope = judgeReversePath(submission, from?.domain, find);
  if (envelope?.code !== 'E_SENDER_NOT_VERIFIED') return { sender, malformed, envelope, unverified: broken };
  return { sender, malformed, envelope: undefined, unverified: [...broken, envelope] };
}

/** Judges the reverse-path: every account may use the null one (D50), and a domain that From has too is judged there. */
function judgeReversePath(
  submission: Submission,
  fromDomain: string | undefined,
  find: FindSendingDomain,
): Violation | undefined {
  const { reversePath } = submission.envelope;
  if (reversePath === '') return undefined;
  const { domain } = splitMailbox(reversePath);
  if (domain === undefined || domain === '') {
    return {
      code: 'E_VALIDATION_ERROR',
      message: `The reverse-path "${shown(reversePath)}"${tellingWords.hasNoDomain}`,
    };
  }
  const { account } = submission.submitter;
  return domain === fromDomain || find(account, domain) ? undefined : unverified(ofPath, domain, account);
}
