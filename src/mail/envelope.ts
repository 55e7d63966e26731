// The envelope of RFC 5321: what MAIL and RCPT said, independent of what the header section says. What a sender asks about reports,
// RET and ENVID of MAIL, NOTIFY and ORCPT of RCPT (RFC 3461 §4, RFC 6533 §3), is kept as it came, to be passed on unchanged.

/** Where a message goes and where its reports go (RFC 5321 §2.3.1). */
export interface Envelope {
  /** The mailbox of MAIL FROM without brackets, its domain an A-label in lower case; '' is the null reverse-path. */
  readonly reversePath: string;
  /** The mailboxes of RCPT TO without brackets, domains as A-labels in lower case, local parts as given. Never empty. */
  readonly recipients: readonly string[];
  /** The client said SMTPUTF8 (RFC 6531), or an address is not ASCII. */
  readonly smtputf8: boolean;
  /** REQUIRETLS (RFC 8689): only over verified TLS, to hops that offer it too. */
  readonly requireTls: boolean;
  /** What the client asked about reports; absent where it asked nothing (RFC 3461). */
  readonly dsn?: DsnRequest;
}

/** The kinds of report that can be asked for. */
export type ReportKind = 'success' | 'failure' | 'delay';

/** Which kinds of report are wanted. */
export type ReportWish = Readonly<Record<ReportKind, boolean>>;

/** What the sender asks for one recipient. */
export interface RecipientRequest {
  /** `NEVER`, or some of SUCCESS, FAILURE, DELAY in this order, with commas. */
  readonly notify?: string;
  /** `addr-type;address`, encoded as it came. */
  readonly orcpt?: string;
}

/** What the sender asks for a message; absent members were not given. */
export interface DsnRequest {
  /** How much of the message a report of a failure returns. */
  readonly ret?: 'FULL' | 'HDRS';
  /** The envelope's id, encoded as it came. */
  readonly envid?: string;
  /** Only recipients with a request of their own, by their address in the envelope. */
  readonly recipients?: ReadonlyMap<string, RecipientRequest>;
}

/** RFC 3461 §4.4: characters of ENVID as encoded. */
const maxEnvid = 100;
/** RFC 3461 §4.2: characters of ORCPT as encoded. */
const maxOrcpt = 500;
const kinds = ['SUCCESS', 'FAILURE', 'DELAY'] as const;

/** RFC 3461 §4: a printable character but `+` and `=`, or `+` with two upper-case hexadecimal digits. */
const xtext = /^(?:[!-*,-<>-~]|\+[0-9A-F]{2})*$/;
/** RFC 3461 §4.2: an atom of RFC 5322. */
const addressType = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,50}$/;
/** RFC 6533 §3, utf-8-addr-unitext (in ASCII -xtext): all but `+`, `=` and the backslash, and any character as `\x{HEX}`. */
const unitext = /^(?:[!-*,-<>-[\]-~]|[\u{a0}-\u{d7ff}\u{e000}-\u{10ffff}]|\\x\{[0-9A-F]{2,6}\})+$/u;
const embedded = /\\x\{([0-9A-F]{2,6})\}/g;
// C1 controls too: whoever looks at a report in a terminal may otherwise be fooled.
const control = /[\0-\x1f\x7f-\x9f\u2028\u2029]/;

/** Decodes xtext; undefined where it is malformed, or holds what is no printable ASCII or blank (RFC 3461 §4.4). */
function decodeXtext(text: string): string | undefined {
  if (!xtext.test(text)) return undefined;
  const decoded = text.replace(/\+([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return /^[\x20-\x7e]*$/.test(decoded) ? decoded : undefined;
}

/** Reads RET in any case; undefined where it is neither FULL nor HDRS (RFC 3461 §4.3). */
export function readRet(text: string): 'FULL' | 'HDRS' | undefined {
  const word = text.toUpperCase();
  return word === 'FULL' || word === 'HDRS' ? word : undefined;
}

/** Tells whether a text is an ENVID: xtext of 1 to 100 characters that stand for printable ones (RFC 3461 §4.4). */
export function isEnvid(text: string): boolean {
  return text.length > 0 && text.length <= maxEnvid && decodeXtext(text) !== undefined;
}

/** Decodes an ENVID that `isEnvid` admits. */
export function envidText(envid: string): string {
  return decodeXtext(envid) ?? '';
}

/** Reads NOTIFY (RFC 3461 §4.1) in any case. @returns its words in upper case and a fixed order; undefined where it is malformed */
export function readNotify(text: string): string | undefined {
  if (text.length > 100) return undefined;
  const words = text.toUpperCase().split(',');
  if (words.length === 1 && words[0] === 'NEVER') return 'NEVER';
  if (!words.every((word) => kinds.some((kind) => kind === word))) return undefined;
  return kinds.filter((kind) => words.includes(kind)).join(',');
}

/** Decodes an ORCPT (RFC 3461 §4.2). @returns its type and the address without controls; undefined where malformed or too long */
export function readOrcpt(text: string): { readonly type: string; readonly address: string } | undefined {
  const semicolon = text.indexOf(';');
  if (text.length > maxOrcpt || semicolon < 1 || semicolon === text.length - 1) return undefined;
  const type = text.slice(0, semicolon);
  const encoded = text.slice(semicolon + 1);
  if (!addressType.test(type)) return undefined;
  const address = type.toLowerCase() === 'utf-8' ? decodeUnitext(encoded) : decodeXtext(encoded);
  return address === undefined ? undefined : { type, address };
}

function decodeUnitext(text: string): string | undefined {
  if (!unitext.test(text)) return undefined;
  let isCharacter = true;
  const decoded = text.replace(embedded, (_, hex: string) => {
    const point = Number.parseInt(hex, 16);
    if (point <= 0x10ffff) return String.fromCodePoint(point);
    isCharacter = false;
    return '';
  });
  return isCharacter && decoded.isWellFormed() && !control.test(decoded) ? decoded : undefined;
}

/** Writes an ORCPT for a next hop without SMTPUTF8: all ASCII, as utf-8-addr-xtext (RFC 6533 §3). */
export function asciiOrcpt(orcpt: string): string {
  return orcpt.replace(
    /[^\0-\x7f]/gu,
    (character) => `\\x{${(character.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`,
  );
}

/** Tells whether a NOTIFY, as `readNotify` gives it, asks for a kind of report. */
export function notifies(notify: string, kind: ReportKind): boolean {
  return notify.split(',').includes(kind.toUpperCase());
}
