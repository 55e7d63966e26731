// Acts on messages of the queue: tries them again, keeps them waiting, lets them go on, removes them. Messages are named by their ids or
// selected; a selection is worked through in small steps for some seconds, and the answer tells where to go on.

import type { MonotonicClock } from '../../base/clock.ts';
import { giveTurn } from '../../base/give-turn.ts';
import { type Hold, type HoldRule, mostHolds } from '../../spool/hold.ts';
import type { QueueItem, RetryPick, Spool } from '../../spool/spool.ts';
import { findSelected, type RouteOf, type Selected, type Selection, waitingState } from './queue-selection.ts';

/** What can be done. */
export const queueActions = ['retry', 'hold', 'release', 'drop'] as const;

/** What is done to messages. */
export type QueueAction = (typeof queueActions)[number];

/** The spool as far as actions use it. */
export type ActedSpool = Pick<Spool, 'list' | 'show' | 'retryMany' | 'drop' | 'addHold' | 'liftHold' | 'holds'>;

/** Who acts. */
export interface Actor {
  /** Name of the account whose mail it may be; undefined: any. */
  readonly account: string | undefined;
  /** Stands in the holds that are made: `console ACCOUNT/CREDENTIAL`, or `admin ...`. */
  readonly by: string;
  /** May lift whatever hold there is. Others lift only those that the console made for their account. */
  readonly isOperator: boolean;
}

/** What acting needs. */
export interface ActionParts {
  readonly spool: ActedSpool;
  readonly routeOf: RouteOf;
  /** Times of a retry: now, and when a message accepted now would expire. */
  readonly newTimes: () => { readonly now: number; readonly expiresAt: number };
  readonly clock: MonotonicClock;
}

/** What was done. */
export interface Done {
  /** How many messages. */
  readonly done: number;
  /** Messages that are not there any more, are another account's, or to which the action does not apply. */
  readonly skipped: number;
  /** Where a selection goes on; absent where all of it was done. */
  readonly next?: string;
}

/** How long one request works on a selection before it answers, in milliseconds. */
const budgetMs = 3000;
/** Messages of a selection that are acted on in one step. */
const stepMessages = 100;
/** Messages that an account may keep waiting by the console at a time: all accounts share the holds that a spool keeps. */
const heldPerAccount = 50;

/** Whether an actor may lift a hold. */
export function mayLift({ by }: Pick<Hold, 'by'>, { account, isOperator }: Actor): boolean {
  return isOperator || by.startsWith(`console ${account}/`);
}

/** Says who acts. @param account of the path; undefined: all accounts */
export function actorOf(
  account: string | undefined,
  credential: { readonly name: string; readonly isOperator: boolean },
): Actor {
  const { name, isOperator } = credential;
  return { account, isOperator, by: `${isOperator ? 'admin' : 'console'} ${account ?? '*'}/${name}` };
}

type Act = (selected: readonly Selected[]) => Promise<number>;

/** Does something to one message after another. */
function each(act: (chosen: Selected) => Promise<boolean>): Act {
  return async (selected) => {
    let done = 0;
    for (const chosen of selected) if (await act(chosen)) done += 1;
    return done;
  };
}

/** Makes the function that does an action to some messages. @returns it; it resolves to how many it was done to */
async function actOf(action: QueueAction, parts: ActionParts, actor: Actor): Promise<Act> {
  const { spool } = parts;
  if (action === 'retry') {
    return async (selected) => {
      const picks = selected.map(
        ({ item, recipients }): RetryPick => ({
          id: item.entry.id,
          recipients: recipients.map(({ address }) => address),
        }),
      );
      return (await spool.retryMany(picks, parts.newTimes())).messages;
    };
  }
  if (action === 'drop') return each(({ item }) => spool.drop(item.entry.id));
  const all = await spool.holds();
  const holds = all.filter(({ kind }) => kind === 'message');
  if (action === 'release') {
    const own = new Set(holds.filter((hold) => mayLift(hold, actor)).map(({ value }) => value));
    return each(async ({ item: { entry } }) =>
      own.has(entry.id) ? await spool.liftHold({ kind: 'message', value: entry.id }) : false,
    );
  }
  const made = new Map(holds.map((hold) => [hold.value, hold]));
  let room = actor.isOperator
    ? mostHolds - all.length
    : heldPerAccount - holds.filter((hold) => mayLift(hold, actor)).length;
  return each(async ({ item: { entry } }) => {
    const before = made.get(entry.id);
    // Another's hold stays another's.
    if (before && !mayLift(before, actor)) return false;
    if (!before && room <= 0) return false;
    await spool.addHold(ruleOf({ kind: 'message', value: entry.id }, actor, parts));
    if (!before) room -= 1;
    return true;
  });
}

function ruleOf(what: Pick<HoldRule, 'kind' | 'value'>, { by }: Actor, { newTimes }: ActionParts): HoldRule {
  return { ...what, at: newTimes().now, by: by.slice(0, 200), why: '' };
}

/** The recipients of a message that still wait or have failed. */
function open(item: QueueItem): Selected {
  return { item, recipients: item.recipients.filter((recipient) => waitingState(recipient) !== undefined) };
}

/** Does an action to messages that are named. */
export async function actOnNamed(
  action: QueueAction,
  ids: readonly string[],
  { parts, actor }: { readonly parts: ActionParts; readonly actor: Actor },
): Promise<Done> {
  const act = await actOf(action, parts, actor);
  let done = 0;
  for (const id of new Set(ids.map((id) => id.toLowerCase()))) {
    const item = await parts.spool.show(id);
    // Whose it is decides, however its id became known.
    if (!item || (actor.account !== undefined && item.entry.account !== actor.account)) continue;
    done += await act([open(item)]);
    await giveTurn();
  }
  return { done, skipped: ids.length - done };
}

/** Whether a message goes as a whole: to remove it for one destination would remove it for the others. */
function isWhole({ item, recipients }: Selected): boolean {
  return open(item).recipients.length === recipients.length;
}

/**
 * The one rule that holds all of a selection, and what comes later: an account's mail, or a destination's or a route's of all
 * accounts. Undefined where no rule does, so that messages are held one by one.
 */
function ruleFor({
  destination,
  route,
  state,
  search,
  account,
}: Selection): Pick<HoldRule, 'kind' | 'value'> | undefined {
  if (state !== undefined || search !== undefined) return undefined;
  if (account !== undefined) {
    return destination === undefined && route === undefined ? { kind: 'account', value: account } : undefined;
  }
  if (destination !== undefined && route === undefined) return { kind: 'destination', value: destination };
  return route !== undefined && destination === undefined ? { kind: 'route', value: route } : undefined;
}

/** Makes or lifts the rule for a selection. @returns undefined where there is none to lift */
async function actByRule(
  action: 'hold' | 'release',
  rule: Pick<HoldRule, 'kind' | 'value'>,
  { parts, actor }: { readonly parts: ActionParts; readonly actor: Actor },
): Promise<Done | undefined> {
  const { spool } = parts;
  const all = await spool.holds();
  const before = all.find(({ kind, value }) => kind === rule.kind && value === rule.value);
  const nothing = { done: 0, skipped: 1 };
  if (before && !mayLift(before, actor)) return nothing;
  if (action === 'release') {
    if (!before) return undefined;
    return (await spool.liftHold(rule)) ? { done: 1, skipped: 0 } : nothing;
  }
  if (!before && all.length >= mostHolds) return nothing;
  await spool.addHold(ruleOf(rule, actor, parts));
  return { done: 1, skipped: 0 };
}

/**
 * Does an action to all messages of a selection, for some seconds. A hold on all that an account, a destination or a route has is one
 * rule, which counts as one.
 * @param after where an earlier request ended
 */
export async function actOnSelection(
  action: QueueAction,
  selection: Selection,
  at: { readonly parts: ActionParts; readonly actor: Actor; readonly after?: string | undefined },
): Promise<Done> {
  const { parts, actor } = at;
  const wanted = { ...selection, account: actor.account ?? selection.account };
  const rule = ruleFor(wanted);
  const ruled = rule && (action === 'hold' || action === 'release') ? await actByRule(action, rule, at) : undefined;
  if (ruled) return ruled;
  const act = await actOf(action, parts, actor);
  const until = parts.clock.monotonic() + budgetMs;
  let [done, skipped, after] = [0, 0, at.after];
  do {
    const begunAt = parts.clock.monotonic();
    const page = await findSelected(parts, wanted, { limit: stepMessages, after });
    const chosen = action === 'drop' ? page.selected.filter(isWhole) : page.selected;
    const acted = await act(chosen);
    done += acted;
    skipped += page.selected.length - acted;
    after = page.next;
    if (after === undefined) return { done, skipped };
    // As long without the database as with it, so that mail goes on being accepted.
    const restMs = Math.min(1000, parts.clock.monotonic() - begunAt);
    await new Promise((resolve) => setTimeout(resolve, restMs));
  } while (parts.clock.monotonic() < until);
  return { done, skipped, next: after };
}
