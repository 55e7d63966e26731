// Plain verbs as they are sent to the spool's thread.

import type { PlainVerb } from '../../src/spool/core/plain-verbs.ts';
import type { Spool } from '../../src/spool/spool.ts';
import { someTime } from './spool-entry.ts';

/** A plain verb with what it is asked, for a `SqliteStore`. */
export function plain<Verb extends PlainVerb>(verb: Verb, ...asked: Parameters<Spool[Verb]>) {
  return { kind: 'plain' as const, args: [verb, asked, someTime] as const };
}
