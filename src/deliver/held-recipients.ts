// The recipients that this process has in hand. It never delivers to one of them a second time at once, although its claim
// in the spool ends by a clock that may be wrong. A recipient is held until its outcome is written.

/** Recipients in hand: as many as the transports' shares allow, and those whose outcome is not yet written to the spool. */
export class HeldRecipients {
  /** For each held recipient: whether it was claimed once more meanwhile. */
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

  /** Tells whether a recipient that was just claimed is in hand already; if so, the new claim is noted for release. */
  isHeldAlready(id: string, address: string): boolean {
    const key = `${id} ${address}`;
    if (!this.#held.has(key)) return false;
    this.#held.set(key, true);
    return true;
  }

  /** Stops holding a recipient; true where it was claimed once more meanwhile, and that claim has still to be released. */
  letGo(id: string, address: string): boolean {
    const key = `${id} ${address}`;
    const isClaimed = this.#held.get(key) ?? false;
    this.#held.delete(key);
    return isClaimed;
  }
}
