// Signs a composed message with DKIM (RFC 6376, RFC 8463; D27) and lays out the octets that leave.

import { createHash, hash, type KeyObject, sign as signWithKey } from 'node:crypto';
import type { YieldToEventLoop } from '../../mail/mime/body-scan.ts';
import { CR, LF, SPACE, TAB } from '../../mail/octets.ts';
import type { Message, MessageField } from '../compose/compose.ts';
import { type HeaderRow, headerCatalogue } from '../policy/header-catalogue.ts';

/** A private key ready for signing: parsed once, instead of a PEM string for each signature (D27). */
export interface SigningKey {
  /** The d= tag: A-label, lower case. */
  readonly domain: string;
  /** The s= tag. */
  readonly selector: string;
  readonly algorithm: 'rsa' | 'ed25519';
  readonly key: KeyObject;
}

/** A message with its signatures. The octets that leave are `head` followed by `body`. */
export interface Signed {
  readonly message: Message;
  /** Every header field and the empty line behind them. */
  readonly head: Buffer;
  readonly body: Buffer;
  /** Where in `head` the platform's own signature fields stand, so that a route may leave them out (D27). */
  readonly platformSignature?: { readonly start: number; readonly end: number };
}

/** Octets processed at a time; the scratch buffer for canonical octets has this size. */
const blockSize = 65_536;
const scratch = Buffer.allocUnsafe(blockSize);
const lineEnd = Buffer.from('\r\n');

/** A body over this many octets is hashed in slices, and other work may run between them. */
const sliceThreshold = 262_144;

/** The bh= of a body with CRLF throughout, in base64. @param yieldToEventLoop called between slices of one over 256 KiB */
export async function relaxedBodyHash(body: Buffer, yieldToEventLoop?: YieldToEventLoop): Promise<string> {
  let end = body.length;
  for (let from = end; end === from && from > 0; ) {
    if (from < body.length) await yieldToEventLoop?.();
    from = Math.max(0, from - blockSize);
    end = contentEnd(body, end, from);
  }
  // RFC 6376 §3.4.4: an empty body stays empty.
  if (end === 0) return hash('sha256', Buffer.alloc(0), 'base64');
  const endsPlainly = end === body.length - 2 && body[end] === CR && body[end + 1] === LF;
  if (endsPlainly && end <= blockSize && isCanonical(body.subarray(0, end))) return hash('sha256', body, 'base64');
  const digest = createHash('sha256');
  const canonical = createCanonicaliser();
  for (let start = 0; start < end; start += blockSize) {
    if (end > sliceThreshold && start > 0) await yieldToEventLoop?.();
    digest.update(canonical(body.subarray(start, Math.min(start + blockSize, end))));
  }
  return digest.update(lineEnd).digest('base64');
}

/** The end of the last line that is not empty, without trailing white space. @param from nothing before it is examined */
function contentEnd(body: Buffer, before: number, from: number): number {
  let end = before;
  while (end > from) {
    const octet = body[end - 1];
    if (octet !== LF && octet !== CR && octet !== SPACE && octet !== TAB) break;
    end -= 1;
  }
  return end;
}

/** Tells whether a block has no white space that relaxed canonicalisation would change, and does not end with any. */
function isCanonical(block: Buffer): boolean {
  if (block.includes(TAB)) return false;
  // Base64 has no blanks, and the native search finds that out ten times faster than the loop.
  let index = block.indexOf(SPACE);
  if (index < 0) return true;
  const last = block.length - 1;
  if (block[last] === SPACE) return false;
  for (; index < last; index += 1) {
    if (block[index] !== SPACE) continue;
    index += 1;
    const next = block[index];
    if (next === SPACE || next === CR) return false;
  }
  return true;
}

/** Makes a canonicaliser for blocks cut anywhere. Its result is the block or in the shared buffer, until the next call. */
function createCanonicaliser(): (block: Buffer) => Buffer {
  /** White space was read and not yet written: it is dropped if it turns out to end a line. */
  let blankPending = false;
  return (block) => {
    if (!blankPending && isCanonical(block)) return block;
    let written = 0;
    let blank = blankPending;
    const length = block.length;
    // A pending blank adds one octet to the block's own, but only when the block does not begin with a blank.
    const target = length < blockSize ? scratch : Buffer.allocUnsafe(length + 1);
    for (let index = 0; index < length; index += 1) {
      const octet = block[index] ?? 0;
      if (octet === SPACE || octet === TAB) {
        blank = true;
        continue;
      }
      if (blank) {
        // RFC 6376 §3.4.4: white space at a line's end is dropped, any other run becomes one blank.
        if (octet !== CR) target[written++] = SPACE;
        blank = false;
      }
      target[written++] = octet;
    }
    blankPending = blank;
    return target.subarray(0, written);
  };
}

/** What all signatures of one message have in common. */
interface SignatureBasis {
  /** The names of the h= tag in order; a name occurs as often as the field, and once more where it is oversigned. */
  readonly names: readonly string[];
  /** The named fields in relaxed canonical form, each with CRLF. */
  readonly canonicalFields: string;
  /** base64. */
  readonly bodyHash: string;
  /** Seconds since 1970. */
  readonly time: number;
}

const whiteSpace = /[ \t\r\n]+/g;
/** White space that is no single blank between two words. */
const wideSpace = /[\t\r\n]|  /;

/** Canonicalises a field as relaxed (RFC 6376 §3.4.2); the result has no line end, though `line` has one. */
function relaxedField(name: string, line: string): string {
  const given = line.slice(name.length + 1, -2);
  // Most fields stand on one line with single blanks.
  const value = wideSpace.test(given) ? given.replace(whiteSpace, ' ') : given;
  const start = value.startsWith(' ') ? 1 : 0;
  const end = value.length > start && value.endsWith(' ') ? value.length - 1 : value.length;
  return `${name.toLowerCase()}:${value.slice(start, end)}`;
}

/** The rank of a row in h=: From and the message's other own fields, then the other oversigned ones, then the rest. */
function order(row: HeaderRow): number {
  if (row.signed !== 'oversigned') return 2;
  return row.class === 'first-class' ? 0 : 1;
}

/** The fields that DKIM covers in the order of h=: the name in lower case, as h= has it, and whether it names them once more than they occur. */
const covered = Object.entries<HeaderRow>(headerCatalogue)
  .filter(([, { signed }]) => signed !== 'no')
  .sort(([, one], [, other]) => order(one) - order(other))
  .map(([lowerName, { name, signed }]) => [lowerName, name, signed === 'oversigned'] as const);
const coveredNames: ReadonlySet<string> = new Set(covered.map(([lowerName]) => lowerName));

/** Chooses what is signed (D27): oversigned fields always, others where present, repeated ones bottom-up (RFC 6376 §5.4.2). */
function chooseFields(fields: readonly MessageField[]): Pick<SignatureBasis, 'names' | 'canonicalFields'> {
  const present = new Map<string, MessageField | MessageField[]>();
  for (const field of fields) {
    const lowerName = field.name.toLowerCase();
    if (!coveredNames.has(lowerName)) continue;
    const same = present.get(lowerName);
    if (same === undefined) present.set(lowerName, field);
    else if (Array.isArray(same)) same.push(field);
    else present.set(lowerName, [same, field]);
  }
  const names: string[] = [];
  let canonicalFields = '';
  const add = (name: string, field: MessageField): void => {
    names.push(name);
    canonicalFields += `${relaxedField(field.name, field.line)}\r\n`;
  };
  for (const [lowerName, name, oversigned] of covered) {
    const same = present.get(lowerName);
    if (Array.isArray(same)) for (const field of same.toReversed()) add(name, field);
    else if (same) add(name, same);
    // RFC 6376 §8.15: named once more than it occurs, so that nobody can add another.
    if (oversigned) names.push(name);
  }
  return { names, canonicalFields };
}

/** Octets of one folded line in the DKIM-Signature field. */
const lineLength = 76;

/** Folds the h= tag between names only (D27). */
function foldNames(names: readonly string[]): string {
  let folded = '';
  let column = 1 + 'h='.length;
  names.forEach((name, index) => {
    const last = index === names.length - 1;
    if (column + name.length + 1 > lineLength && index > 0) {
      folded += '\r\n\t';
      column = 1;
    }
    folded += last ? name : `${name}:`;
    column += name.length + 1;
  });
  return folded;
}

function foldBase64(signature: string): string {
  let folded = signature.slice(0, lineLength - 3);
  for (let start = lineLength - 3; start < signature.length; start += lineLength - 1) {
    folded += `\r\n\t${signature.slice(start, start + lineLength - 1)}`;
  }
  return folded;
}

/** Makes one signature field (RFC 6376 §3.5) with its line end; rejects when the key cannot sign. */
async function signatureField(key: SigningKey, basis: SignatureBasis): Promise<string> {
  const unsigned =
    `DKIM-Signature: v=1; a=${key.algorithm}-sha256; c=relaxed/relaxed;\r\n` +
    `\td=${key.domain}; s=${key.selector}; t=${basis.time};\r\n` +
    `\tbh=${basis.bodyHash};\r\n` +
    `\th=${foldNames(basis.names)};\r\n\tb=`;
  // RFC 6376 §3.7: the signature field itself comes last, with an empty b= and without its line end.
  const data = `${basis.canonicalFields}${relaxedField('DKIM-Signature', `${unsigned}\r\n`)}`;
  const signature = await signData(key, Buffer.from(data, 'utf8'));
  return `${unsigned}${foldBase64(signature)}\r\n`;
}

/** Signs in the thread pool. RFC 8463 §3: Ed25519 signs the SHA-256 of the data. */
function signData(key: SigningKey, data: Buffer): Promise<string> {
  return key.algorithm === 'rsa'
    ? signOctets('sha256', data, key.key)
    : signOctets(null, createHash('sha256').update(data).digest(), key.key);
}

function signOctets(algorithm: 'sha256' | null, data: Buffer, key: KeyObject): Promise<string> {
  return new Promise((resolve, reject) => {
    signWithKey(algorithm, data, key, (error, signature) => {
      if (error) reject(error);
      else resolve(signature.toString('base64'));
    });
  });
}

/** Signs a message in the thread pool, its body hashed once. It rejects without a key: no message ever leaves unsigned. */
export async function sign(
  message: Message,
  keys: {
    /** Keys of the sending domain, one for each signature; never empty. */
    readonly domain: readonly SigningKey[];
    /** Keys of the platform domain; a route may leave their signatures out later (D27). */
    readonly platform: readonly SigningKey[];
  },
  yieldToEventLoop?: YieldToEventLoop,
): Promise<Signed> {
  if (keys.domain.length === 0) throw new Error(`No DKIM key for ${message.checked.sendingDomain.name}`);
  const basis = {
    ...chooseFields(message.fields),
    bodyHash: await relaxedBodyHash(message.body, yieldToEventLoop),
    time: Math.floor(message.acceptedAt / 1000),
  };
  const signatures = await Promise.all([...keys.platform, ...keys.domain].map((key) => signatureField(key, basis)));
  const trace = linesOf(message.trace);
  const platformFields = signatures.slice(0, keys.platform.length).join('');
  const head = Buffer.from(`${trace}${signatures.join('')}${linesOf(message.fields)}\r\n`, 'utf8');
  const signed: Signed = { message, head, body: message.body };
  if (keys.platform.length === 0) return signed;
  const start = Buffer.byteLength(trace, 'utf8');
  return { ...signed, platformSignature: { start, end: start + platformFields.length } };
}

function linesOf(fields: readonly MessageField[]): string {
  let lines = '';
  for (const field of fields) lines += field.line;
  return lines;
}
