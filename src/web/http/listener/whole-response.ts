// Responses without ServerResponse: to octets that are no HTTP, to CONNECT and to upgrades. The connection ends with them.

import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

/** The octets of an answer: in one piece, or in pieces that go out one after another and may be shared by many answers. */
export type AnswerBody = Buffer | readonly Buffer[];

/** The pieces of a body, and how many octets they have together. */
export function piecesOf(body: AnswerBody): { readonly pieces: readonly Buffer[]; readonly octets: number } {
  const pieces = Buffer.isBuffer(body) ? [body] : body;
  return { pieces, octets: pieces.reduce((sum, { length }) => sum + length, 0) };
}

/** A whole answer and the id that it names its request by. */
export interface WholeResponse {
  readonly status: number;
  /** The reason phrase. Absent: the usual one of the status. */
  readonly reason?: string | undefined;
  readonly rayId: string;
  /** Without Ray-ID, Date, Content-Length and Connection. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AnswerBody;
}

/** Milliseconds for which further octets of a client are thrown away, so that it can read the answer, before it is cut. */
export const lingerMs = 3000;

/** Writes the response and ends the connection. */
export function writeWhole(socket: Duplex, { status, reason, rayId, headers, body }: WholeResponse): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const { pieces, octets } = piecesOf(body);
  const lines = [
    `HTTP/1.1 ${status} ${reason ?? STATUS_CODES[status] ?? ''}`,
    `Ray-ID: ${rayId}`,
    `Date: ${new Date().toUTCString()}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `Content-Length: ${octets}`,
    'Connection: close',
  ];
  socket.cork();
  socket.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  for (const piece of pieces) socket.write(piece);
  socket.end();
  socket.resume();
  const cut = setTimeout(() => socket.destroy(), lingerMs);
  cut.unref();
  socket.once('close', () => clearTimeout(cut));
}

/** Makes a complete response of one line of text. */
export function plainWhole(
  status: number,
  text: string,
  more: { readonly rayId: string; readonly headers?: Readonly<Record<string, string>> },
): WholeResponse {
  return {
    status,
    rayId: more.rayId,
    headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store', ...more.headers },
    body: Buffer.from(`${text}\n`),
  };
}
