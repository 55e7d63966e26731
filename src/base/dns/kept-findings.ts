/** Names that are kept, and octets of their records. */
const mostNames = 10_000;
const mostOctets = 8_388_608;

/** What is known of a name, or is being asked. */
export interface KeptFinding<F> {
  readonly finding: Promise<F>;
  /** Milliseconds of the monotonic clock; endless while it is under way. */
  until: number;
  /** How often in a row it could not be found out. */
  failures: number;
}

interface Weighed<F> {
  readonly kept: KeptFinding<F>;
  octets: number;
}

/**
 * What is known of the records of one type, by name, within bounds: of names, and of the octets of their records, since whoever has a
 * domain decides how long its records are. For a new name the one that was asked for longest ago is forgotten.
 */
export class KeptFindings<F> {
  readonly #names = new Map<string, Weighed<F>>();
  #octets = 0;

  /** How many names are known. */
  get size(): number {
    return this.#names.size;
  }

  /** The octets of all records, about. */
  get octets(): number {
    return this.#octets;
  }

  /** @param name in its normal form */
  get(name: string): KeptFinding<F> | undefined {
    return this.#names.get(name)?.kept;
  }

  /** Keeps a finding that is under way, in place of an older one. */
  begin(name: string, kept: KeptFinding<F>): void {
    this.#forget(name);
    this.#names.set(name, { kept, octets: 0 });
    if (this.#names.size > mostNames) this.#forgetOldest();
  }

  /** Notes how many octets the records take that were found, unless the name was forgotten or asked for anew meanwhile. */
  end(name: string, kept: KeptFinding<F>, octets: number): void {
    const weighed = this.#names.get(name);
    if (weighed?.kept !== kept) return;
    weighed.octets = octets;
    this.#octets += octets;
    while (this.#octets > mostOctets) this.#forgetOldest();
  }

  #forget(name: string): void {
    this.#octets -= this.#names.get(name)?.octets ?? 0;
    this.#names.delete(name);
  }

  #forgetOldest(): void {
    const [oldest] = this.#names.keys();
    if (oldest !== undefined) this.#forget(oldest);
  }
}
