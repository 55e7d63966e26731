// Asks the supervisor whether the server is ready. However many ask, one question is under way and one waits behind it: whoever
// comes meanwhile gets the answer to the one that waits, since the other may have been judged before.

/** How long the supervisor has for an answer, in milliseconds. */
const answerMs = 2500;

/** The questions of one process. */
export class AskedReadiness {
  readonly #ask: () => Promise<boolean>;
  #underWay: Promise<boolean> | undefined;
  #next: Promise<boolean> | undefined;

  /** @param ask asks the supervisor @throws Error where it is gone */
  constructor(ask: () => Promise<boolean>) {
    this.#ask = ask;
  }

  /** Whether it is; false where nobody answers. What was true when this was called is in the answer. */
  ask(): Promise<boolean> {
    if (!this.#underWay) return this.#begin();
    this.#next ??= this.#underWay.then(() => this.#begin());
    return this.#next;
  }

  #begin(): Promise<boolean> {
    this.#next = undefined;
    this.#underWay = this.#answer().finally(() => {
      if (!this.#next) this.#underWay = undefined;
    });
    return this.#underWay;
  }

  async #answer(): Promise<boolean> {
    let patience: NodeJS.Timeout | undefined;
    const silence = new Promise<boolean>((resolve) => (patience = setTimeout(() => resolve(false), answerMs)));
    try {
      return await Promise.race([this.#ask(), silence]);
    } catch {
      // The supervisor is gone, and this process drains.
      return false;
    } finally {
      clearTimeout(patience);
    }
  }
}
