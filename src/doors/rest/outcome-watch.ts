// Requests that wait to hear what becomes of their message (D44). Delivery tells every outcome; each request hears those of its
// own message.

/** What became of an attempt for a recipient. */
export type OutcomeKind = 'delivered' | 'deferred' | 'failed';

/** The outcomes that one request hears. */
export interface Watch {
  /**
   * Waits until every recipient has had an attempt, or the time is over.
   * @returns what is known by then
   */
  until(recipients: readonly string[], milliseconds: number): Promise<ReadonlyMap<string, OutcomeKind>>;
  /** Ends the watch. It must be called whatever happened. */
  end(): void;
}

/** The watches of all requests that wait. */
export interface OutcomeWatch {
  /** Must be called with every outcome; `sessionId` is the id of the session in which the message came in. */
  tell(sessionId: string, recipient: string, kind: OutcomeKind): void;
  /** Begins a watch. It is called before the message is submitted, so that no outcome is missed. */
  watch(sessionId: string): Watch;
  /** Ends all waits at once, when the process stops. */
  release(): void;
}

interface Waiting {
  readonly outcomes: Map<string, OutcomeKind>;
  wake: () => void;
}

/** Makes the watch. While no request waits, telling it an outcome costs no more than one look-up in an empty map. */
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
