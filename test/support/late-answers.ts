// Stores that answer later than they are asked: the questions of the SMTP door as promises, each with a delay of its own.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Account, Submitter } from '../../src/accounts/account.ts';
import type { Violation } from '../../src/pipeline/submit.ts';
import { type DoorChoices, accounts as knownAccounts } from './smtp-peers.ts';

/** Whether a recipient is suppressed, as the door asks it. */
export type Suppressed = (account: Account, recipient: string) => Promise<boolean>;

/** Answers that wait until the test gives them, in any order. */
export interface Gate<Value> {
  /** What was asked, in the order in which it was. */
  readonly asked: readonly string[];
  /** Asks; the promise is settled by `give` or `fail`. */
  ask(what: string): Promise<Value>;
  /** Gives the answer to the question that has waited longest for it. */
  give(value: Value): void;
  /** Lets that question fail. */
  fail(error: Error): void;
}

/** Makes a gate. */
export function gate<Value>(): Gate<Value> {
  const asked: string[] = [];
  const waiting: { readonly resolve: (value: Value) => void; readonly reject: (error: Error) => void }[] = [];
  const next = () => {
    const first = waiting.shift();
    if (!first) throw new Error('Nothing waits for an answer');
    return first;
  };
  return {
    asked,
    ask(what) {
      asked.push(what);
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    give: (value) => next().resolve(value),
    fail: (error) => next().reject(error),
  };
}

/** Gives a value after a delay: 0 at once in a settled promise, else so many milliseconds. */
export async function after<Value>(milliseconds: number, value: Value): Promise<Value> {
  if (milliseconds > 0) await sleep(milliseconds);
  return value;
}

/**
 * Makes the questions of a door late: the same answers, each after a delay.
 * @param delayMs asked for each question
 */
export function answeringLate(choices: DoorChoices, delayMs: () => number): DoorChoices {
  const { suppressed = () => false, rateLimit = () => undefined, accounts = knownAccounts } = choices;
  return {
    ...choices,
    accounts: {
      ...accounts,
      authenticateHash: async (sha256): Promise<Submitter | undefined> =>
        await after(delayMs(), await accounts.authenticateHash(sha256)),
    },
    suppressed: async (account, recipient): Promise<boolean> =>
      await after(delayMs(), await suppressed(account, recipient)),
    rateLimit: async (account, recipients): Promise<Violation | undefined> =>
      await after(delayMs(), await rateLimit(account, recipients)),
  };
}
