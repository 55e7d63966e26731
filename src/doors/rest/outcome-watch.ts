// Requests that wait for what becomes of their message (D44): delivery tells all outcomes, and each hears its own.

/** What became of an attempt for a recipient. */
export type OutcomeKind = 'delivered' | 'deferred' | 'failed';

/** The watches of all requests that wait. */
export type OutcomeWatch = ReturnType<typeof createOutcomeWatch>;

interface Waiting {
  readonly outcomes: Map<string, OutcomeKind>;
  wake: () => void;
}

/** Makes the watch. While no request waits, telling it an outcome costs no more than one look-up in an empty map. */
export function createOutcomeWatch() {
  const waiting = new Map<string, Waiting>();
  let released = false;
  return {
    /** Must be called with every outcome; `sessionId` is the id of the session in which the message came in. */
    tell(sessionId: string, recipient: string, kind: OutcomeKind): void {
      const own = waiting.get(sessionId);
      if (!own) return;
      own.outcomes.set(recipient, kind);
      own.wake();
    },
    /** Begins a watch. It is called before the message is submitted, so that no outcome is missed. */
    watch(sessionId: string) {
      const own: Waiting = { outcomes: new Map(), wake: () => undefined };
      waiting.set(sessionId, own);
      return {
        /** Waits until every recipient has had an attempt, or the time is over. @returns what is known by then */
        until: (recipients: readonly string[], milliseconds: number) =>
          new Promise<ReadonlyMap<string, OutcomeKind>>((resolve) => {
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
        /** It must be called whatever happened. */
        end: () => waiting.delete(sessionId),
      };
    },
    /** Ends all waits at once, when the process stops. */
    release(): void {
      released = true;
      for (const own of waiting.values()) own.wake();
    },
  };
}
