// GET .../email/sending/queue and .../queue/messages, POST .../queue/actions, for one account and for all.

import { Type } from 'typebox';
import { hasScope } from '../../../accounts/account.ts';
import type { Logger } from '../../../base/log.ts';
import { type DestinationView, serviceOf } from '../../../delivery/transport.ts';
import { asciiDomain } from '../../../mail/address/domain.ts';
import type { SmtpReply } from '../../../mail/smtp-reply.ts';
import type { Hold, HoldKind } from '../../../spool/hold.ts';
import type { SpooledRecipient } from '../../../spool/spool.ts';
import { type AskedOf, endpoint, endpointsOfBoth } from '../../http/endpoint.ts';
import { refusal, succeed, succeedWithPage } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { isoTime, isoTimeOrNull } from '../schemas.ts';
import { type ActionParts, type Actor, actOnNamed, actOnSelection, mayLift } from './queue-actions.ts';
import { type QueueGroup, queueGroups } from './queue-groups.ts';
import * as schema from './queue-schemas.ts';
import {
  destinationOf,
  findNamed,
  findSelected,
  type Selected,
  type Selection,
  waitingState,
} from './queue-selection.ts';

interface QueueEndpointsParts extends ActionParts {
  /** The next hops as this process serves them. */
  readonly destinations: () => readonly DestinationView[];
  readonly now: () => number;
  readonly log: Logger;
}

/** Groups of an answer, and recipients of a message in it. */
const mostGroups = 200;
const shownRecipients = 10;

/** Says who acts: the account of the path, or all accounts. */
function actor({ credential, of }: AskedOf): Actor {
  const isOperator = hasScope(credential, 'admin');
  return { account: of, isOperator, by: `${isOperator ? 'admin' : 'console'} ${of ?? '*'}/${credential.name}` };
}

function lastReply(reply: SmtpReply | undefined): string | null {
  if (!reply) return null;
  const { code, enhanced, text } = reply;
  return [code, enhanced, text].filter((part) => part !== undefined && part !== '').join(' ');
}

/** Shows a group. What a next hop said may be about another account's mail, so only the operator sees that. */
function shownGroup(group: QueueGroup, who: Actor, now: number) {
  const { account, destination, route, depth, held, hold, oldestAt, hop } = group;
  return {
    account,
    destination: destination ?? null,
    route: route === '' ? null : route,
    depth,
    held,
    hold: hold ? shownHold(hold, { ...who, account }, 'line') : null,
    oldest_at: isoTimeOrNull(oldestAt),
    state: hop ? serviceOf(hop) : null,
    next_at: hop?.trouble ? isoTime(now + hop.waitMs) : null,
    last_reply: who.isOperator ? lastReply(hop?.lastWords) : null,
  };
}

/** Shows a hold. @param kind of the holds that are released where it is shown */
function shownHold(hold: Hold, who: Actor, kind: HoldKind) {
  const isShown = mayLift(hold, who);
  return {
    kind: hold.kind,
    since: isoTime(hold.at),
    by: isShown ? hold.by : null,
    why: isShown ? hold.why : null,
    releasable: isShown && hold.kind === kind,
  };
}

function shownRecipient(recipient: SpooledRecipient, who: Actor) {
  const { address, attempts, nextAttemptAt, hold } = recipient;
  const state = waitingState(recipient) ?? 'queued';
  return {
    address,
    state,
    attempts,
    next_at: state === 'failed' || hold ? null : isoTime(nextAttemptAt),
    last_reply: lastReply(recipient.lastReply),
    hold: hold ? shownHold(hold, who, 'message') : null,
  };
}

function countStates(recipients: readonly SpooledRecipient[]) {
  const counts = { queued: 0, deferred: 0, held: 0, failed: 0 };
  for (const recipient of recipients) counts[waitingState(recipient) ?? 'queued'] += 1;
  return counts;
}

function shownMessage({ item, recipients }: Selected, parts: QueueEndpointsParts, who: Actor) {
  const { entry, size } = item;
  const [first] = recipients;
  const { address: recipient = '', ...state } = first ? shownRecipient(first, who) : {};
  return {
    id: entry.id,
    account: entry.account,
    sender: entry.senderPath,
    recipient,
    destination: destinationOf(recipient),
    route: parts.routeOf(entry.account, recipient),
    ...state,
    recipient_count: recipients.length,
    states: countStates(recipients),
    recipients: recipients.slice(0, shownRecipients).map((each) => shownRecipient(each, who)),
    accepted_at: isoTime(entry.acceptedAt),
    expires_at: isoTime(entry.expiresAt),
    size,
  };
}

/** Reads what is selected. @throws Refusal for a destination that is no domain */
function selectionOf({ destination, route, state, search }: schema.SelectionQuery): Selection {
  const domain = destination === undefined ? undefined : asciiDomain(destination);
  if (destination !== undefined && domain === undefined) {
    const message = `destination must be a domain, got ${JSON.stringify(destination.slice(0, 60))}`;
    throw refusal('E_VALIDATION_ERROR', message);
  }
  return { destination: domain, route, states: state && [state], search };
}

const listGroups = endpoint({
  at: 'GET',
  operationId: 'listQueue',
  summary: (whose) => `Tell what waits ${whose}, by destination and route`,
  description: `At most ${mostGroups} groups, the largest first, and behind them those that are held by themselves; \`result_info.total_count\` tells how many there are. The answer may be some seconds old. \`state\` and \`next_at\` tell how the process that answers serves the next hop.`,
  result: Type.Array(schema.group),
  async answer(asked, parts: QueueEndpointsParts) {
    const who = actor(asked);
    const groups = queueGroups(await parts.lines(), parts.destinations(), who.account);
    const listed = groups.filter(({ hold }, at) => at < mostGroups || hold?.kind === 'line');
    const shown = listed.map((group) => shownGroup(group, who, parts.now()));
    return succeed(asked.reply, shown, { result_info: { count: shown.length, total_count: groups.length } });
  },
});

const listMessages = endpoint({
  at: 'GET /messages',
  operationId: 'listQueuedMessages',
  summary: (whose) => `List messages ${whose} that wait or have failed, the oldest first`,
  description:
    '`result_info.cursor` leads to the next page. A page may have few messages or none while it leads on, since a request examines a bounded number of them.',
  query: schema.messagesQuery,
  result: Type.Array(schema.message),
  async answer(asked, parts: QueueEndpointsParts) {
    const who = actor(asked);
    const { cursor, per_page: perPage = schema.usualMessages, id } = asked.query;
    const selection = { ...selectionOf(asked.query), account: who.account };
    const page = { limit: Number(perPage), after: cursor };
    const { selected, next } = await asked.inTurn(() =>
      id === undefined ? findSelected(parts, selection, page) : findNamed(parts, id, selection),
    );
    const shown = selected.map((each) => shownMessage(each, parts, who));
    return succeedWithPage(asked.reply, shown, { limit: page.limit, next });
  },
});

const takeActions = endpoint({
  at: 'POST /actions',
  operationId: 'actOnQueue',
  summary: (whose) => `Try again, hold, release or drop messages ${whose}`,
  description:
    'Takes `ids` or a `filter`. What has failed for good is tried again or held only where `state` is `failed`. A filter is worked through for some seconds: where `next` is no null, the same request with `after` goes on. `done` is the number of messages, `recipients` that of their recipients. What is done to whole messages (hold, release, drop) leaves those alone by a filter that have other recipients besides.',
  body: schema.action,
  result: schema.done,
  async answer(asked, parts: QueueEndpointsParts) {
    const who = actor(asked);
    const { action, ids, filter, state, after } = asked.body;
    if ((ids === undefined) === (filter === undefined))
      throw refusal('E_VALIDATION_ERROR', 'Want one of ids and filter');
    if (filter !== undefined && state !== undefined)
      throw refusal('E_VALIDATION_ERROR', 'Want state in the filter, not beside it');
    const at = { parts, actor: who, after, states: state && [state] };
    const { done, recipients, skipped, isRule, next } = await asked.inTurn(() =>
      ids ? actOnNamed(action, ids, at) : actOnSelection(action, selectionOf(filter ?? {}), at),
    );
    const { account, credential, request } = asked;
    const facts = { session: request.id, account: account.name, credential: credential.name };
    parts.log.info({ ...facts, action, done, recipients, of: who.account ?? 'all' }, 'queue changed');
    return { action, done, recipients, rule: isRule === true, skipped, next: next ?? null };
  },
});

/** The endpoints of the queue. */
export function queueEndpoints(parts: QueueEndpointsParts): V4Plugin {
  const place = { path: '/email/sending/queue', tag: 'Queue' };
  return endpointsOfBoth(place, parts, [listGroups, listMessages, takeActions]);
}
