// GET, POST and DELETE .../email/sending/suppressions (D51, D52).

import { Type } from 'typebox';
import type { Clock } from '../../base/clock.ts';
import { createRestingQueues } from '../../base/keyed-queues.ts';
import type { Logger } from '../../base/log.ts';
import {
  type Suppression,
  type SuppressionStore,
  suppressionReasons,
} from '../../delivery/feedback/suppression-store.ts';
import { readComparable } from '../../mail/address/path.ts';
import { bodyOf, component, endpoint, endpointsOf } from '../http/endpoint.ts';
import { type Fault, Refusal, refusal, succeedWithPage } from '../http/envelope.ts';
import type { V4Plugin } from '../http/v4-app.ts';
import * as schema from './schemas.ts';

interface SuppressionEndpointsParts {
  readonly suppressions: SuppressionStore;
  readonly clock: Clock;
  readonly log: Logger;
}

const reason = Type.Enum([...suppressionReasons], { want: `one of ${suppressionReasons.join(', ')}` });

/** An entry of the list in answers. */
export const suppression = component('Suppression', {
  id: Type.String({ pattern: '^[0-9a-f]{32}$' }),
  address: Type.String({ description: 'Domain as A-label; in lower case', example: 'user@example.net' }),
  reason,
  note: schema.textOrNull(),
  created_at: schema.time,
  expires_at: schema.timeOrNull,
});

const newSuppression = bodyOf('NewSuppression', {
  address: Type.String({ want: 'an address such as user@example.net', example: 'user@example.net' }),
  reason: Type.Optional(reason),
  note: Type.Optional(schema.words),
  expires_at: Type.Optional(schema.expiry),
});

const defaultPage = 100;

const page = schema.closed({
  cursor: schema.cursorLike('^[0-9a-f]{32}$'),
  per_page: schema.perPage(1000, defaultPage),
  search: Type.Optional(
    Type.String({
      maxLength: 254,
      want: 'a text of at most 254 characters',
      description: 'Part of the address or the note, in any case',
    }),
  ),
});

/** Shows an entry of the list. */
export function suppressionJson({ id, address, reason, note, createdAt, expiresAt }: Suppression) {
  return {
    id,
    address,
    reason,
    note: note ?? null,
    created_at: schema.isoTime(createdAt),
    expires_at: schema.isoTimeOrNull(expiresAt),
  };
}

const listSuppressions = endpoint({
  at: 'GET',
  operationId: 'listSuppressions',
  summary: 'List suppressed addresses, the newest first',
  description:
    '`result_info` has `count` and `per_page` of this page, and the `cursor` of the next one, null where there is none. What `search` looks for in a long list may lie behind a page with few entries or none.',
  query: page,
  result: Type.Array(suppression),
  async answer(
    { account, query: { cursor, per_page: asked = defaultPage, search }, inTurn, reply },
    { suppressions }: SuppressionEndpointsParts,
  ) {
    const limit = Number(asked);
    const { entries, next } = await inTurn(() => suppressions.list(account.id, { limit, after: cursor, search }));
    return succeedWithPage(reply, entries.map(suppressionJson), { limit, next });
  },
});

const createSuppression = endpoint({
  at: 'POST',
  operationId: 'createSuppression',
  summary: 'Suppress an address',
  description:
    'Mail to it is refused from now on, by SMTP at RCPT and by REST the whole request. An address that is on the list already keeps its id and takes reason, note and expiry of the new entry. An account adds up to 1,000,000; what returned mail adds comes beside.',
  body: newSuppression,
  result: suppression,
  async answer({ account, body, request }, { suppressions, clock, log }: SuppressionEndpointsParts) {
    const { address: given, reason: why = 'manual', note, expires_at: expiresText } = body;
    const faults: Fault[] = [];
    const address = readComparable(given);
    if (address === undefined) {
      const message = `address must be an address such as user@example.net, got ${JSON.stringify(given.slice(0, 100))}`;
      faults.push({ token: 'E_VALIDATION_ERROR', message, pointer: '/address' });
    }
    const expiresAt = schema.readExpiry(expiresText, clock.now(), faults);
    if (address === undefined || faults.length > 0) throw new Refusal(faults);
    // In this order: what is there takes no place, and a list that is nearly full is not counted for it.
    if (!(await suppressions.find(account.id, address)) && !(await suppressions.hasRoom(account.id))) {
      const message = 'The account has as many suppressed addresses as it may add; take others off the list first';
      throw refusal('E_VALIDATION_ERROR', message);
    }
    const about = { reason: why, note: note === '' ? undefined : note, expiresAt };
    const entry = await suppressions.add({ account: account.id, address, ...about });
    log.info({ session: request.id, account: account.name, recipient: address, reason: why }, 'suppression added');
    return suppressionJson(entry);
  },
});

const deleteSuppression = endpoint({
  at: 'DELETE /:id',
  operationId: 'deleteSuppression',
  summary: 'Take an address off the list',
  params: schema.entryPath,
  result: schema.removed,
  async answer({ account, params, request }, { suppressions, log }: SuppressionEndpointsParts) {
    const entry = await suppressions.remove(account.id, params.id);
    if (!entry) throw refusal('E_NOT_FOUND', 'There is no such entry on the list');
    log.info({ session: request.id, account: account.name, recipient: entry.address }, 'suppression removed');
    return { id: entry.id };
  },
});

/** The endpoints of the suppression list. */
export function suppressionEndpoints(parts: SuppressionEndpointsParts): V4Plugin {
  const place = schema.mailPlace('suppressions', 'Suppressions', 'email:suppressions');
  // Addresses come by the thousand.
  const pace = createRestingQueues(parts.clock, 1);
  return endpointsOf({ ...place, pace }, parts, [listSuppressions, createSuppression, deleteSuppression]);
}
