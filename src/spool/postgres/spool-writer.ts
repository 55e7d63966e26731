// Writes to the spool: gathers what comes while groups are being committed, and writes each group in one transaction. No transaction of
// a message locks anything that another gateway's needs, but for rows of the same message. New messages have ways of their own, so
// that they wait neither for outcomes, which are read before they are changed, nor long for one another.

import { GroupQueue } from '../core/group-queue.ts';
import { type PostgresWrite, type Waiting, type WriterParts, WriteWay } from './write-way.ts';

/** Groups of new messages that are written at once. */
const addingWays = 3;

/** The writes of one process. */
export class SpoolWriter {
  readonly #ways: readonly WriteWay[];
  readonly #adding: GroupQueue<Waiting>;
  /** One way alone: outcomes that failed are handed in again behind the transaction that they failed in. */
  readonly #changing: GroupQueue<Waiting>;
  /** Outcomes that were kept although whoever recorded them heard otherwise. */
  readonly #kept = new WeakSet();

  constructor(parts: WriterParts) {
    const onKept = (outcome: object): void => void this.#kept.add(outcome);
    this.#ways = Array.from({ length: addingWays + 1 }, (_, way) => new WriteWay({ ...parts, way, onKept }));
    const [changing, ...adding] = this.#ways.map((way) => (group: readonly Waiting[]) => way.write(group));
    this.#adding = new GroupQueue(adding);
    this.#changing = new GroupQueue(changing ? [changing] : []);
  }

  /** Outcomes that are not reported to their senders because there were too many. */
  get unreported(): number {
    return this.#ways.reduce((sum, { unreported }) => sum + unreported, 0);
  }

  /** Runs an operation; resolves once what it writes is on disk. @throws Unavailable while the server is away */
  async write<Result>(operation: PostgresWrite<Result>): Promise<Result> {
    const result = await new Promise((resolve, reject) => {
      const { octets = 0, isPatient = false, reads } = operation;
      const queue = reads ? this.#changing : this.#adding;
      queue.put({ ...operation, octets, isPatient, resolve, reject });
    });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `WriteWay` settles each operation with its own result
    return result as Result;
  }

  /** Whether an outcome (the object) was kept by an operation that failed. To be asked in `run`: then no transaction is in doubt. */
  isKept(outcome: object): boolean {
    return this.#kept.has(outcome);
  }

  /** Finds out what became of transactions that are in doubt, if there are any. @throws Unavailable while the server is away */
  async settleDoubt(): Promise<void> {
    for (const way of this.#ways) await way.settleDoubt();
  }

  /** Resolves once everything is written. */
  async quiet(): Promise<void> {
    await Promise.all([this.#adding.quiet(), this.#changing.quiet()]);
  }
}
