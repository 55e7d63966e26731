// Who waits to hear what becomes of a message (D44): delivery tells every outcome, a request hears those of its own.

/** What became of an attempt for a recipient. */
export type OutcomeKind = 'delivered' | 'deferred' | 'failed';

/** One request's ear. */
export interface Watch {
  /**
   * Waits until every recipient has had an attempt, or the time is over.
   * @returns what is known by then
   */
  until(recipients: readonly string[], milliseconds: number): Promise<ReadonlyMap<string, OutcomeKind>>;
  /** Ends it; to be called whatever happened. */
  end(): void;
}

/** All that wait. */
export interface OutcomeWatch {
  /** To be told of every outcome, by the id of the session its message came in with. */
  tell(sessionId: string, recipient: string, kind: OutcomeKind): void;
  /** Begins to listen, before the message is submitted. */
  watch(sessionId: string): Watch;
  /** Ends all waits at once (draining). */
  release(): void;
}

interface Waiting {
  readonly outcomes: Map<string, OutcomeKind>;
  wake: () => void;
}

/** Makes it; without anyone waiting an outcome costs one look into an empty map. */
export function createOutcomeWatch(): OutcomeWatch {
  const waiting = new Map<string, Waiting>();
  let released = false;
  return {
    tell(sessionId, recipient, kind) {
      const own = waiting.get(sessionId);
      if (!own) return;
      own.outcomes.set(recipient, kind);
      own.wake();
    },
    watch(sessionId) {
      const own: Waiting = { outcomes: new Map(), wake: () => undefined };
      waiting.set(sessionId, own);
      return {
        until: (recipients, milliseconds) =>
          new Promise((resolve) => {
            const finish = (): void => {
              clearTimeout(timer);
              own.wake = () => undefined;
              resolve(new Map(own.outcomes));
            };
            const timer = setTimeout(finish, milliseconds);
            own.wake = () => {
              if (released || recipients.every((recipient) => own.outcomes.has(recipient))) finish();
            };
            own.wake();
          }),
        end: () => waiting.delete(sessionId),
      };
    },
    release() {
      released = true;
      for (const own of waiting.values()) own.wake();
    },
  };
}
