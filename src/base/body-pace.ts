const minuteMs = 60_000;

/**
 * Judges whether the octets of a body come fast enough (D42, D66): a minute begins with the first octet that comes, and must bring enough.
 * Otherwise a client that sends an octet now and then could hold a session, and the memory of its message or a connection to an
 * origin, for as long as it likes.
 */
export class BodyPace {
  readonly #octetsPerMinute: number;
  /** When the minute began, on the monotonic clock; undefined where no octet has come since the last minute was judged. */
  #since: number | undefined;
  #sizeBefore = 0;
  #size = 0;

  /** @param octetsPerSecond the lowest average over a minute that is allowed; 0 allows any pace */
  constructor(octetsPerSecond: number) {
    this.#octetsPerMinute = octetsPerSecond * 60;
  }

  /** Notes that octets have come; the body has `size` octets now. */
  came(size: number, now: number): void {
    if (this.#since === undefined) {
      this.#since = now;
      this.#sizeBefore = this.#size;
    }
    this.#size = size;
  }

  /** Judges the minute if it is over. A silence after a good minute is left to the idle limit. */
  isTooSlow(now: number): boolean {
    if (this.#since === undefined || now - this.#since < minuteMs) return false;
    this.#since = undefined;
    return this.#size - this.#sizeBefore < this.#octetsPerMinute;
  }

  /** Drops the minute under way, because we do not read for a while, which is not the client's fault. */
  forget(): void {
    this.#since = undefined;
  }
}
