// Where an answer of the edge goes: a ServerResponse, or the bare socket of a request to upgrade.

import type { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { piecesOf, writeWhole } from '../web/http/listener/whole-response.ts';
import type { ErrorAnswer } from './errors/edge-error.ts';

type EndListener = (end: { readonly status?: number | undefined; readonly whole: boolean }) => void;

/** Takes the answer to one request. */
export interface AnswerSink {
  /** Writes the answer, with Ray-ID and Content-Length. Where one has begun already, the connection is cut instead (D66). */
  send(answer: ErrorAnswer): void;
  hasBegun(): boolean;
  /** Ends the connection without an answer. */
  cut(): void;
  /** Calls `listener` once the answer is written or the client has gone. The status is absent where nothing was written. */
  onEnd(listener: EndListener): void;
}

/** An answer of one line, outside the catalogue (D67). */
export function plainAnswer(status: number, text: string, headers: ErrorAnswer['headers'] = {}): ErrorAnswer {
  return {
    status,
    headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store', ...headers },
    body: Buffer.from(`${text}\n`),
  };
}

/** Octets of a body up to which it is written as a text; Node copies a longer one once more. */
const mostOctetsAsText = 12_288;

/** The response to a request. */
export class ResponseSink implements AnswerSink {
  readonly #response: ServerResponse;
  readonly #rayId: string;
  readonly #listeners: EndListener[] = [];

  constructor(response: ServerResponse, rayId: string) {
    this.#response = response;
    this.#rayId = rayId;
    // Emitted once. One listener for all that want to know, since each costs as much as all else here.
    response.on('close', this.#onClose);
  }

  send({ status, reason, headers, body }: ErrorAnswer): void {
    const response = this.#response;
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const { pieces, octets } = piecesOf(body);
    const fields = { 'Ray-ID': this.#rayId, ...headers, 'Content-Length': octets };
    if (reason === undefined) response.writeHead(status, fields);
    else response.writeHead(status, reason, fields);
    // RFC 9110 §9.3.2: the answer to HEAD has the same fields and no content.
    if (response.req.method === 'HEAD') response.end();
    // Node joins a text with the head and writes both at once; for octets it gathers two pieces, which costs more.
    else if (octets <= mostOctetsAsText)
      response.end(pieces.map((piece) => piece.toString('latin1')).join(''), 'latin1');
    else {
      response.cork();
      for (const piece of pieces.slice(0, -1)) response.write(piece);
      response.end(pieces.at(-1));
    }
  }

  hasBegun(): boolean {
    return this.#response.headersSent;
  }

  cut(): void {
    this.#response.destroy();
  }

  onEnd(listener: EndListener): void {
    this.#listeners.push(listener);
  }

  readonly #onClose = (): void => {
    const { headersSent, statusCode, writableFinished } = this.#response;
    const end = { status: headersSent ? statusCode : undefined, whole: writableFinished };
    for (const listener of this.#listeners) listener(end);
  };
}

/** The socket of a request to upgrade. */
export function socketSink(socket: Duplex, rayId: string): AnswerSink {
  let status: number | undefined;
  const written = (): number => (socket instanceof Socket ? socket.bytesWritten : 0);
  const before = written();
  return {
    send(answer) {
      status = answer.status;
      writeWhole(socket, { ...answer, rayId });
    },
    hasBegun: () => written() > before,
    cut: () => void socket.destroy(),
    onEnd(listener) {
      socket.once('close', () => listener({ status, whole: !socket.errored }));
    },
  };
}
