// The recipients that this process has in flight. It never delivers to one of them a second time at once, although its claim
// in the spool ends by a clock that may be wrong. A recipient is in flight until its outcome is written.
//
// Recipients that go back to the spool without an outcome are let go of at once. Where the spool does not take them, it is asked
// again until it does: a recipient that stayed claimed would wait for an hour while nobody works on it.

import type { Logger } from '../base/log.ts';
import { Part } from '../base/part.ts';
import type { ClaimedMessage } from '../spool/broken-claim.ts';
import type { Spool } from '../spool/spool.ts';

/** How long to wait before the spool is asked again, in milliseconds. */
const retryDelay = 1000;

/** Recipients in flight: as many as the transports' shares allow, and those whose outcome is not yet written to the spool. */
export class RecipientsInFlight {
  /** For each recipient in flight: whether it was claimed once more meanwhile. */
  readonly #inFlight = new Map<string, boolean>();

  add(id: string, address: string): void {
    this.#inFlight.set(`${id} ${address}`, false);
  }

  has(id: string, address: string): boolean {
    return this.#inFlight.has(`${id} ${address}`);
  }

  /** Tells whether a recipient that was just claimed is in flight already; if so, the new claim is noted for release. */
  isClaimedAgain(id: string, address: string): boolean {
    const key = `${id} ${address}`;
    if (!this.#inFlight.has(key)) return false;
    this.#inFlight.set(key, true);
    return true;
  }

  /** Takes a recipient off; true where it was claimed once more meanwhile, and that claim has still to be released. */
  remove(id: string, address: string): boolean {
    const key = `${id} ${address}`;
    const isClaimed = this.#inFlight.get(key) ?? false;
    this.#inFlight.delete(key);
    return isClaimed;
  }
}

interface GivenBackParts {
  readonly spool: Pick<Spool, 'release'>;
  readonly log: Logger;
  readonly inFlight: RecipientsInFlight;
}

/** What goes back to the spool. */
export class GivenBack extends Part<GivenBackParts> {
  readonly #underWay = new Set<Promise<void>>();
  /** By queue id: what may still be claimed. It is in flight, so that a claim on it meanwhile begins nothing. */
  readonly #owed = new Map<string, Set<string>>();
  #retryTimer: NodeJS.Timeout | undefined;
  #isRetrying = false;

  /** Lets recipients go that this process has claimed. */
  release(id: string, addresses: readonly string[]): void {
    // Claims that are asked for from now on come after this release.
    for (const address of addresses) this.parts.inFlight.remove(id, address);
    const releasing = this.parts.spool.release(id, addresses).catch((error: unknown) => {
      this.parts.log.error({ id, err: error }, 'Cannot give a message back to the spool');
      // What is in flight was claimed once more meanwhile: the spool has taken it back, and only did not come to say so.
      for (const address of addresses) if (!this.parts.inFlight.has(id, address)) this.#owe(id, address);
    });
    this.#underWay.add(releasing);
    void releasing.then(() => this.#underWay.delete(releasing));
  }

  /** Lets recipients go that this process may have claimed; those in flight once they are no longer. */
  releaseBroken({ id, addresses }: ClaimedMessage): void {
    for (const address of addresses) if (!this.parts.inFlight.isClaimedAgain(id, address)) this.#owe(id, address);
  }

  /** Resolves when the spool has taken back everything, or has been asked once more. */
  async settle(): Promise<void> {
    await Promise.all(this.#underWay);
    await this.#retry();
    await Promise.all(this.#underWay);
  }

  #owe(id: string, address: string): void {
    this.parts.inFlight.add(id, address);
    const addresses = this.#owed.get(id) ?? new Set();
    this.#owed.set(id, addresses.add(address));
    this.#retryLater();
  }

  /** A process that has nothing else to do ends without it: at its end it gives back everything. */
  #retryLater(): void {
    this.#retryTimer ??= setTimeout(() => void this.#retry(), retryDelay).unref();
  }

  /** Asks for one message, and where that goes well for the others together. */
  async #retry(): Promise<void> {
    if (this.#isRetrying) return;
    this.#isRetrying = true;
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
    try {
      const [first, ...others] = [...this.#owed];
      if (first) await this.#pay(...first);
      await Promise.all(others.map((one) => this.#pay(...one)));
    } catch {
      // The log tells of it already.
    }
    this.#isRetrying = false;
    if (this.#owed.size > 0) this.#retryLater();
  }

  async #pay(id: string, owed: ReadonlySet<string>): Promise<void> {
    const addresses = [...owed];
    await this.parts.spool.release(id, addresses);
    const left = this.#owed.get(id);
    for (const address of addresses) left?.delete(address);
    if (left?.size === 0) this.#owed.delete(id);
    const claimedAgain = addresses.filter((address) => this.parts.inFlight.remove(id, address));
    if (claimedAgain.length > 0) this.release(id, claimedAgain);
  }
}
