// GET, POST and DELETE .../email/sending/suppressions (D51, D52).

import { Type } from 'typebox';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { type Suppression, type SuppressionStore, suppressionReasons } from '../feedback/suppression-store.ts';
import { type Fault, Refusal, succeed } from '../http/envelope.ts';
import { submitterOf, type V4App, type V4Plugin } from '../http/v4-app.ts';
import { readComparable } from '../mail/address/comparable-mailbox.ts';
import {
  accountPath,
  cursorAbout,
  entryPath,
  expiry,
  isoTime,
  pageInfo,
  perPage,
  readExpiry,
  removed,
  time,
  timeOrNull,
  words,
} from './schemas.ts';

/** What the endpoints need. */
export interface SuppressionEndpointsParts {
  readonly suppressions: SuppressionStore;
  readonly clock: Clock;
  readonly log: Logger;
}

const reason = Type.Enum([...suppressionReasons], { want: `one of ${suppressionReasons.join(', ')}` });

const suppression = Type.Object(
  {
    id: Type.String({ pattern: '^[0-9a-f]{32}$' }),
    address: Type.String({ description: 'Domain as A-label; in lower case', example: 'user@example.net' }),
    reason,
    note: Type.Union([Type.String(), Type.Null()]),
    created_at: time,
    expires_at: timeOrNull,
  },
  { title: 'Suppression' },
);

const newSuppression = Type.Object(
  {
    address: Type.String({ want: 'an address such as user@example.net', example: 'user@example.net' }),
    reason: Type.Optional(reason),
    note: Type.Optional(words),
    expires_at: Type.Optional(expiry),
  },
  { additionalProperties: false, title: 'NewSuppression' },
);

const defaultPage = 100;

const page = Type.Object(
  {
    cursor: Type.Optional(
      Type.String({
        pattern: '^[0-9a-f]{32}$',
        want: 'the cursor of an earlier answer',
        description: cursorAbout,
      }),
    ),
    per_page: perPage(1000, defaultPage),
    search: Type.Optional(
      Type.String({
        maxLength: 254,
        want: 'a text of at most 254 characters',
        description: 'Part of the address or the note, in any case',
      }),
    ),
  },
  { additionalProperties: false },
);

function shown({ id, address, reason, note, createdAt, expiresAt }: Suppression) {
  return {
    id,
    address,
    reason,
    note: note ?? null,
    created_at: isoTime(createdAt),
    expires_at: expiresAt === undefined ? null : isoTime(expiresAt),
  };
}

const path = '/accounts/:account_id/email/sending/suppressions';
const common = {
  reads: { scope: ['email:suppressions', 'console:read'] },
  edits: { scope: ['email:suppressions', 'console:edit'] },
  tags: ['Suppressions'],
} as const;

function listSuppressions(app: V4App, { suppressions }: SuppressionEndpointsParts): void {
  app.get(
    path,
    {
      config: common.reads,
      schema: {
        operationId: 'listSuppressions',
        summary: 'List suppressed addresses, the newest first',
        description:
          '`result_info` has `count` and `per_page` of this page, and the `cursor` of the next one, null where there is none.',
        tags: common.tags,
        params: accountPath,
        querystring: page,
        response: { 200: Type.Array(suppression) },
      },
    },
    async (request, reply) => {
      const { cursor, per_page: asked = defaultPage, search } = request.query;
      const limit = Number(asked);
      const { entries, next } = await suppressions.list(submitterOf(request).account.id, {
        limit,
        ...(cursor === undefined ? {} : { after: cursor }),
        ...(search === undefined ? {} : { search }),
      });
      return succeed(reply, entries.map(shown), { result_info: pageInfo(entries.length, limit, next) });
    },
  );
}

function createSuppression(app: V4App, { suppressions, clock, log }: SuppressionEndpointsParts): void {
  app.post(
    path,
    {
      config: common.edits,
      schema: {
        operationId: 'createSuppression',
        summary: 'Suppress an address',
        description:
          'Mail to it is refused from now on, by SMTP at RCPT and by REST the whole request. An address that is on the list already keeps its id and takes reason, note and expiry of the new entry.',
        tags: common.tags,
        params: accountPath,
        body: newSuppression,
        response: { 200: suppression },
      },
    },
    async (request, reply) => {
      const { address: given, reason: why = 'manual', note, expires_at: expiresText } = request.body;
      const faults: Fault[] = [];
      const address = readComparable(given);
      if (address === undefined) {
        const message = `address must be an address such as user@example.net, got ${JSON.stringify(given.slice(0, 100))}`;
        faults.push({ token: 'E_VALIDATION_ERROR', message, pointer: '/address' });
      }
      const expiresAt = readExpiry(expiresText, clock.now());
      if (typeof expiresAt === 'object') faults.push(expiresAt);
      if (address === undefined || typeof expiresAt === 'object') throw new Refusal(faults);
      const { account } = submitterOf(request);
      const entry = await suppressions.add({
        account: account.id,
        address,
        reason: why,
        ...(note === undefined || note === '' ? {} : { note }),
        ...(expiresAt === undefined ? {} : { expiresAt }),
      });
      log.info({ session: request.id, account: account.name, recipient: address, reason: why }, 'suppression added');
      return succeed(reply, shown(entry));
    },
  );
}

function deleteSuppression(app: V4App, { suppressions, log }: SuppressionEndpointsParts): void {
  app.delete(
    `${path}/:id`,
    {
      config: common.edits,
      schema: {
        operationId: 'deleteSuppression',
        summary: 'Take an address off the list',
        tags: common.tags,
        params: entryPath,
        response: { 200: removed },
      },
    },
    async (request, reply) => {
      const { account } = submitterOf(request);
      const entry = await suppressions.remove(account.id, request.params.id);
      if (!entry) throw new Refusal([{ token: 'E_NOT_FOUND', message: 'There is no such entry on the list' }]);
      log.info({ session: request.id, account: account.name, recipient: entry.address }, 'suppression removed');
      return succeed(reply, { id: entry.id });
    },
  );
}

/** The endpoints of the suppression list. */
export function suppressionEndpoints(parts: SuppressionEndpointsParts): V4Plugin {
  return (app) => {
    listSuppressions(app, parts);
    createSuppression(app, parts);
    deleteSuppression(app, parts);
  };
}
