// Gives many webhooks their turns: a bounded number at a time, in the order in which they asked. Those whose endpoints fail
// have a share of their own, so that the others never wait behind them.

/** WebhookTurns at the same time, of those that work and of those that fail. */
const most = { working: 64, failing: 16 } as const;
/** So long after a turn began one is given the next, in milliseconds, unless it wants it at once: what happens meanwhile goes together. */
const apartMs = 50;

type Share = keyof typeof most;

/** What a turn came to. */
export interface TurnResult {
  /** It wants another turn at once, behind those that wait. */
  readonly again: boolean;
  /** From now on it has its turns among those that fail. */
  readonly isFailing: boolean;
}

/** The turns of all webhooks. */
export class WebhookTurns {
  readonly #run: (id: string) => Promise<TurnResult>;
  readonly #waiting: Readonly<Record<Share, Set<string>>> = { working: new Set(), failing: new Set() };
  /** Those that have their turn, or had it a moment ago, with whether they were asked for again meanwhile. */
  readonly #running = new Map<string, { isAsked: boolean; rest?: NodeJS.Timeout }>();
  /** Those whose last turn told that they fail. Whoever takes a webhook away has it forgotten here, so that they do not pile up. */
  readonly #failing = new Set<string>();
  readonly #count: Record<Share, number> = { working: 0, failing: 0 };
  #isEnded = false;
  #onQuiet: (() => void) | undefined;

  /** @param run gives a turn; it must not reject */
  constructor(run: (id: string) => Promise<TurnResult>) {
    this.#run = run;
  }

  /** How many have their turn, and how many wait for it. */
  get counts(): { readonly running: number; readonly waiting: number } {
    return {
      running: this.#count.working + this.#count.failing,
      waiting: this.#waiting.working.size + this.#waiting.failing.size,
    };
  }

  /** How many webhooks are remembered as failing. */
  get failing(): number {
    return this.#failing.size;
  }

  /** Forgets that a webhook fails, since it is gone. One that has its turn now is forgotten where the turn tells that it works. */
  forget(id: string): void {
    this.#failing.delete(id);
  }

  /** Asks for a turn. One that has its turn now gets another after it; one that waits already waits once. */
  ask(id: string): void {
    if (this.#isEnded) return;
    const running = this.#running.get(id);
    if (running) {
      running.isAsked = true;
      return;
    }
    this.#waiting[this.#failing.has(id) ? 'failing' : 'working'].add(id);
    this.#next();
  }

  /** Begins no more turns; resolves when those under way have ended. */
  async end(): Promise<void> {
    this.#isEnded = true;
    for (const ids of Object.values(this.#waiting)) ids.clear();
    for (const { rest } of this.#running.values()) clearTimeout(rest);
    if (this.counts.running > 0) await new Promise<void>((resolve) => (this.#onQuiet = resolve));
  }

  #next(): void {
    for (const share of ['working', 'failing'] as const) {
      for (const id of this.#waiting[share]) {
        if (this.#count[share] >= most[share]) break;
        this.#waiting[share].delete(id);
        this.#begin(id, share);
      }
    }
  }

  #begin(id: string, share: Share): void {
    const turn: { isAsked: boolean; rest?: NodeJS.Timeout } = { isAsked: false };
    const began = performance.now();
    this.#running.set(id, turn);
    this.#count[share] += 1;
    void this.#run(id).then(({ again, isFailing }) => {
      this.#count[share] -= 1;
      if (isFailing) this.#failing.add(id);
      else this.#failing.delete(id);
      const over = (): void => {
        this.#running.delete(id);
        if (again || (turn.isAsked && !isFailing)) this.ask(id);
      };
      const left = began + apartMs - performance.now();
      if (again || left <= 0 || this.#isEnded) over();
      else turn.rest = setTimeout(over, left);
      this.#next();
      if (this.#isEnded && this.counts.running === 0) this.#onQuiet?.();
    });
  }
}
