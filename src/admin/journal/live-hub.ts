// Tells those who watch of each change of the journal: one reader of the events for all of them, however many there are. It
// runs only while somebody watches.

import type { EventStore } from '../../events/event-store.ts';
import type { EventKind, MailEvent } from '../../events/mail-event.ts';
import type { Journal, JournalItem } from '../../journal/journal.ts';

/** The kinds of events that make or change a row. */
const kinds: readonly EventKind[] = ['accepted', 'refused', 'delivered', 'deferred', 'failed', 'requeued', 'dropped'];
/** Events that are told of together, and how long the first of them waits, in milliseconds. */
const atOnce = 200;
const gatherMs = 100;
/** How long is waited after the events could not be read, in milliseconds. */
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
  return event.kind === 'refused' ? event.journalId : 'queueId' in event ? event.queueId : undefined;
}

/** The watchers of one gateway. */
export class LiveHub {
  readonly #parts: HubParts;
  readonly #watchers = new Set<Watcher>();
  #ended: AbortController | undefined;

  constructor(parts: HubParts) {
    this.#parts = parts;
  }

  /** Begins to tell of rows; gives the function that ends it. */
  watch(watcher: Watcher): () => void {
    this.#watchers.add(watcher);
    if (!this.#ended) {
      this.#ended = new AbortController();
      void this.#run(this.#ended.signal);
    }
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size > 0) return;
      this.#ended?.abort();
      this.#ended = undefined;
    };
  }

  /**
   * Reads the rows that have changed behind an event.
   * @returns undefined where there are more than are told of: whoever asks should read the list anew
   */
  async missed(after: number, account: string | undefined): Promise<readonly LiveRow[] | undefined> {
    const page = await this.#parts.events.read({ after, limit: 1000, kinds, account });
    if (page.hasMore) return undefined;
    return await this.#rowsOf(page.events);
  }

  async #run(signal: AbortSignal): Promise<void> {
    let after: number | undefined;
    while (!signal.aborted) {
      try {
        after ??= await this.#parts.events.newest();
        let gathered: MailEvent[] = [];
        let due: Promise<void> | undefined;
        const flush = async (): Promise<void> => {
          const told = gathered;
          gathered = [];
          due = undefined;
          for (const row of await this.#rowsOf(told)) this.#tell(row);
        };
        for await (const event of this.#parts.events.follow({ after, kinds, signal })) {
          after = event.id;
          gathered.push(event);
          due ??= new Promise((resolve) => setTimeout(resolve, gatherMs)).then(flush);
          if (gathered.length >= atOnce) await due;
        }
      } catch {
        // The store cannot be read now; it is asked again, from where it was left.
        await new Promise((resolve) => setTimeout(resolve, failurePauseMs));
      }
    }
  }

  async #rowsOf(events: readonly MailEvent[]): Promise<readonly LiveRow[]> {
    // Of several events of a message the last one tells of its row.
    const last = new Map<string, number>();
    for (const event of events) {
      const id = rowIdOf(event);
      if (id !== undefined) last.set(id, event.id);
    }
    const items = await this.#parts.journal.rows([...last.keys()]);
    return items.map((item) => ({ event: last.get(item.id) ?? 0, item })).toSorted((one, two) => one.event - two.event);
  }

  #tell(row: LiveRow): void {
    for (const { account, tell } of this.#watchers)
      if (account === undefined || account === row.item.account) tell(row);
  }
}
