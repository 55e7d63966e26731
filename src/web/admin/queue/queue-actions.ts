// Acts on messages of the queue, named by ids or selected; a selection in small steps for some seconds, with where to go on.

import type { MonotonicClock } from '../../../base/clock.ts';
import { yieldToEventLoop } from '../../../base/yield-to-event-loop.ts';
import { type Hold, type HoldRule, Holds, lineOf, mostHolds } from '../../../spool/hold.ts';
import type { QueueItem, RetryPick, Spool } from '../../../spool/spool.ts';
import type { QueueLines, WaitingNow } from './queue-groups.ts';
import {
  findSelected,
  type RouteOf,
  type Selected,
  type Selection,
  type WaitingState,
  waitingState,
} from './queue-selection.ts';

/** What can be done. */
export const queueActions = ['retry', 'hold', 'release', 'drop'] as const;

type QueueAction = (typeof queueActions)[number];

/** The recipients that an action takes where no state is named: what has failed is taken only where it is asked for by name. */
const taken: Readonly<Record<QueueAction, readonly WaitingState[]>> = {
  retry: ['queued', 'deferred'],
  hold: ['queued', 'deferred'],
  release: ['held'],
  drop: ['queued', 'deferred', 'held'],
};

/** The recipients that an action reaches because it is done to the whole message. By a filter, all of them must be selected. */
const reached: Readonly<Record<QueueAction, readonly WaitingState[]>> = {
  ...taken,
  retry: [],
  drop: ['queued', 'deferred', 'held', 'failed'],
};

type ActedSpool = Pick<Spool, 'list' | 'show' | 'retryMany' | 'drop' | 'addHold' | 'liftHold' | 'holds'>;

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
  readonly lines: QueueLines;
  readonly routeOf: RouteOf;
  /** Times of a retry: now, and when a message accepted now would expire. */
  readonly newTimes: () => { readonly now: number; readonly expiresAt: number };
  readonly clock: MonotonicClock;
}

interface Acting {
  readonly parts: ActionParts;
  readonly actor: Actor;
}

interface Count {
  readonly done: number;
  readonly recipients: number;
}

/** What was done. A rule counts as one message. */
interface Done extends Count {
  /** Messages that are not there any more, are another account's, or to which the action does not apply. */
  readonly skipped: number;
  /** One rule was made or lifted, which is about what comes later, too. */
  readonly isRule?: boolean;
  /** Where a selection goes on; absent where all of it was done. */
  readonly next?: string;
}

const budgetMs = 3000;
/** Messages of a selection that are acted on in one step. */
const stepMessages = 100;
/** Messages and lines that an account may keep waiting by the console at a time: all accounts share the holds that a spool keeps. */
const heldPerAccount = 50;
/** Holds that all accounts together leave to the operator, who may have to keep mail waiting when they have taken the others. */
const leftToOperator = 100;

/** Whether an actor may lift a hold. */
export function mayLift({ by }: Pick<Hold, 'by'>, { account, isOperator }: Actor): boolean {
  return isOperator || by.startsWith(`console ${account}/`);
}

/** How many more holds an actor may make. @param kind of them: an account holds all that it has beside the others */
function roomFor(holds: readonly Hold[], kind: Hold['kind'], actor: Actor): number {
  if (actor.isOperator) return mostHolds - holds.length;
  const room = mostHolds - leftToOperator - holds.length;
  if (kind === 'account') return room;
  const own = holds.filter((hold) => hold.kind !== 'account' && mayLift(hold, actor));
  return Math.min(room, heldPerAccount - own.length);
}

type Act = (selected: readonly Selected[]) => Promise<Count>;

function each(act: (chosen: Selected) => Promise<boolean>): Act {
  return async (selected) => {
    const count = { done: 0, recipients: 0 };
    for (const chosen of selected) {
      if (!(await act(chosen))) continue;
      count.done += 1;
      count.recipients += chosen.recipients.length;
    }
    return count;
  };
}

function retryOf({ spool, newTimes }: ActionParts): Act {
  return async (selected) => {
    const picks = selected.flatMap(({ item, recipients }) =>
      (['queued', 'failed'] as const).flatMap((state): RetryPick[] => {
        const addresses = recipients.filter((each) => each.state === state).map(({ address }) => address);
        return addresses.length === 0 ? [] : [{ id: item.entry.id, recipients: addresses, state }];
      }),
    );
    const { messages, recipients } = await spool.retryMany(picks, newTimes());
    return { done: messages, recipients };
  };
}

async function actOf(action: QueueAction, { parts, actor }: Acting): Promise<Act> {
  const { spool } = parts;
  if (action === 'retry') return retryOf(parts);
  if (action === 'drop') return each(({ item }) => spool.drop(item.entry.id));
  const all = await spool.holds();
  const holds = all.filter(({ kind }) => kind === 'message');
  if (action === 'release') {
    const own = new Set(holds.filter((hold) => mayLift(hold, actor)).map(({ value }) => value));
    return each(async ({ item: { entry } }) =>
      own.has(entry.id) ? await spool.liftHold({ kind: 'message', value: entry.id }) : false,
    );
  }
  const held = new Set(holds.map(({ value }) => value));
  // Others make holds meanwhile.
  const hasRoom = async (): Promise<boolean> => roomFor(await spool.holds(), 'message', actor) > 0;
  return each(async ({ item: { entry } }) => {
    // Another's hold stays another's.
    if (held.has(entry.id) || !(await hasRoom())) return false;
    await spool.addHold(ruleOf({ kind: 'message', value: entry.id }, actor, parts));
    return true;
  });
}

type Rule = Pick<HoldRule, 'kind' | 'value'>;

function ruleOf(what: Rule, { by }: Actor, { newTimes }: ActionParts): HoldRule {
  return { ...what, at: newTimes().now, by: by.slice(0, 200), why: '' };
}

function among({ recipients }: QueueItem, states: readonly WaitingState[]): Selected['recipients'] {
  return recipients.filter((recipient) => {
    const state = waitingState(recipient);
    return state !== undefined && states.includes(state);
  });
}

/** Whether an action does to a message no more than was selected. */
function isWhole(action: QueueAction, { item, recipients }: Selected): boolean {
  const selected = new Set(recipients);
  return among(item, reached[action]).every((recipient) => selected.has(recipient));
}

/** Does an action to named messages; removed and released as a whole. @param at.states all recipients must then be in these */
export async function actOnNamed(
  action: QueueAction,
  ids: readonly string[],
  at: Acting & { readonly states?: readonly WaitingState[] | undefined },
): Promise<Done> {
  const { parts, actor, states } = at;
  const act = await actOf(action, at);
  const isByRecipient = states !== undefined || action === 'retry' || action === 'hold';
  const sum = { done: 0, recipients: 0 };
  for (const id of new Set(ids.map((id) => id.toLowerCase()))) {
    const item = await parts.spool.show(id);
    // Whose it is decides, however its id became known.
    if (!item || (actor.account !== undefined && item.entry.account !== actor.account)) continue;
    const chosen = { item, recipients: among(item, states ?? taken[action]) };
    if (isByRecipient && (chosen.recipients.length === 0 || !isWhole(action, chosen))) continue;
    const { done, recipients } = await act([chosen]);
    sum.done += done;
    sum.recipients += recipients;
    await yieldToEventLoop();
  }
  return { ...sum, skipped: ids.length - sum.done };
}

/** The one rule that holds all of a selection and what comes later; undefined where none does, and messages are held one by one. */
function ruleFor({ destination, route, states, search, account }: Selection): Rule | undefined {
  if (states !== undefined || search !== undefined) return undefined;
  if (account !== undefined) {
    if (route !== undefined) {
      return { kind: 'line', value: `${account} ${route}${destination === undefined ? '' : `/${destination}`}` };
    }
    return destination === undefined ? { kind: 'account', value: account } : undefined;
  }
  if (destination !== undefined && route === undefined) return { kind: 'destination', value: destination };
  return route !== undefined && destination === undefined ? { kind: 'route', value: route } : undefined;
}

function isSame(one: Rule, other: Rule): boolean {
  return one.kind === other.kind && one.value === other.value;
}

/** How many recipients a rule alone holds or would hold: those that no other hold keeps waiting. */
function heldBy(rule: Rule, { lines, holds }: WaitingNow): number {
  const alone = new Holds([{ ...rule, id: 0, at: 0, by: '', why: '' }]);
  const others = new Holds(holds.filter((hold) => !isSame(hold, rule)));
  const id = holds.find((hold) => isSame(hold, rule))?.id;
  return lines
    .filter((line) => alone.ofLine(line) !== undefined && others.ofLine(line) === undefined)
    .filter(({ hold }) => hold === undefined || hold === id)
    .reduce((sum, { recipients }) => sum + recipients, 0);
}

/** Makes or lifts the rule for a selection. @returns undefined where there is none to lift, or nothing waits in such a line */
async function actByRule(action: 'hold' | 'release', rule: Rule, { parts, actor }: Acting): Promise<Done | undefined> {
  const { spool } = parts;
  const now = await parts.lines(true);
  const { holds } = now;
  const before = holds.find((hold) => isSame(hold, rule));
  const nothing = { done: 0, recipients: 0, skipped: 1 };
  const one = { done: 1, recipients: heldBy(rule, now), skipped: 0, isRule: true };
  if (before && !mayLift(before, actor)) return nothing;
  if (action === 'release') {
    if (!before) return undefined;
    return (await spool.liftHold(rule)) ? one : nothing;
  }
  // A route may have one line for all its domains, or one for each: a rule for the other kind would hold nothing.
  if (rule.kind === 'line' && !before && !now.lines.some((line) => lineOf(line) === rule.value)) return undefined;
  if (!before && roomFor(holds, rule.kind, actor) <= 0) return nothing;
  await spool.addHold(ruleOf(rule, actor, parts));
  return one;
}

/** Does an action to a selection for some seconds; a hold on all that a place has is one rule. @param after where an earlier one ended */
export async function actOnSelection(
  action: QueueAction,
  selection: Selection,
  at: Acting & { readonly after?: string | undefined },
): Promise<Done> {
  const { parts, actor } = at;
  const wanted = { ...selection, account: actor.account ?? selection.account };
  const rule = ruleFor(wanted);
  const ruled = rule && (action === 'hold' || action === 'release') ? await actByRule(action, rule, at) : undefined;
  if (ruled) return ruled;
  const act = await actOf(action, at);
  const until = parts.clock.monotonic() + budgetMs;
  const sum = { done: 0, recipients: 0, skipped: 0 };
  let { after } = at;
  do {
    const begunAt = parts.clock.monotonic();
    const taking = { ...wanted, states: wanted.states ?? taken[action] };
    const page = await findSelected(parts, taking, { limit: stepMessages, after });
    const acted = await act(page.selected.filter((chosen) => isWhole(action, chosen)));
    sum.done += acted.done;
    sum.recipients += acted.recipients;
    sum.skipped += page.selected.length - acted.done;
    after = page.next;
    if (after === undefined) return sum;
    // As long without the database as with it, so that mail goes on being accepted.
    const restMs = Math.min(1000, parts.clock.monotonic() - begunAt);
    await new Promise((resolve) => setTimeout(resolve, restMs));
  } while (parts.clock.monotonic() < until);
  return { ...sum, next: after };
}
