// Holds in SQLite. A hold on a whole line parks the line's one row when its turn comes. A hold on a message or a domain sets
// single recipients aside: the message's at once, the domain's when they would be claimed. So neither making nor lifting a
// hold rewrites a long queue in one transaction.

import { type Hold, type HoldRule, Holds, requireRoom } from '../hold.ts';
import { holdsOf, integer } from '../stored-rows.ts';
import { SpoolPart } from './sqlite-tables.ts';

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
    this.#read = new Holds(this.read());
    return this.#read;
  }

  /** Reads the holds, times as wall times. */
  read(): readonly Hold[] {
    return holdsOf(this.statements.holds.all(), this.clock);
  }

  /** Makes a hold, or says anew who made it and why. @throws Error where there are too many */
  add(rule: HoldRule): void {
    requireRoom(this.current.all, rule);
    const { kind, value, at, by, why } = rule;
    this.statements.addHold.run(kind, value, this.clock.stored(at), by, why);
    this.#forgetRead();
    if (kind !== 'message') return;
    const id = integer(this.statements.holdId.get(kind, value) ?? {}, 'id');
    this.inFlight.spread(value);
    for (const row of this.statements.states.all(value)) {
      if (integer(row, 'state') === 0) this.setAside(integer(row, 'seq'), integer(row, 'position'), id);
    }
  }

  /** Lifts a hold. @returns false where there is none */
  lift({ kind, value }: Pick<HoldRule, 'kind' | 'value'>): boolean {
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
