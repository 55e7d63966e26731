// The open connections of a listener: whose turn it is on each, how far its answer is, and how it ends (D66, D97).

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { RequestTurns } from './request-turns.ts';
import { lingerMs } from './whole-response.ts';

/** What a listener has open. */
export interface OpenHttp {
  /** TCP connections, TLS or not. */
  readonly connections: number;
  readonly answers: number;
  /** Connections that were upgraded, or asked to be. */
  readonly upgraded: number;
  /** Octets that came behind a request whose answer has not ended. */
  readonly waitingOctets: number;
}

interface Speaking {
  readonly peer: string;
  readonly turns: RequestTurns;
  answer?: ServerResponse | undefined;
  /** The latest request, the only one whose body may still be arriving. */
  last?: IncomingMessage;
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** RFC 9112 §9.6: closed while octets arrive, a connection is reset and its answer lost. So only our side ends, and the rest is dropped. */
function closeInStages(socket: Socket, speaking: Speaking): void {
  const closeSoon = socket.destroySoon.bind(socket);
  socket.destroySoon = () => {
    const { last, turns } = speaking;
    const isComing = last !== undefined && !last.complete;
    if ((!isComing && turns.waitingOctets() === 0) || !socket.writable) {
      closeSoon();
      return;
    }
    socket.end();
    if (isComing) {
      last.once('end', closeSoon);
      last.resume();
    } else turns.stop();
    const cut = setTimeout(() => socket.destroy(), lingerMs);
    cut.unref();
    socket.once('close', () => clearTimeout(cut));
  };
}

/** Open connections, and the answer that each has under way. */
export class Connections {
  /** Every TCP connection by its peer, TLS or not. */
  readonly #sockets = new Map<string, Socket>();
  readonly #speaking = new Map<Duplex, Speaking>();
  readonly #upgraded = new Set<Duplex>();
  #closing = false;
  #onEmpty: (() => void) | undefined;

  /** Notes a TCP connection that was opened. */
  accepted(socket: Socket): void {
    const peer = peerOf(socket);
    this.#sockets.set(peer, socket);
    socket.once('close', () => {
      if (this.#sockets.get(peer) === socket) this.#sockets.delete(peer);
      this.#settle();
    });
  }

  /** Notes that a connection speaks HTTP from now on; its requests are begun one after another. */
  speaks(socket: Socket): void {
    const speaking: Speaking = { peer: peerOf(socket), turns: new RequestTurns(socket) };
    this.#speaking.set(socket, speaking);
    closeInStages(socket, speaking);
    socket.once('close', () => {
      this.#speaking.delete(socket);
      this.#upgraded.delete(socket);
      this.#settle();
    });
  }

  /** Notes a request, which `handle` answers; where it must not be answered, its connection is cut. */
  asked(request: IncomingMessage, response: ServerResponse, handle: () => void): void {
    const { socket } = request;
    const speaking = this.#speaking.get(socket);
    if (!speaking || !speaking.turns.begin(request, response, handle)) {
      socket.destroy();
      return;
    }
    speaking.answer = response;
    speaking.last = request;
    if (this.#closing) response.shouldKeepAlive = false;
    response.on('close', () => {
      speaking.answer = undefined;
      if (this.#closing) socket.destroySoon();
    });
  }

  /** Notes that a connection leaves HTTP. @returns the octets that came behind the request to upgrade */
  upgraded(socket: Socket): Buffer {
    this.#upgraded.add(socket);
    // The timeouts of HTTP do not apply to the next protocol.
    socket.setTimeout(0);
    return this.#speaking.get(socket)?.turns.leave() ?? Buffer.alloc(0);
  }

  /**
   * Notes that octets of a connection are no HTTP; nothing more is read from it.
   * @returns how far the answer under way is: `clean`: nothing of it is written; `whole`: all of it is; `between`: a part is;
   *   `unframed`: nothing is, and what is wrong is the framing of the body behind a head that could be read
   */
  broke(socket: Socket): 'clean' | 'whole' | 'between' | 'unframed' {
    const speaking = this.#speaking.get(socket);
    if (!speaking) return 'between';
    const { answer, last, turns } = speaking;
    const isJudging = turns.isJudging();
    turns.stop();
    if (isJudging) return 'unframed';
    // Of a body whose answer came early: a second answer would be taken for that to the next request.
    if (!answer && last?.complete === false) return 'whole';
    if (!answer?.headersSent) return 'clean';
    return answer.writableEnded ? 'whole' : 'between';
  }

  /** Whether the latest request line of a connection is one of HTTP. */
  isHttp(socket: Socket): boolean {
    return this.#speaking.get(socket)?.turns.isHttp() ?? false;
  }

  /** Cuts a connection that was silent for too long, unless it waits for an answer of ours. */
  timedOut(socket: Socket): void {
    // Handlers have timeouts of their own; this one is for a client that does not take what is ready for it.
    if (!this.#speaking.get(socket)?.answer || socket.writableLength > 0) socket.destroy();
  }

  open(): OpenHttp {
    let answers = 0;
    let waitingOctets = 0;
    for (const { answer, turns } of this.#speaking.values()) {
      if (answer) answers += 1;
      waitingOctets += turns.waitingOctets();
    }
    return { connections: this.#sockets.size, answers, upgraded: this.#upgraded.size, waitingOctets };
  }

  /** From now on each answer is the last one of its connection. */
  close(): void {
    this.#closing = true;
    for (const { answer } of this.#speaking.values()) if (answer && !answer.headersSent) answer.shouldKeepAlive = false;
  }

  /** Cuts connections without a request. Node does not count them as idle, and they would delay the close. */
  cutSilent(): void {
    const peers = new Set<string>();
    for (const [socket, { peer, answer }] of this.#speaking) {
      peers.add(peer);
      if (!answer && !this.#upgraded.has(socket)) socket.destroy();
    }
    for (const [peer, socket] of this.#sockets) if (!peers.has(peer)) socket.destroy();
  }

  cutAll(): void {
    for (const socket of this.#speaking.keys()) socket.destroy();
    for (const socket of this.#sockets.values()) socket.destroy();
  }

  async whenEmpty(): Promise<void> {
    if (this.#sockets.size + this.#speaking.size > 0) await new Promise<void>((resolve) => (this.#onEmpty = resolve));
  }

  #settle(): void {
    if (this.#sockets.size + this.#speaking.size === 0) this.#onEmpty?.();
  }
}
