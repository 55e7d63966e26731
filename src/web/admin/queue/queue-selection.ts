// Which messages of the queue are meant. It is examined a slice at a time, so that a request costs the same however long it is.

import { splitMailbox } from '../../../mail/address/domain.ts';
import type { QueueItem, Spool, SpooledRecipient } from '../../../spool/spool.ts';
import { shownRecipientsAtOnce } from '../../../spool/stored-rows.ts';

/** What is selected. What is named must all hold. */
export interface Selection {
  /** Name of the account; absent: all. */
  readonly account?: string | undefined;
  /** A recipient domain, A-label in lower case. */
  readonly destination?: string | undefined;
  readonly route?: string | undefined;
  /** Recipients in one of these states; absent: in any. */
  readonly states?: readonly WaitingState[] | undefined;
  /** Part of an id, a sender or a recipient. */
  readonly search?: string | undefined;
}

/** How a recipient waits: never tried, to be tried again, held, or failed. */
export type WaitingState = 'queued' | 'deferred' | 'held' | 'failed';

/** Names the route of an account's mail to a recipient. */
export type RouteOf = (account: string, recipient: string) => string;

/** A message with its recipients that are selected. */
export interface Selected {
  readonly item: QueueItem;
  readonly recipients: readonly SpooledRecipient[];
}

interface SelectedPage {
  readonly selected: readonly Selected[];
  /** Where to go on; absent at the end. */
  readonly next?: string | undefined;
}

/** How a recipient waits; undefined once it has received the message. */
export function waitingState({ state, hold, attempts }: SpooledRecipient): WaitingState | undefined {
  if (state === 'delivered') return undefined;
  if (state === 'failed') return 'failed';
  if (hold) return 'held';
  return attempts > 0 ? 'deferred' : 'queued';
}

/** The recipient's domain, in lower case. */
export function destinationOf(address: string): string {
  return splitMailbox(address).domain?.toLowerCase() ?? '';
}

function selectedRecipients(
  { entry, recipients }: QueueItem,
  { destination, route, states }: Selection,
  routeOf: RouteOf,
): readonly SpooledRecipient[] {
  return recipients.filter((recipient) => {
    const { address } = recipient;
    const now = waitingState(recipient);
    if (now === undefined || states?.includes(now) === false) return false;
    if (destination !== undefined && destinationOf(address) !== destination) return false;
    return route === undefined || routeOf(entry.account, address) === route;
  });
}

const askedAtOnce = 200;
/** Slices of the spool that one call examines at most; each examines at most 2,000 messages. */
const mostSlices = 10;

/** Finds one message by its id, if it is selected. Whose it is decides, however its id became known. */
export async function findNamed(
  { spool, routeOf }: { readonly spool: Pick<Spool, 'show'>; readonly routeOf: RouteOf },
  id: string,
  selection: Selection,
): Promise<SelectedPage> {
  const item = await spool.show(id.toLowerCase());
  if (!item || (selection.account !== undefined && item.entry.account !== selection.account)) return { selected: [] };
  const recipients = selectedRecipients(item, selection, routeOf);
  return { selected: recipients.length === 0 ? [] : [{ item, recipients }] };
}

/** Finds selected messages, the oldest first. @param page at most `limit` behind `after`; fewer of thousands of recipients */
export async function findSelected(
  { spool, routeOf }: { readonly spool: Pick<Spool, 'list'>; readonly routeOf: RouteOf },
  selection: Selection,
  page: { readonly limit: number; readonly after?: string | undefined },
): Promise<SelectedPage> {
  const { account, states, search } = selection;
  // As far as the spool tells states apart; a message may have recipients in both.
  const [stored, ...others] = new Set(states?.map((each) => (each === 'failed' ? 'failed' : 'queued')));
  const state = others.length === 0 ? stored : undefined;
  const selected: Selected[] = [];
  let count = 0;
  let { after } = page;
  for (let slice = 0; slice < mostSlices; slice += 1) {
    const { items, next } = await spool.list({ limit: askedAtOnce, account, search, state, after });
    for (const item of items) {
      // The spool takes an empty name for all accounts.
      if (account !== undefined && item.entry.account !== account) continue;
      const recipients = selectedRecipients(item, selection, routeOf);
      if (recipients.length === 0) continue;
      selected.push({ item, recipients });
      count += recipients.length;
      if (selected.length === page.limit || count > shownRecipientsAtOnce) return { selected, next: item.entry.id };
    }
    if (next === undefined) return { selected };
    after = next;
  }
  return { selected, next: after };
}
