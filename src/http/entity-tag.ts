// Versions of what the API shows, by which a client changes only what it has seen: ETag and If-Match (RFC 9110 §8.8.3, §13.1.1).

import type { FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from './envelope.ts';

/** What a caller may meet where If-Match is honoured, for the OpenAPI document. */
export const changedCode = { number: 10001, status: 412 } as const;

/** Gives the version of what is answered to the client. */
export function showVersion(reply: FastifyReply, version: string | number): void {
  reply.header('ETag', `"${version}"`);
}

/** Whether a request is to be done only on a version that it names. */
export function namesVersion({ headers }: FastifyRequest): boolean {
  return headers['if-match'] !== undefined;
}

/** The refusal of a request whose If-Match names another version than the present one. */
export function changed(): Refusal {
  const message = 'If-Match names another version than the present one; get it again and look at what has changed';
  return new Refusal([{ ...changedCode, message }]);
}

/**
 * Judges If-Match against the present version of what is there.
 * @throws Refusal 412 where it names versions, and this is none of them. A weak tag fits nothing (RFC 9110 §8.8.3.2)
 */
export function judgeVersion(request: FastifyRequest, version: string | number): void {
  const wanted = request.headers['if-match'];
  if (wanted === undefined || wanted.trim() === '*') return;
  const tags = wanted.split(',').map((tag) => tag.trim());
  if (!tags.includes(`"${version}"`)) throw changed();
}
