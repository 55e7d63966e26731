// Counts messages, octets and recipients of the spool by state. A message counts as queued while one of its recipients is queued, and
// as failed once none is and it is still kept. Each recipient counts by its own state, so that a message that failed for some shows.

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

/** The numbers of a tally, by the names of their columns in both engines. */
const numbers = {
  queued_messages: ({ messages }) => messages.queued,
  failed_messages: ({ messages }) => messages.failed,
  queued_octets: ({ octets }) => octets.queued,
  failed_octets: ({ octets }) => octets.failed,
  queued_recipients: ({ recipients }) => recipients.queued,
  delivered_recipients: ({ recipients }) => recipients.delivered,
  failed_recipients: ({ recipients }) => recipients.failed,
} as const satisfies Readonly<Record<string, (tally: Tally) => number>>;

type TallyColumn = keyof typeof numbers;

/** The columns of a tally, in the order of `numbersOf`. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the table has these keys and no others
export const tallyColumns = Object.keys(numbers) as readonly TallyColumn[];

/** The numbers of a tally, in the order of its columns. */
export function numbersOf(tally: Tally): readonly number[] {
  return Object.values(numbers).map((pick) => pick(tally));
}

/** Makes a tally. @param of gives the number of a column */
export function tallyWith(of: (column: TallyColumn) => number): Tally {
  return {
    messages: { queued: of('queued_messages'), failed: of('failed_messages') },
    octets: { queued: of('queued_octets'), failed: of('failed_octets') },
    recipients: {
      queued: of('queued_recipients'),
      delivered: of('delivered_recipients'),
      failed: of('failed_recipients'),
    },
  };
}

/** The numbers of an account without messages. */
export const emptyTally: Tally = tallyWith(() => 0);

/** Counts the recipients in each state. */
export function countStates(states: Iterable<RecipientState>): Tally['recipients'] {
  const counts = { queued: 0, delivered: 0, failed: 0 };
  for (const state of states) counts[state] += 1;
  return counts;
}

/** What one message adds to its account's numbers. @param recipients how many of its recipients are in each state */
export function tallyOf(size: number, recipients: Tally['recipients']): Tally {
  const queued = recipients.queued > 0 ? 1 : 0;
  const failed = 1 - queued;
  return {
    messages: { queued, failed },
    octets: { queued: queued * size, failed: failed * size },
    recipients,
  };
}

/** What a new message adds to its account's numbers. @param recipients how many it has */
export function tallyOfNew(size: number, recipients: number): Tally {
  return tallyOf(size, { queued: recipients, delivered: 0, failed: 0 });
}

/** Adds the second tally `times` times to the first; -1 subtracts it. */
export function addTally(sum: Tally, added: Tally, times: 1 | -1 = 1): Tally {
  return tallyWith((column) => numbers[column](sum) + times * numbers[column](added));
}

/** What accounts have more, by their names; less where it is negative. */
export class TallyChanges extends Map<string, Tally> {
  /** Notes what an account has more. */
  add(account: string, more: Tally): void {
    this.set(account, addTally(this.get(account) ?? emptyTally, more));
  }
}

/** The numbers of all accounts together. */
export function totalOf(tallies: readonly Tally[]): Tally {
  return tallies.reduce((sum, tally) => addTally(sum, tally), emptyTally);
}
