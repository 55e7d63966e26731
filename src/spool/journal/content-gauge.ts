// Knows about how much content the journal keeps, so that no more of it is written than `journal.maxOctets` and a little: what
// removes it works behind the rows, and a flood can be faster. It also counts what is written, for /metrics.

/** The least octets that may be written before what is too much is removed. */
const leastAhead = 1_048_576;

/** The content of one journal, as one process sees it. */
export class ContentGauge {
  readonly #most: number;
  /** Octets that may be written beyond `#most`. */
  readonly #ahead: number;
  #known = 0;
  /** Octets written since the last `learn`. */
  written = 0;
  /** Rows written since the start, and rows among them that were written without content because there was no room. */
  readonly counts = { accepted: 0, refused: 0, skipped: 0 };
  /** Called where content should be removed soon; set by whoever removes it. */
  onPressed: () => void = () => undefined;

  /** @param most octets of all content together (`journal.maxOctets`) */
  constructor(most: number) {
    this.#most = most;
    this.#ahead = most === 0 ? 0 : Math.max(leastAhead, most / 8);
  }

  /** Octets that are kept, as far as is known. */
  get octets(): number {
    return this.#known + this.written;
  }

  /** More is kept than should be. */
  get isPressed(): boolean {
    return this.octets > this.#most;
  }

  /** Asks for room for the content of a row. @returns false where there is none: the row is to be written without content */
  take(octets: number): boolean {
    if (octets === 0) return true;
    if (this.octets + octets > this.#most + this.#ahead) {
      this.counts.skipped += 1;
      this.onPressed();
      return false;
    }
    this.written += octets;
    if (this.isPressed && this.written > this.#ahead / 4) this.onPressed();
    return true;
  }

  /** Rows are on disk. */
  wrote(kind: 'accepted' | 'refused', rows: number): void {
    this.counts[kind] += rows;
  }

  /** What the database says is kept. @param known octets @param written the value of `written` before the question */
  learn(known: number, written: number): void {
    this.#known = known;
    this.written -= written;
  }
}
