// Answers requests that cannot be sent on by one line of text (D66, RFC 9112 §6). The connection ends with the answer.

import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

const refusals = { 400: 'Bad Request', 408: 'Request Timeout', 501: 'Not Implemented' } as const;

type RefusalStatus = keyof typeof refusals;

function fieldsOf(status: RefusalStatus, rayId: string): string[] {
  const length = String(refusals[status].length + 1);
  const type = 'text/plain; charset=utf-8';
  return ['Content-Type', type, 'Content-Length', length, 'Ray-ID', rayId, 'Connection', 'close'];
}

/** Writes field lines. @param fields name, value, name, value */
export function fieldLines(fields: readonly string[]): string {
  let text = '';
  for (let index = 0; index < fields.length; index += 2) text += `${fields[index]}: ${fields[index + 1]}\r\n`;
  return text;
}

/** Refuses a request. */
export function answerRefusal(response: ServerResponse, status: RefusalStatus, rayId: string): void {
  response.shouldKeepAlive = false;
  response.writeHead(status, refusals[status], fieldsOf(status, rayId));
  response.end(`${refusals[status]}\n`);
}

/** Refuses a request to upgrade, on its bare socket. */
export function refuseSocket(socket: Duplex, status: RefusalStatus, rayId: string): void {
  const text = refusals[status];
  socket.end(`HTTP/1.1 ${status} ${text}\r\n${fieldLines(fieldsOf(status, rayId))}\r\n${text}\n`);
}
