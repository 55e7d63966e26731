// The recipients that this process has in hand, so that it never delivers twice at once what it holds: a claim in the
// spool runs out by its time, and time may be wrong. A recipient is held until what became of it is written.

/** Recipients in hand: as many as the transports' shares allow, and those whose outcome is on its way to the spool. */
export class HeldRecipients {
  /** Whether each was claimed once more while it was held. */
  readonly #held = new Map<string, boolean>();

  get size(): number {
    return this.#held.size;
  }

  hold(id: string, address: string): void {
    this.#held.set(`${id} ${address}`, false);
  }

  has(id: string, address: string): boolean {
    return this.#held.has(`${id} ${address}`);
  }

  /** Tells whether a recipient that was just claimed is in hand already; the claim is then nobody's. */
  isHeldAlready(id: string, address: string): boolean {
    const key = `${id} ${address}`;
    if (!this.#held.has(key)) return false;
    this.#held.set(key, true);
    return true;
  }

  /** Holds it no longer; true where it was claimed once more meanwhile, and that claim is still to be released. */
  letGo(id: string, address: string): boolean {
    const key = `${id} ${address}`;
    const isClaimed = this.#held.get(key) ?? false;
    this.#held.delete(key);
    return isClaimed;
  }
}
