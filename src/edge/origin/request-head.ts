// Writes the head of a request for the origin (D66; RFC 9110 §7.6, RFC 9112 §6): end-to-end fields, and those of the edge.

import type { IncomingMessage } from 'node:http';
import { normalAddress } from '../../base/net/socket-address.ts';
import type { EdgeCode } from '../errors/edge-error.ts';
import { isHopByHop, isOfTheEdge, namedByConnection } from './hop-by-hop.ts';
import type { ZoneWithOrigin } from './origin-target.ts';

/** A request for an origin, with what the edge knows of it. */
export interface Forwarded {
  readonly zone: ZoneWithOrigin;
  readonly rayId: string;
  /** The client's address (D66). */
  readonly clientAddress: string;
  /** What X-Forwarded-For says of earlier hops where the peer is a trusted proxy; empty otherwise. */
  readonly forwardedFor: readonly string[];
  /** The scheme by which the peer came. */
  readonly scheme: 'http' | 'https';
  /** The scheme by which the client came to the first trusted proxy; absent where there is none or it does not tell. */
  readonly forwardedProto?: 'http' | 'https' | undefined;
  /** The host that the client asked the first trusted proxy for; absent in the same cases. */
  readonly forwardedHost?: string | undefined;
  /** Answers an edge error in place of the origin, while nothing of an answer is written (D66). `fromMemory`: it is known to be down. */
  readonly fail: (code: EdgeCode, fromMemory?: boolean) => void;
}

/** A request that cannot be sent on as it is. The strict parser before this lets none through but for transfer codings. */
export interface RefusedRequest {
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

/** The value of X-Forwarded-For: what trusted peers said of earlier hops, then the peer. Without them it is the client alone. */
function forwardedFor(request: IncomingMessage, { forwardedFor, clientAddress }: Forwarded): string {
  if (forwardedFor.length === 0) return clientAddress;
  return `${forwardedFor.join(', ')}, ${normalAddress(request.socket.remoteAddress ?? '') ?? clientAddress}`;
}

function framingOf({ headers }: IncomingMessage): RequestHead['body'] | RefusedRequest {
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

function wantsContinue(request: IncomingMessage, body: RequestHead['body']): boolean {
  const { expect } = request.headers;
  return expect !== undefined && body !== 'none' && request.httpVersionMinor > 0 && /^100-continue$/i.test(expect);
}

/** The fields at the end of the head that the edge itself writes. */
function ownFields(request: IncomingMessage, forwarded: Forwarded, upgrade: string | undefined): string {
  const proto = forwarded.forwardedProto ?? forwarded.scheme;
  const host = forwarded.forwardedHost ?? request.headers.host ?? forwarded.zone.name;
  return (
    `Via: 1.1 ${pseudonym}\r\nX-Forwarded-For: ${forwardedFor(request, forwarded)}\r\n` +
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
  const body = framingOf(request);
  if (typeof body === 'object') return body;
  const asked = requestTarget(request.url ?? '/');
  if (prefix !== '' && leadsUp(asked)) return { refused: 400 };
  const { rawHeaders, headers } = request;
  const expectsContinue = wantsContinue(request, body);
  const named = headers.connection === undefined ? undefined : namedByConnection(headers.connection);
  let text = `${request.method ?? 'GET'} ${asked === '*' ? asked : prefix + asked} HTTP/1.1\r\n`;
  let passes = 0;
  let hosts = 0;
  let lengths = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    const value = rawHeaders[index + 1] ?? '';
    const lower = name.toLowerCase();
    if (isHopByHop(lower) || isOfTheEdge(lower) || named?.has(lower) === true) continue;
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
