// Counts the contents of the spool: messages, octets and recipients by state. A message counts as queued while one of its
// recipients is queued, and as failed once none is and the message is still kept. Each recipient counts by its own state,
// so that a message that failed for some recipients shows.

/** A recipient's state in the spool. `failed` and `delivered` are final. */
export type RecipientState = 'queued' | 'delivered' | 'failed';

/** The numbers of one account, or of all accounts. */
export interface Tally {
  readonly messages: { readonly queued: number; readonly failed: number };
  /** Octets of head and body of these messages. */
  readonly octets: { readonly queued: number; readonly failed: number };
  readonly recipients: Readonly<Record<RecipientState, number>>;
}

/** The numbers of one account. */
export interface AccountTally extends Tally {
  /** Its name. */
  readonly account: string;
}

/** The numbers of an account without messages. */
export const emptyTally: Tally = {
  messages: { queued: 0, failed: 0 },
  octets: { queued: 0, failed: 0 },
  recipients: { queued: 0, delivered: 0, failed: 0 },
};

/** How many of a message's recipients are in each state. */
export type StateCounts = Readonly<Record<RecipientState, number>>;

/** Counts the recipients in each state. */
export function countStates(states: Iterable<RecipientState>): StateCounts {
  const counts = { queued: 0, delivered: 0, failed: 0 };
  for (const state of states) counts[state] += 1;
  return counts;
}

/**
 * What one message adds to its account's numbers.
 * @param recipients undefined: the message does not exist
 */
export function tallyOf(size: number, recipients: StateCounts | undefined): Tally {
  if (!recipients) return emptyTally;
  const queued = recipients.queued > 0 ? 1 : 0;
  const failed = 1 - queued;
  return {
    messages: { queued, failed },
    octets: { queued: queued * size, failed: failed * size },
    recipients,
  };
}

/** Adds the second tally `times` times to the first; -1 subtracts it. */
export function addTally(sum: Tally, added: Tally, times: 1 | -1 = 1): Tally {
  return {
    messages: {
      queued: sum.messages.queued + times * added.messages.queued,
      failed: sum.messages.failed + times * added.messages.failed,
    },
    octets: {
      queued: sum.octets.queued + times * added.octets.queued,
      failed: sum.octets.failed + times * added.octets.failed,
    },
    recipients: {
      queued: sum.recipients.queued + times * added.recipients.queued,
      delivered: sum.recipients.delivered + times * added.recipients.delivered,
      failed: sum.recipients.failed + times * added.recipients.failed,
    },
  };
}

/** The numbers of all accounts together. */
export function totalOf(tallies: readonly Tally[]): Tally {
  return tallies.reduce((sum, tally) => addTally(sum, tally), emptyTally);
}
