// Who may have which recipients of the spool: claims, and the transports that recipients wait for.

import type { DueMessage } from '../spool.ts';
import type { SpoolClock } from './sqlite-clock.ts';
import type { SpoolTables, StoredMessages } from './sqlite-messages.ts';
import type { OperationOf, Stray } from './sqlite-protocol.ts';
import { integer, strayOf, text } from './sqlite-rows.ts';
import type { Statements } from './sqlite-statements.ts';

/** A claim looks at no more rows than this, so that messages of very many recipients do not hold up the others. */
const mostDueRows = 10_000;

/** The claims on one database; what each method does is told at the method of `Spool` that has its name. */
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
        entry: this.#messages.entry(row, this.#addresses(seq)),
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

  /** Recipients that are due in none of these transports, `limit` of them at most. */
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
    // One look at the message's rows: a look for each address would cost the square of their number.
    for (const row of this.#statements.states.all(id)) {
      if (wanted.has(text(row, 'address'))) {
        this.#statements.release.run(integer(row, 'seq'), integer(row, 'position'));
      }
    }
  }

  #addresses(seq: number): readonly string[] {
    return this.#statements.recipients.all(seq).map((row) => text(row, 'address'));
  }
}
