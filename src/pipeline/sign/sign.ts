// Signs a composed message with DKIM (RFC 6376, RFC 8463; D27) and lays out the octets that leave.

import { createHash, type KeyObject, sign as signWithKey } from 'node:crypto';
import type { YieldToEventLoop } from '../../mail/mime/body-scan.ts';
import type { Message, MessageField } from '../compose/message.ts';
import { type HeaderRow, headerCatalogue } from '../policy/header-catalogue.ts';
import { relaxedBodyHash } from './body-hash.ts';
import type { Signed, SigningKey } from './signed.ts';

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

/**
 * Signs a message: the body is hashed once for all signatures, and each signature is made in the thread pool.
 * @param yieldToEventLoop called between slices of a large body
 * @returns rejects when there is no key or a signature fails: no message ever leaves unsigned
 */
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
