// GET, POST and DELETE .../tokens: the tokens of the store at run time (D52, D85, D92, D93).

import { Type } from 'typebox';
import { type Account, type Scope, scopes } from '../../accounts/account.ts';
import {
  isLive,
  scopesInForce,
  type TokenQuery,
  type TokenRecord,
  type TokenStore,
} from '../../accounts/token-store.ts';
import type { Clock } from '../../base/clock.ts';
import { closest } from '../../base/closest.ts';
import { createRestingQueues } from '../../base/keyed-queues.ts';
import type { Logger } from '../../base/log.ts';
import { bodyOf, component, endpoint, endpointsOf } from '../http/endpoint.ts';
import { type Fault, Refusal, refusal, succeedWithPage } from '../http/envelope.ts';
import type { V4Plugin } from '../http/v4-app.ts';
import * as schema from './schemas.ts';

interface TokenEndpointsParts {
  readonly store: TokenStore;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The most tokens of an account that are valid at a time. The operator's command makes more. */
const maxLiveTokens = 1000;

const scope = Type.Enum([...scopes], { want: `one of ${scopes.join(', ')}` });

/** A token in answers. */
export const token = component('Token', {
  id: Type.String(),
  credential: Type.String(),
  last_four: Type.String({ description: 'Its last four characters' }),
  label: Type.String(),
  scopes: Type.Array(scope, { description: 'What it may do now: never more than its credential' }),
  created_at: schema.time,
  expires_at: schema.timeOrNull,
  revoked_at: schema.timeOrNull,
  live: Type.Boolean({ description: 'Neither expired nor revoked' }),
});

/** The answer that makes a token. */
export const madeToken = component('MadeToken', {
  ...token.properties,
  token: Type.String({ description: 'The token itself, shown this once: bearer token of HTTP, password of SMTP' }),
});

const newToken = bodyOf('NewToken', {
  credential: Type.String({ want: 'the name of a credential of the account', example: 'default' }),
  label: Type.Optional(schema.words),
  scopes: Type.Optional(
    Type.Array(scope, {
      minItems: 1,
      uniqueItems: true,
      want: 'a list of scopes, each once',
      description: "Narrows it to some of its credential's scopes; absent: all of them",
    }),
  ),
  expires_at: Type.Optional(schema.expiry),
});

/** Shows the record of a token. @param account undefined where it is configured no more @param now decides whether it is live */
export function tokenJson(account: Account | undefined, record: TokenRecord, now: number) {
  const { id, credential, lastFour, label, createdAt, expiresAt, revokedAt } = record;
  return {
    id,
    credential,
    last_four: lastFour,
    label,
    scopes: scopesInForce(account?.credentials.get(credential), record.scopes),
    created_at: schema.isoTime(createdAt),
    expires_at: schema.isoTimeOrNull(expiresAt),
    revoked_at: schema.isoTimeOrNull(revokedAt),
    live: isLive(record, now),
  };
}

const defaultPage = 100;

/** The token that a cursor leads on from; undefined where there is no cursor. */
function afterOf(cursor: string | undefined): TokenQuery['after'] {
  const [createdAt, id = ''] = cursor?.split('-') ?? [];
  return createdAt === undefined ? undefined : { createdAt: Number(createdAt), id };
}

function credentialFaults(account: Account, name: string, wanted: readonly Scope[]): Fault[] {
  const credential = account.credentials.get(name);
  if (!credential) {
    const names = [...account.credentials.keys()];
    const near = closest(name, names);
    const hint = near ? `did you mean "${near}"?` : `it has ${names.join(', ')}`;
    const message = `Account ${account.name} has no credential ${JSON.stringify(name.slice(0, 100))}; ${hint}`;
    return [{ token: 'E_VALIDATION_ERROR', message, pointer: '/credential' }];
  }
  return wanted.flatMap((one, index): Fault[] => {
    if (credential.scopes.has(one)) return [];
    const message = `Credential ${name} lacks the scope ${one}; it has ${[...credential.scopes].join(', ')}`;
    return [{ token: 'E_VALIDATION_ERROR', message, pointer: `/scopes/${index}` }];
  });
}

const listTokens = endpoint({
  at: 'GET',
  operationId: 'listTokens',
  summary: 'List tokens, the oldest first',
  description:
    'Tokens that the configuration file names are not listed. `result_info` has `count` and `per_page` of this page, and the `cursor` of the next one, null where there is none.',
  query: schema.closed({
    all: Type.Optional(schema.flag),
    cursor: schema.cursorLike('^[0-9]{1,15}-[0-9a-f]{16}$'),
    per_page: schema.perPage(1000, defaultPage),
  }),
  result: Type.Array(token),
  async answer(
    { account, query: { all, cursor, per_page: asked = defaultPage }, reply },
    { store, clock }: TokenEndpointsParts,
  ) {
    const now = clock.now();
    const limit = Number(asked);
    const query = { limit, after: afterOf(cursor), liveAt: schema.isOn(all) ? undefined : now };
    const { tokens, next } = await store.page(account.id, query);
    const rows = tokens.map((record) => tokenJson(account, record, now));
    return succeedWithPage(reply, rows, { limit, next: next && `${next.createdAt}-${next.id}` });
  },
});

const createToken = endpoint({
  at: 'POST',
  operationId: 'createToken',
  summary: 'Make a token',
  description: `The answer shows it, this once. It counts at once, by HTTP and SMTP. An account has at most ${maxLiveTokens} that are valid.`,
  body: newToken,
  result: madeToken,
  async answer({ account, body, request }, { store, clock, log }: TokenEndpointsParts) {
    const { credential, label = '', scopes: wanted, expires_at: expiresText } = body;
    const now = clock.now();
    const faults = credentialFaults(account, credential, wanted ?? []);
    const expiresAt = schema.readExpiry(expiresText, now, faults);
    if (faults.length > 0) throw new Refusal(faults);
    const made = await store.transaction(async (tokens) => {
      if ((await tokens.countLive(account.id, now)) >= maxLiveTokens) return undefined;
      return await tokens.create({
        ...{ account: account.id, credential, label, createdAt: now },
        ...{ scopes: wanted, expiresAt },
      });
    });
    if (!made) {
      const message = `The account has ${maxLiveTokens} valid tokens, and may not have more; revoke one first`;
      throw refusal('E_VALIDATION_ERROR', message);
    }
    log.info({ session: request.id, account: account.name, credential, tokenId: made.record.id }, 'token made');
    return { ...tokenJson(account, made.record, now), token: made.token };
  },
});

const revokeToken = endpoint({
  at: 'DELETE /:id',
  operationId: 'revokeToken',
  summary: 'Revoke a token',
  description: 'From now on it opens nothing; an SMTP session that it opened ends at its next MAIL.',
  params: schema.entryPath,
  result: schema.removed,
  async answer({ account, params: { id }, request }, { store, clock, log }: TokenEndpointsParts) {
    const record = await store.revoke({ id, account: account.id, now: clock.now() });
    if (!record) throw refusal('E_NOT_FOUND', 'The account has no such token');
    const { credential } = record;
    log.info({ session: request.id, account: account.name, credential, tokenId: id }, 'token revoked');
    return { id };
  },
});

/** The endpoints of tokens. */
export function tokenEndpoints(parts: TokenEndpointsParts): V4Plugin {
  const scopes = { reads: ['admin', 'console:read'], edits: 'admin' } as const;
  const place = { path: '/accounts/:account_id/tokens', tag: 'Tokens', ...scopes };
  return endpointsOf({ ...place, pace: createRestingQueues(parts.clock) }, parts, [
    listTokens,
    createToken,
    revokeToken,
  ]);
}
