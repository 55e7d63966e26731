// Whether the octets of a body come fast enough (D42, D66): a client that drips one now and then would hold a session, and
// the room of its message or a connection to an origin, for as long as it likes.

const minuteMs = 60_000;

/** The pace of one body. While octets come, each minute, counted from its first octet, must bring enough of them. */
export class BodyPace {
  readonly #octetsPerMinute: number;
  /** Milliseconds of the monotonic clock; undefined: nothing has come since the last minute was judged. */
  #since: number | undefined;
  #sizeBefore = 0;
  #size = 0;

  /** @param octetsPerSecond the least, on the average of a minute; 0: any pace will do */
  constructor(octetsPerSecond: number) {
    this.#octetsPerMinute = octetsPerSecond * 60;
  }

  /** Notes that octets have come: the body has `size` of them now. */
  came(size: number, now: number): void {
    if (this.#since === undefined) {
      this.#since = now;
      this.#sizeBefore = this.#size;
    }
    this.#size = size;
  }

  /** Judges a minute that is over. Silence behind one that brought enough is for the idle limit to judge. */
  isTooSlow(now: number): boolean {
    if (this.#since === undefined || now - this.#since < minuteMs) return false;
    this.#since = undefined;
    return this.#size - this.#sizeBefore < this.#octetsPerMinute;
  }

  /** Nothing is read for a while, which is not the client's fault: the minute that has begun is not judged. */
  forget(): void {
    this.#since = undefined;
  }
}
