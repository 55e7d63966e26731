// Whose turn it is in the spool in memory, and the holds by which mail waits.

import { type HoldRule, Holds, mostHolds, stemOfTransport } from '../../../src/spool/hold.ts';
import type { ClaimTurn, Spool, WaitingLine } from '../../../src/spool/spool.ts';
import { type Held, holdOf, isDue } from './memory-messages.ts';

/** The turns and holds of a spool in memory. */
export class MemoryLines {
  readonly #messages: ReadonlyMap<string, Held>;
  #holds = new Holds();
  #newestHold = 0;
  /** When each turn may come again, and how many turns had ended when its last one did. */
  readonly #turns = new Map<string, { readonly until: number; readonly ended: number }>();
  #ended = 0;
  #asked = 0;

  /** @param messages the spool's own, by id */
  constructor(messages: ReadonlyMap<string, Held>) {
    this.#messages = messages;
  }

  /** The holds as they are. */
  get holds(): Holds {
    return this.#holds;
  }

  /** As `Spool.turns`. */
  turns({ transport, now, limit, except = [] }: Parameters<Spool['turns']>[0]): readonly ClaimTurn[] {
    const turns = new Map<string, ClaimTurn>();
    for (const held of this.#messages.values()) {
      const { account } = held.entry;
      if (except.includes(account)) continue;
      for (const recipient of held.recipients) {
        const key = `${recipient.transport} ${account}`;
        if (turns.has(key) || stemOfTransport(recipient.transport) !== transport || !isDue(recipient, now)) continue;
        if ((this.#turns.get(key)?.until ?? now) > now || holdOf(held, recipient, this.#holds)) continue;
        turns.set(key, { transport: recipient.transport, account });
      }
    }
    const endedOf = (key: string): number => this.#turns.get(key)?.ended ?? 0;
    const sorted = [...turns].toSorted(([left], [right]) => endedOf(left) - endedOf(right)).map(([, turn]) => turn);
    // Accounts have equal shares; of more accounts than are asked for, others come first each time.
    const accounts = [...Map.groupBy(sorted, ({ account }) => account)];
    this.#asked += 1;
    const first = (this.#asked * limit) % Math.max(1, accounts.length);
    const chosen = [...accounts.slice(first), ...accounts.slice(0, first)].slice(0, limit);
    const each = Math.max(1, Math.floor(limit / Math.max(1, chosen.length)));
    const shares = new Set(chosen.flatMap(([, own]) => own.slice(0, each)));
    return sorted.filter((turn) => shares.has(turn));
  }

  /** Ends a turn; the next one comes behind all that wait, and not before this time. */
  endTurn({ transport, account }: ClaimTurn, until: number): void {
    this.#ended += 1;
    this.#turns.set(`${transport} ${account}`, { until, ended: this.#ended });
  }

  /** As `Spool.addHold`. */
  addHold(rule: HoldRule): void {
    const others = this.#holds.all.filter(({ kind, value }) => kind !== rule.kind || value !== rule.value);
    if (others.length >= mostHolds) throw new Error(`There are ${mostHolds} holds, which is the most that are kept`);
    const known = this.#holds.all.find((hold) => !others.includes(hold));
    if (!known) this.#newestHold += 1;
    this.#holds = new Holds([...others, { ...rule, id: known?.id ?? this.#newestHold }]);
  }

  /** As `Spool.liftHold`. */
  liftHold({ kind, value }: Pick<HoldRule, 'kind' | 'value'>): boolean {
    const others = this.#holds.all.filter((hold) => hold.kind !== kind || hold.value !== value);
    const isLifted = others.length < this.#holds.all.length;
    this.#holds = new Holds(others);
    return isLifted;
  }

  /** As `Spool.waiting`. */
  waiting(limit: number): readonly WaitingLine[] {
    const lines = new Map<string, WaitingLine>();
    for (const held of this.#messages.values()) {
      for (const recipient of held.recipients) {
        if (recipient.state !== 'queued') continue;
        const { account, acceptedAt } = held.entry;
        const hold = holdOf(held, recipient, this.#holds)?.id;
        const key = `${recipient.transport} ${account} ${hold}`;
        const known = lines.get(key) ?? {
          transport: recipient.transport,
          account,
          recipients: 0,
          oldestAcceptedAt: acceptedAt,
        };
        const oldestAcceptedAt = Math.min(known.oldestAcceptedAt, acceptedAt);
        lines.set(key, { ...known, recipients: known.recipients + 1, oldestAcceptedAt, ...(hold ? { hold } : {}) });
      }
    }
    return [...lines.values()].toSorted((left, right) => right.recipients - left.recipients).slice(0, limit);
  }
}
