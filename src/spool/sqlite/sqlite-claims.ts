// Claims on recipients of the spool: whose turn it is, who is claimed, and the transports that recipients wait for.

import type { Row } from '../../base/database/database.ts';
import { type Hold, type HoldRule, Holds, requireRoom } from '../hold.ts';
import type { ClaimQuery, ClaimTurn, DueMessage, Spool } from '../spool.ts';
import { dueMessage, holdsOf, integer, text } from '../stored-rows.ts';
import type { Line } from './sqlite-lines.ts';
import type { StoredMessages } from './sqlite-messages.ts';
import { SpoolPart, type SpoolTables } from './sqlite-tables.ts';

/** Rows that one call gives back to their lines, at most. */
const liftedAtOnce = 1000;

/** The holds of one database. Every method runs in the caller's transaction. */
export class StoredHolds extends SpoolPart {
  #read = new Holds();
  #version = '';
  /** This transaction has looked whether the holds have changed. */
  #isChecked = false;
  /** Rows of holds that are gone may still be set aside. */
  #mayHaveLifted = true;

  /** To be called at the beginning of a transaction: another process may have changed the holds since. */
  begin(): void {
    this.#isChecked = false;
  }

  /** The holds as they are in this transaction. */
  get current(): Holds {
    if (this.#isChecked) return this.#read;
    this.#isChecked = true;
    const row = this.statements.holdsVersion.get() ?? {};
    // Ids are never used twice, so that neither a hold that came nor one that went leaves both numbers as they were.
    const version = `${integer(row, 'held')} ${integer(row, 'newest')}`;
    if (version === this.#version) return this.#read;
    this.#version = version;
    this.#mayHaveLifted = true;
    this.#read = new Holds(this.holds());
    return this.#read;
  }

  /** Reads the holds, times as wall times. */
  holds(): readonly Hold[] {
    return holdsOf(this.statements.holds.all(), this.clock);
  }

  /** Makes a hold, or says anew who made it and why. @throws Error where there are too many */
  addHold(rule: HoldRule): void {
    requireRoom(this.current.all, rule);
    const { kind, value, at, by, why } = rule;
    this.statements.addHold.run(kind, value, this.clock.stored(at), by, why);
    this.#forgetRead();
    if (kind !== 'message') return;
    const id = integer(this.statements.holdId.get(kind, value) ?? {}, 'id');
    this.inFlight.spread(value);
    this.statements.setAside.run(-id, value);
  }

  /** Lifts a hold. @returns false where there is none */
  liftHold({ kind, value }: Pick<HoldRule, 'kind' | 'value'>): boolean {
    this.#forgetRead();
    return Number(this.statements.liftHold.run(kind, value).changes) > 0;
  }

  #forgetRead(): void {
    this.#version = '';
    this.#isChecked = false;
  }

  /** Takes a queued recipient out of its line. */
  setAside(message: number, position: number, hold: number): void {
    this.statements.giveLine.run(-hold, message, position);
  }

  /** Gives what holds kept that are gone back to the lines, some at a time; to be called again and again. */
  settle(): void {
    const held = new Set(this.current.all.map(({ id }) => id));
    if (!this.#mayHaveLifted) return;
    let done = this.lines.unparkOthers(held, liftedAtOnce);
    let line: unknown = this.statements.nextAside.get(Number.MIN_SAFE_INTEGER)?.['line'];
    while (typeof line === 'number' && done < liftedAtOnce) {
      if (!held.has(-line)) done += Number(this.statements.backInLine.run(line, liftedAtOnce - done).changes);
      line = this.statements.nextAside.get(line)?.['line'];
    }
    if (done < liftedAtOnce) this.#mayHaveLifted = false;
  }
}

/** Rows that one claim looks at, at most, so that messages with very many recipients do not delay the others. */
const mostDueRows = 10_000;
/** Pages of lines that one question for turns looks through, at most, where holds keep most of them waiting. */
const mostPages = 10;
/** Of the messages of a claim, the share of those that were deferred before, where both wait: one in so many. */
const deferredShare = 4;
/** Classes of a line: never tried, and deferred. */
const [fresh, deferred] = [0, 1];

/** A due recipient whose transport is none of the current ones: the place of its row, and what names its transport. */
function strayOf(row: Row) {
  return {
    ...{ message: integer(row, 'message'), position: integer(row, 'position') },
    ...{ id: text(row, 'id'), account: text(row, 'account'), address: text(row, 'address') },
  };
}
type Stray = Readonly<ReturnType<typeof strayOf>>;

/** The claims on one database; the methods of the same names in `Spool` say what each method does. */
export class RecipientClaims extends SpoolPart<
  SpoolTables & { readonly messages: StoredMessages; readonly holds: StoredHolds }
> {
  /** Claims of a single message: every fourth is for a deferred one. */
  #singles = 0;

  turns({ transport, now, limit, except }: Parameters<Spool['turns']>[0]): readonly ClaimTurn[] {
    this.parts.holds.settle();
    const at = this.clock.stored(now);
    this.inFlight.settleDue(at);
    for (let page = 0; page < mostPages; page += 1) {
      const lines = this.lines.ready(transport, at, limit, except);
      const free = lines.filter((line) => !this.#isParked(line));
      if (free.length > 0 || lines.length === 0)
        return free.map(({ transport: waitsFor, account }) => ({ transport: waitsFor, account }));
    }
    return [];
  }

  postpone(turn: ClaimTurn, until: number): void {
    const line = this.lines.find(turn);
    if (line) this.lines.statements.set.run(this.clock.stored(until), line.id);
  }

  claimDue({ now, limit, claimUntil, expiredOnly = false, ...turn }: ClaimQuery): readonly DueMessage[] {
    const at = this.clock.stored(now);
    this.inFlight.settleDue(at);
    const line = this.lines.find(turn);
    if (!line || this.#isParked(line)) return [];
    const until = this.clock.stored(claimUntil);
    const seqs = this.#pick(line.id, { at, limit, expiredOnly });
    const messages = seqs.flatMap((seq) => this.#claim(seq, line.id, { at, until }) ?? []);
    this.lines.endTurn(line.id, at);
    return messages;
  }

  giveTransports(
    given: readonly (Stray & { readonly transport: string })[],
    { looked, now }: { readonly looked: readonly number[]; readonly now: number },
  ): void {
    const holds = this.parts.holds.current;
    for (const { id, address, account, transport, message, position } of given) {
      const row = this.statements.queuedRecipient.get(message, position);
      if (!row) continue;
      const hold = holds.ofRecipient({ id, address });
      if (hold) this.parts.holds.setAside(message, position, hold.id);
      else {
        const line = this.lines.of({ transport, account }, integer(row, 'due'));
        this.statements.giveLine.run(line, message, position);
      }
    }
    for (const line of looked) this.lines.endTurn(line, this.clock.stored(now));
  }

  /** Recipients that are due and whose transport is none of these, `limit` of them at most; and the lines that were looked at. */
  strays({ now, limit, transports }: Omit<Parameters<Spool['giveTransports']>[0], 'transportOf'>) {
    const at = this.clock.stored(now);
    this.inFlight.settleDue(at);
    const strays: Stray[] = [];
    const looked: number[] = [];
    const look = (line: number): void => {
      for (const isDeferred of [fresh, deferred]) {
        for (const row of this.statements.dueInLine.all(line, isDeferred, at, limit - strays.length))
          strays.push(strayOf(row));
      }
    };
    look(0);
    const known = new Set(transports);
    for (const stem of this.lines.stems()) {
      if (known.has(stem)) continue;
      for (const { id } of this.lines.ready(stem, at, limit)) {
        if (strays.length >= limit) break;
        look(id);
        looked.push(id);
      }
    }
    return { strays, looked };
  }

  release(id: string, recipients: readonly string[]): void {
    const wanted = new Set(recipients);
    // One query for all rows of the message: a query for each address would cost the square of their number.
    for (const row of this.parts.messages.states(id)) {
      if (!wanted.has(text(row, 'address')) || integer(row, 'state') !== 0) continue;
      this.statements.release.run(integer(row, 'seq'), integer(row, 'position'));
      this.lines.dueAt(integer(row, 'line'), integer(row, 'next_attempt_at'));
    }
  }

  /** Tells whether a hold keeps the whole line waiting, and if so takes it out of its turns. */
  #isParked(line: Line): boolean {
    const hold = this.parts.holds.current.ofLine(line);
    if (hold) this.lines.statements.park.run(hold.id, line.id);
    return hold !== undefined;
  }

  /** Chooses messages of a line that are due: what was never tried comes first, and leaves its share to what was deferred. */
  #pick(line: number, query: { at: number; limit: number; expiredOnly: boolean }): readonly number[] {
    const { limit } = query;
    const first = this.#dueOf(line, fresh, query);
    if (first.length === 0) return this.#dueOf(line, deferred, query);
    if (limit === 1) this.#singles = (this.#singles + 1) % deferredShare;
    const share = limit === 1 && this.#singles === 0 ? 1 : Math.floor(limit / deferredShare);
    const room = Math.max(share, limit - first.length);
    const again = room === 0 ? [] : this.#dueOf(line, deferred, { ...query, limit: room });
    return [...new Set([...first.slice(0, limit - again.length), ...again])];
  }

  /** Due messages of one class of a line, those that have been due longest first. */
  #dueOf(
    line: number,
    isDeferred: number,
    query: { at: number; limit: number; expiredOnly: boolean },
  ): readonly number[] {
    const seqs = new Set<number>();
    let looked = 0;
    for (const row of this.statements.due.iterate(line, isDeferred, query.at)) {
      const seq = integer(row, 'message');
      if (query.expiredOnly && integer(this.statements.expiry.get(seq) ?? {}, 'expires_at') > query.at) break;
      seqs.add(seq);
      looked += 1;
      if (seqs.size >= query.limit || looked >= mostDueRows) break;
    }
    return [...seqs];
  }

  /** Claims a message's due recipients of a line, except those that a hold sets aside. */
  #claim(seq: number, line: number, { at, until }: { at: number; until: number }): DueMessage | undefined {
    const row = this.statements.entryBySeq.get(seq);
    if (!row) return undefined;
    const holds = this.parts.holds.current;
    const due: Row[] = [];
    for (const recipient of this.statements.dueOf.all(seq, line, at)) {
      const address = text(recipient, 'address');
      const hold = holds.hasPicked ? holds.ofRecipient({ id: text(row, 'id'), address }) : undefined;
      const position = integer(recipient, 'position');
      if (hold) this.parts.holds.setAside(seq, position, hold.id);
      else {
        this.statements.claim.run(until, seq, position);
        due.push(recipient);
      }
    }
    return due.length === 0 ? undefined : dueMessage(row, this.statements.envelope.all(seq), due, this.clock);
  }
}
