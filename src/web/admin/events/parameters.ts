// Query parameters that the endpoints of events and messages share: what names a message or an address, pages, times (D23, D52, D53).

import { Type } from 'typebox';
import { bareId } from '../../../mail/message-ids.ts';
import type { Fault } from '../../http/envelope.ts';
import { numberCursor, perPage, readTime, timeParameter } from '../schemas.ts';

/** A query parameter that names a message. */
export const messageParameter = Type.String({
  minLength: 1,
  maxLength: 998,
  want: 'a Message-ID or the id of a message',
  description: 'Message-ID as it left, with or without brackets, or the id of the message',
  example: '0199f3c1-1f0b-7c3a-9d8e-4f2a6b1c0d5e@platform.example',
});

/** A query parameter that is an address. */
export function addressParameter(description: string) {
  return Type.String({
    minLength: 1,
    maxLength: 320,
    want: 'an address such as you@example.net',
    description: `${description}, in any spelling`,
    example: 'you@example.net',
  });
}

/** The id in the spool of a message that is named by that id or by its Message-ID, whose left side the id is (D23). */
export function queueIdOf(text: string): string {
  const [id = ''] = bareId(text).split('@', 1);
  return id.toLowerCase();
}

const defaultPage = 100;

/** The parameters. */
export const pageParameters = {
  cursor: numberCursor,
  per_page: perPage(1000, defaultPage),
  since: timeParameter('Only from this time on (RFC 3339)'),
  until: timeParameter('Only before this time (RFC 3339)'),
};

/** Reads the parameters. @param faults gets what is wrong with the times */
export function readPage(query: Partial<Record<keyof typeof pageParameters, string>>, faults: Fault[]) {
  return {
    limit: Number(query.per_page ?? defaultPage),
    cursor: query.cursor === undefined ? undefined : Number(query.cursor),
    since: readTime(query.since, 'since', { faults }),
    until: readTime(query.until, 'until', { faults }),
  };
}
