// Reads the head of an origin's reply (RFC 9112 §4, §5, §6) strictly: a head that could be read in two ways is refused.

import { hasConnectionOption, isHopByHop, namedByConnection } from './hop-by-hop.ts';

/** How a reply's body ends (RFC 9112 §6.3). */
export type ReplyFraming = 'none' | 'length' | 'chunked' | 'close';

/** A reply's head. */
export interface ReplyHead {
  readonly status: number;
  readonly reason: string;
  /** Name, value, name, value: the end-to-end fields as they came, without the origin's Ray-ID. */
  readonly fields: string[];
  readonly framing: ReplyFraming;
  /** Octets of the body, where the framing is `length`. */
  readonly length: number;
  /** Whether the connection may serve another request. */
  readonly persistent: boolean;
  /** How long the origin keeps an idle connection, if it says so (`Keep-Alive: timeout=`). */
  readonly idleSeconds: number | undefined;
  /** The value of Upgrade; empty where there is none. */
  readonly upgrade: string;
}

const statusLine = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: ([^\0-\x08\x0a-\x1f\x7f]*))?$/;
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// RFC 9110 §5.5: no controls but HTAB are allowed; bare CR and LF are controls too.
const control = /[\0-\x08\x0a-\x1f\x7f]/;
const digits = /^[0-9]{1,15}$/;
const idleHint = /(?:^|[,;\s])timeout=([0-9]{1,6})(?![0-9])/i;
const maxFields = 1000;

const space = 0x20;
const tab = 0x09;

/** Trims optional whitespace. RFC 9112 §5: that is blanks and tabs alone, while `trim` would take more. */
function trimOws(line: string, from: number, to: number): string {
  let start = from;
  let end = to;
  while (start < end && (line.charCodeAt(start) === space || line.charCodeAt(start) === tab)) start += 1;
  while (end > start && (line.charCodeAt(end - 1) === space || line.charCodeAt(end - 1) === tab)) end -= 1;
  return line.slice(start, end);
}

/** Fields that say how the message is framed and the connection used, gathered while reading. */
interface Gathered {
  connection: string;
  keepAlive: string;
  upgrade: string;
  transferEncoding: string | undefined;
  contentLength: string | undefined;
}

/** Reads one field line into `fields`. Gives what is wrong with it, if anything is. */
function readField(line: string, fields: string[], gathered: Gathered): string | undefined {
  const colon = line.indexOf(':');
  // RFC 9112 §5.1, §5.2: no blank before the colon, no folded line (which begins with one).
  if (colon <= 0) return 'a field line without a name';
  const name = line.slice(0, colon);
  if (!token.test(name)) return 'a field name with a bad character';
  const value = trimOws(line, colon + 1, line.length);
  if (control.test(value)) return 'a field value with a control character';
  const lower = name.toLowerCase();
  if (lower === 'content-length') {
    if (!digits.test(value)) return 'a Content-Length that is no number';
    if (gathered.contentLength !== undefined) {
      return gathered.contentLength === value ? undefined : 'two different Content-Length fields';
    }
    gathered.contentLength = value;
  }
  if (!isHopByHop(lower)) {
    if (lower !== 'ray-id') fields.push(name, value);
    return undefined;
  }
  if (lower === 'connection') gathered.connection = gathered.connection ? `${gathered.connection},${value}` : value;
  else if (lower === 'keep-alive') gathered.keepAlive = value;
  else if (lower === 'upgrade') gathered.upgrade = value;
  else if (lower === 'transfer-encoding') {
    if (gathered.transferEncoding !== undefined) return 'two Transfer-Encoding fields';
    gathered.transferEncoding = value;
  }
  return undefined;
}

function without(fields: readonly string[], drops: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index] ?? '';
    if (!drops(name.toLowerCase())) kept.push(name, fields[index + 1] ?? '');
  }
  return kept;
}

/** Finds the framing by RFC 9112 §6.3, in its order. Gives what is wrong with the framing, if anything is. */
function framingOf(gathered: Gathered, bodiless: boolean, minor: string): ReplyFraming | { readonly bad: string } {
  const { transferEncoding, contentLength } = gathered;
  if (transferEncoding !== undefined) {
    if (contentLength !== undefined) return { bad: 'both Transfer-Encoding and Content-Length' };
    if (minor === '0') return { bad: 'Transfer-Encoding in HTTP/1.0' };
    if (transferEncoding.toLowerCase() !== 'chunked') return { bad: 'a Transfer-Encoding other than chunked' };
  }
  if (bodiless) return 'none';
  if (transferEncoding !== undefined) return 'chunked';
  return contentLength === undefined ? 'close' : 'length';
}

/** Reads a head. @param text its lines with CRLF, a character for each octet @param forHead the request was HEAD */
export function readReplyHead(text: string, forHead: boolean): ReplyHead | { readonly bad: string } {
  let at = text.indexOf('\r\n');
  const first = statusLine.exec(text.slice(0, at));
  if (!first) return { bad: 'a bad status line' };
  const [, minor = '', code = '', reason = ''] = first;
  const status = Number(code);
  let fields: string[] = [];
  const gathered: Gathered = {
    connection: '',
    keepAlive: '',
    upgrade: '',
    transferEncoding: undefined,
    contentLength: undefined,
  };
  for (at += 2; at < text.length; ) {
    const end = text.indexOf('\r\n', at);
    const bad = readField(text.slice(at, end), fields, gathered);
    if (bad !== undefined) return { bad };
    if (fields.length > 2 * maxFields) return { bad: 'too many fields' };
    at = end + 2;
  }
  const bodiless = forHead || status === 204 || status === 304 || status < 200;
  const framing = framingOf(gathered, bodiless, minor);
  if (typeof framing === 'object') return framing;
  const named = gathered.connection === '' ? undefined : namedByConnection(gathered.connection);
  if (named) fields = without(fields, (name) => named.has(name));
  // RFC 9110 §8.6: a 204 has no Content-Length; if it were believed, it would swallow the next reply.
  if (status === 204) fields = without(fields, (name) => name === 'content-length');
  const hint = gathered.keepAlive === '' ? null : idleHint.exec(gathered.keepAlive);
  return {
    status,
    reason,
    fields,
    framing: framing === 'length' && Number(gathered.contentLength) === 0 ? 'none' : framing,
    length: Number(gathered.contentLength ?? 0),
    persistent:
      minor === '1' &&
      framing !== 'close' &&
      (gathered.connection === '' || !hasConnectionOption(gathered.connection, 'close')),
    idleSeconds: hint ? Number(hint[1]) : undefined,
    upgrade: gathered.upgrade,
  };
}
