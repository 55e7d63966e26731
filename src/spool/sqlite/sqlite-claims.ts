// Claims on recipients of the spool, and the transports that recipients wait for.

import type { DueMessage } from '../spool.ts';
import type { SpoolClock } from './sqlite-clock.ts';
import type { SpoolTables, StoredMessages } from './sqlite-messages.ts';
import type { OperationOf, Stray } from './sqlite-protocol.ts';
import { integer, strayOf, text } from './sqlite-rows.ts';
import type { Statements } from './sqlite-statements.ts';

/** Rows that one claim looks at, at most, so that messages with very many recipients do not delay the others. */
const mostDueRows = 10_000;

/** The claims on one database; the methods of the same names in `Spool` say what each method does. */
export class RecipientClaims {
  readonly #statements: Statements;
  readonly #clock: SpoolClock;
  readonly #messages: StoredMessages;

  constructor({ statements, clock }: SpoolTables, messages: StoredMessages) {
    this.#statements = statements;
    this.#clock = clock;
    this.#messages = messages;
  }

  claimDue({ now, limit, claimUntil, transport = '' }: OperationOf<'claimDue'>): readonly DueMessage[] {
    const seqs = new Set<number>();
    let looked = 0;
    for (const row of this.#statements.due.iterate(transport, this.#clock.stored(now))) {
      seqs.add(integer(row, 'message'));
      looked += 1;
      if (seqs.size >= limit || looked >= mostDueRows) break;
    }
    const messages: DueMessage[] = [];
    for (const seq of seqs) {
      const row = this.#statements.entryBySeq.get(seq);
      if (!row) continue;
      const due = this.#statements.dueOf.all(seq, transport, this.#clock.stored(now));
      this.#statements.claim.run(this.#clock.stored(claimUntil), seq, transport, this.#clock.stored(now));
      messages.push({
        entry: this.#messages.entry(row, this.#statements.recipients.all(seq)),
        size: integer(row, 'size'),
        due: due.map((recipient) => ({
          address: text(recipient, 'address'),
          attempts: integer(recipient, 'attempts'),
        })),
      });
    }
    return messages;
  }

  giveTransports({ given }: OperationOf<'giveTransports'>): void {
    for (const { transport, message, position } of given)
      this.#statements.giveTransport.run(transport, message, position);
  }

  /** Recipients that are due and whose transport is none of these, `limit` of them at most. */
  strays({ now, limit, transports }: OperationOf<'strays'>): readonly Stray[] {
    const strays: Stray[] = [];
    const known = new Set(transports);
    let transport: unknown = '';
    while (typeof transport === 'string' && strays.length < limit) {
      const rows = known.has(transport)
        ? []
        : this.#statements.dueInTransport.all(transport, this.#clock.stored(now), limit - strays.length);
      for (const row of rows) strays.push(strayOf(row));
      transport = this.#statements.nextTransport.get(transport)?.['lane'];
    }
    return strays;
  }

  release({ id, recipients }: OperationOf<'release'>): void {
    const wanted = new Set(recipients);
    // One query for all rows of the message: a query for each address would cost the square of their number.
    for (const row of this.#statements.states.all(id)) {
      if (wanted.has(text(row, 'address'))) {
        this.#statements.release.run(integer(row, 'seq'), integer(row, 'position'));
      }
    }
  }
}
