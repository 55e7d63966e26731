// The head of a request as the origin is sent it, and that of a reply, read strictly: one that could be read in two ways is refused
// (D66; RFC 9110 §7.6, RFC 9112 §4-§6). Fields that end at this hop go neither way.

import type { IncomingMessage } from 'node:http';
import { normalAddress } from '../../base/net/socket-address.ts';
import type { EdgeCode } from '../errors/catalogue.ts';
import type { EdgeClient } from '../zone/judge-request.ts';
import type { ZoneWithOrigin } from './origin-target.ts';

/** Fields that concern one connection alone. Trailer and TE are among them because trailers are dropped both ways. */
const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Fields that Connection cannot remove: without them the origin would read a message differently than we did. */
const notRemovable: ReadonlySet<string> = new Set([
  'authorization',
  'cache-control',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'cookie',
  'date',
  'expect',
  'host',
  'location',
  'range',
  'set-cookie',
  'vary',
  'via',
]);

/** Fields by which the edge describes the client; they are taken from nobody else (D66). */
const ofTheEdge: ReadonlySet<string> = new Set(['forwarded', 'ray-id', 'x-real-ip']);

/** Whether a field, in lower case, tells of the client or its way. An underscore counts as a hyphen: CGI cannot tell them apart. */
function isOfTheEdge(name: string): boolean {
  const plain = name.includes('_') ? name.replaceAll('_', '-') : name;
  return ofTheEdge.has(plain) || plain.startsWith('x-forwarded-');
}

/** The fields that Connection names and that need not stay, in lower case; undefined for none. @param value all its lines */
function namedByConnection(value: string): ReadonlySet<string> | undefined {
  let named: Set<string> | undefined;
  for (const part of value.split(',')) {
    const name = part.trim().toLowerCase();
    if (name === '' || name === 'close' || name === 'keep-alive' || notRemovable.has(name)) continue;
    named ??= new Set();
    named.add(name);
  }
  return named;
}

/** A request for an origin, with what the edge knows of it. */
export interface Forwarded extends Omit<EdgeClient, 'address' | 'failure'> {
  readonly zone: ZoneWithOrigin;
  readonly rayId: string;
  readonly clientAddress: string;
  /** The scheme by which the peer came. */
  readonly scheme: 'http' | 'https';
  /** Answers an edge error in place of the origin, once at most and while nothing of an answer is written (D66). `fromMemory`: it is known to be down. */
  readonly fail: (code: EdgeCode, fromMemory?: boolean) => void;
  /** Answers a request that cannot be sent on by the words of its status (RFC 9112 §6). */
  readonly refuse: (status: 400 | 408 | 501) => void;
}

/** A request that cannot be sent on as it is. The strict parser before this lets none through but for transfer codings. */
interface RefusedRequest {
  readonly refused: 400 | 501;
}

/** A head ready to be sent, and how the body behind it is framed. */
export interface RequestHead {
  /** The head with its empty line, one character for each octet. */
  readonly text: string;
  readonly body: 'none' | 'length' | 'chunked';
  /** Whether the client waits for 100 before it sends its body (RFC 9110 §10.1.1). */
  readonly expectsContinue: boolean;
  /** How often Via says that we have seen this request before. */
  readonly passes: number;
}

const pseudonym = 'postern';
const received = /(?:^|,)[\t ]*[^\s,]+[\t ]+postern(?=[\t ,]|$)/gi;

/** The target in origin-form. RFC 9112 §3.2: the absolute form means the same. */
function requestTarget(url: string): string {
  if (url.startsWith('/') || url === '*') return url;
  const rest = /^https?:\/\/[^/?#]*(.*)$/i.exec(url)?.[1] ?? '';
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** Whether a path leads up and out of the prefix before it, in any spelling that an origin may understand. */
function leadsUp(target: string): boolean {
  const [path = ''] = target.split('?', 1);
  return path
    .replaceAll(/%2e/gi, '.')
    .split(/[/\\;]|%2f|%5c/i)
    .includes('..');
}

function requestFraming({ headers }: IncomingMessage): RequestHead['body'] | RefusedRequest {
  const coding = headers['transfer-encoding'];
  const length = headers['content-length'];
  if (coding !== undefined) {
    // RFC 9112 §6.1: two framings at once are an attack; a coding that we do not understand is 501.
    if (length !== undefined) return { refused: 400 };
    return coding.toLowerCase() === 'chunked' ? 'chunked' : { refused: 501 };
  }
  if (length === undefined) return 'none';
  if (!/^[0-9]{1,15}$/.test(length)) return { refused: 400 };
  return Number(length) === 0 ? 'none' : 'length';
}

/** The fields at the end of the head that the edge itself writes. */
function ownFields(request: IncomingMessage, forwarded: Forwarded, upgrade: string | undefined): string {
  const { forwardedFor, clientAddress } = forwarded;
  // What trusted peers said of earlier hops, then the peer. Without them it is the client alone.
  const peer = (): string => normalAddress(request.socket.remoteAddress ?? '') ?? clientAddress;
  const hops = forwardedFor.length === 0 ? clientAddress : `${forwardedFor.join(', ')}, ${peer()}`;
  const proto = forwarded.forwardedProto ?? forwarded.scheme;
  const host = forwarded.forwardedHost ?? request.headers.host ?? forwarded.zone.name;
  return (
    `Via: 1.1 ${pseudonym}\r\nX-Forwarded-For: ${hops}\r\n` +
    `X-Forwarded-Proto: ${proto}\r\nX-Forwarded-Host: ${host}\r\n` +
    `Ray-ID: ${forwarded.rayId}\r\n` +
    (upgrade === undefined ? '\r\n' : `Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\n`)
  );
}

/** Writes the head. @param options.upgrade the protocol to change to @param options.prefix the path of the origin's URL */
export function requestHead(
  request: IncomingMessage,
  forwarded: Forwarded,
  options: { readonly upgrade?: string | undefined; readonly prefix?: string } = {},
): RequestHead | RefusedRequest {
  const { upgrade, prefix = '' } = options;
  const body = requestFraming(request);
  if (typeof body === 'object') return body;
  const asked = requestTarget(request.url ?? '/');
  if (prefix !== '' && leadsUp(asked)) return { refused: 400 };
  const { rawHeaders, headers } = request;
  const expectsContinue =
    body !== 'none' && request.httpVersionMinor > 0 && /^100-continue$/i.test(headers.expect ?? '');
  const named = headers.connection === undefined ? undefined : namedByConnection(headers.connection);
  let text = `${request.method ?? 'GET'} ${asked === '*' ? asked : prefix + asked} HTTP/1.1\r\n`;
  let passes = 0;
  let hosts = 0;
  let lengths = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    const value = rawHeaders[index + 1] ?? '';
    const lower = name.toLowerCase();
    if (hopByHop.has(lower) || isOfTheEdge(lower) || named?.has(lower) === true) continue;
    if (lower === 'host') hosts += 1;
    if (lower === 'content-length') {
      lengths += 1;
      // An origin that reads leading zeros as octal would see another length.
      text += `${name}: ${Number(value)}\r\n`;
      continue;
    }
    if (lower === 'via') passes += value.match(received)?.length ?? 0;
    else if (lower === 'expect' && !expectsContinue) continue;
    text += `${name}: ${value}\r\n`;
  }
  if (hosts > 1 || lengths > 1) return { refused: 400 };
  if (hosts === 0) text += `Host: ${forwarded.zone.name}\r\n`;
  if (body === 'chunked') text += 'Transfer-Encoding: chunked\r\n';
  return { text: text + ownFields(request, forwarded, upgrade), body, expectsContinue, passes };
}

/** A reply's head. */
export interface ReplyHead {
  readonly status: number;
  readonly reason: string;
  /** Name, value, name, value: the end-to-end fields as they came, without the origin's Ray-ID. */
  readonly fields: string[];
  /** How the body ends (RFC 9112 §6.3). */
  readonly framing: 'none' | 'length' | 'chunked' | 'close';
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
interface Gathered extends Record<'connection' | 'keepAlive' | 'upgrade', string> {
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
  if (!hopByHop.has(lower)) {
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
function replyFraming(
  gathered: Gathered,
  bodiless: boolean,
  minor: string,
): ReplyHead['framing'] | { readonly bad: string } {
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
  const framing = replyFraming(gathered, bodiless, minor);
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
      !gathered.connection.split(',').some((option) => option.trim().toLowerCase() === 'close'),
    idleSeconds: hint ? Number(hint[1]) : undefined,
    upgrade: gathered.upgrade,
  };
}
