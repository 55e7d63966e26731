// Tells who watches of each change of the journal: one reader of events for all of them, while somebody watches.

import { Counts } from '../../../base/counts.ts';
import { Part } from '../../../base/part.ts';
import type { SharedSlots, SlotWanted } from '../../../base/process-group.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import { eventKinds, kindNames, type MailEvent } from '../../../spool/events/mail-event.ts';
import type { Journal, JournalItem } from '../../../spool/journal/journal.ts';

const kinds = kindNames.filter((kind) => eventKinds[kind].isOfRow);
/** Events that are told of together, and how long the first of them waits, in milliseconds. */
const atOnce = 200;
const gatherMs = 100;
const failurePauseMs = 1000;

/** A row that is new or has changed, with the number of the event that said so. */
export interface LiveRow {
  readonly event: number;
  readonly item: JournalItem;
}

/** Watches rows. @param account its name; undefined: all */
interface Watcher {
  readonly account: string | undefined;
  readonly tell: (row: LiveRow) => void;
}

/** What the hub reads. */
export interface HubParts {
  readonly journal: Pick<Journal, 'rows'>;
  readonly events: Pick<EventStore, 'read' | 'follow' | 'newest'>;
}

function rowIdOf(event: MailEvent): string | undefined {
  if (event.kind === 'refused' || event.kind === 'shadowed') return event.journalId;
  return 'queueId' in event ? event.queueId : undefined;
}

/** The watchers of one gateway. */
export class LiveHub extends Part<HubParts> {
  readonly #watchers = new Set<Watcher>();
  #ended: AbortController | undefined;
  /** It is known from which event on rows are told. */
  #begun: Promise<void> = Promise.resolve();

  /** Begins to tell of rows; gives the function that ends it. */
  watch(watcher: Watcher): () => void {
    this.#watchers.add(watcher);
    if (!this.#ended) {
      const ended = new AbortController();
      this.#ended = ended;
      this.#begun = new Promise((begun) => void this.#run(ended.signal, begun));
    }
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size > 0) return;
      this.#ended?.abort();
      this.#ended = undefined;
    };
  }

  /** Reads the rows that changed behind an event; watch first. @returns undefined where there are too many: the list is to be read anew */
  async missed(after: number, account: string | undefined): Promise<readonly LiveRow[] | undefined> {
    await this.#begun;
    const page = await this.parts.events.read({ after, limit: 1000, kinds, account });
    if (page.hasMore) return undefined;
    return await this.#rowsOf(page.events);
  }

  async #run(signal: AbortSignal, begun: () => void): Promise<void> {
    let after: number | undefined;
    while (!signal.aborted) {
      try {
        after ??= await this.parts.events.newest();
        begun();
        after = await this.#tellFrom(after, signal);
      } catch {
        // The events cannot be read now.
      }
      begun();
      // It is asked again, from where it was left.
      if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, failurePauseMs));
    }
  }

  /** Tells of rows until the signal ends it or they cannot be read. @returns the event up to which all was told */
  async #tellFrom(from: number, signal: AbortSignal): Promise<number> {
    const failed = new AbortController();
    let told = from;
    let gathered: MailEvent[] = [];
    let due: NodeJS.Timeout | undefined;
    // One after another: a later row must not overtake an earlier one.
    let telling: Promise<void> = Promise.resolve();
    const tell = async (events: readonly MailEvent[]): Promise<void> => {
      if (signal.aborted || failed.signal.aborted) return;
      for (const row of await this.#rowsOf(events)) this.#tell(row);
      told = events.at(-1)?.id ?? told;
    };
    const flush = (): void => {
      clearTimeout(due);
      due = undefined;
      const events = gathered;
      gathered = [];
      telling = telling.then(() => tell(events)).catch(() => failed.abort());
    };
    const either = AbortSignal.any([signal, failed.signal]);
    try {
      for await (const event of this.parts.events.follow({ after: from, kinds, signal: either })) {
        gathered.push(event);
        due ??= setTimeout(flush, gatherMs);
        if (gathered.length < atOnce) continue;
        flush();
        await telling;
      }
    } catch {
      // The events cannot be read now; what was read of them is told.
      flush();
    }
    clearTimeout(due);
    await telling;
    return told;
  }

  async #rowsOf(events: readonly MailEvent[]): Promise<readonly LiveRow[]> {
    // Of several events of a message the last one tells of its row.
    const last = new Map<string, number>();
    for (const event of events) {
      const id = rowIdOf(event);
      if (id !== undefined) last.set(id, event.id);
    }
    const items = await this.parts.journal.rows([...last.keys()]);
    return items.map((item) => ({ event: last.get(item.id) ?? 0, item })).toSorted((one, two) => one.event - two.event);
  }

  #tell(row: LiveRow): void {
    for (const { account, tell } of this.#watchers)
      if (account === undefined || account === row.item.account) tell(row);
  }
}

// Places of streams are shared so that no account, nor several together, can take them from the others or from the operator.

/** Streams that are open at once: of everybody, and of everybody while accounts still get one. The rest is the operator's. */
const all = 200;
const ofAccounts = 180;
/** Streams of one account, and of the operator. */
const ofOne = 20;
/** Of which so many are had while fewer than `ofAccounts` are open; the others only while no more than half are. */
const sure = 4;
const half = 100;

/** What is tried, one after another; places are taken by the first that has them all. */
function attempts(account: string | undefined): readonly (readonly SlotWanted[])[] {
  const own = `stream ${account ?? '*'}`;
  const wanted = (most: number, together: number): readonly SlotWanted[] => [
    { key: own, most },
    { key: 'stream', most: together },
  ];
  return account === undefined ? [wanted(ofOne, all)] : [wanted(sure, ofAccounts), wanted(ofOne, half)];
}

/** Gives what takes a place in this process, and in all of them. @param shared absent: there is one */
export function createStreamSlots(shared: SharedSlots | undefined) {
  const own = new Counts();
  const count = (wanted: readonly SlotWanted[], by: 1 | -1): void => {
    for (const { key } of wanted) own.add(key, by);
  };
  const isTaken = async (wanted: readonly SlotWanted[]): Promise<boolean> => {
    if (wanted.some(({ key, most }) => own.of(key) >= most)) return false;
    count(wanted, 1);
    // Without its supervisor this process is ending, and counts alone.
    const full = await shared?.take(wanted).catch(() => undefined);
    if (full !== undefined) count(wanted, -1);
    return full === undefined;
  };
  /** Takes a place. @param account undefined: the operator's @returns what gives it back, called once; undefined where there is none */
  return async (account: string | undefined): Promise<(() => void) | undefined> => {
    for (const wanted of attempts(account)) {
      if (!(await isTaken(wanted))) continue;
      return () => {
        count(wanted, -1);
        shared?.giveBack(wanted.map(({ key }) => key));
      };
    }
    return undefined;
  };
}
