// GET, POST and DELETE .../tokens: the tokens of the store at run time (D52, D85, D92, D93).

import { Type } from 'typebox';
import { type Account, type Scope, scopes } from '../accounts/account.ts';
import type { TokenStore } from '../accounts/token-store.ts';
import { isLive, scopesInForce, type TokenRecord } from '../accounts/tokens.ts';
import type { Clock } from '../base/clock.ts';
import { closest } from '../base/closest.ts';
import type { Logger } from '../base/log.ts';
import { type Fault, Refusal, succeed } from '../http/envelope.ts';
import { submitterOf, type V4App, type V4Plugin } from '../http/v4-app.ts';
import {
  accountPath,
  entryPath,
  expiry,
  flag,
  isOn,
  isoTime,
  readExpiry,
  removed,
  time,
  timeOrNull,
  words,
} from './schemas.ts';

/** What the endpoints need. */
export interface TokenEndpointsParts {
  readonly store: TokenStore;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The most tokens of an account that are valid at a time. The operator's command makes more. */
const maxLiveTokens = 1000;

const scope = Type.Enum([...scopes], { want: `one of ${scopes.join(', ')}` });

const token = Type.Object(
  {
    id: Type.String(),
    credential: Type.String(),
    last_four: Type.String({ description: 'Its last four characters' }),
    label: Type.String(),
    scopes: Type.Array(scope, { description: 'What it may do now: never more than its credential' }),
    created_at: time,
    expires_at: timeOrNull,
    revoked_at: timeOrNull,
    live: Type.Boolean({ description: 'Neither expired nor revoked' }),
  },
  { title: 'Token' },
);

const madeToken = Type.Object(
  {
    ...token.properties,
    token: Type.String({ description: 'The token itself, shown this once: bearer token of HTTP, password of SMTP' }),
  },
  { title: 'MadeToken' },
);

const newToken = Type.Object(
  {
    credential: Type.String({ want: 'the name of a credential of the account', example: 'default' }),
    label: Type.Optional(words),
    scopes: Type.Optional(
      Type.Array(scope, {
        minItems: 1,
        uniqueItems: true,
        want: 'a list of scopes, each once',
        description: "Narrows it to some of its credential's scopes; absent: all of them",
      }),
    ),
    expires_at: Type.Optional(expiry),
  },
  { additionalProperties: false, title: 'NewToken' },
);

function shown(account: Account, record: TokenRecord, now: number) {
  const { id, credential, lastFour, label, createdAt, expiresAt, revokedAt } = record;
  return {
    id,
    credential,
    last_four: lastFour,
    label,
    scopes: scopesInForce(account.credentials.get(credential), record.scopes),
    created_at: isoTime(createdAt),
    expires_at: expiresAt === undefined ? null : isoTime(expiresAt),
    revoked_at: revokedAt === undefined ? null : isoTime(revokedAt),
    live: isLive(record, now),
  };
}

/** What is wrong with the credential that is named and the scopes that are wanted of it. */
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

const path = '/accounts/:account_id/tokens';
const config = { scope: 'admin' } as const;
const reads = { scope: ['admin', 'console:read'] } as const;
const tags = ['Tokens'] as const;

function listTokens(app: V4App, { store, clock }: TokenEndpointsParts): void {
  app.get(
    path,
    {
      config: reads,
      schema: {
        operationId: 'listTokens',
        summary: 'List tokens, the oldest first',
        description: 'Tokens that the configuration file names are not listed.',
        tags,
        params: accountPath,
        querystring: Type.Object({ all: Type.Optional(flag) }, { additionalProperties: false }),
        response: { 200: Type.Array(token) },
      },
    },
    async (request, reply) => {
      const { account } = submitterOf(request);
      const now = clock.now();
      const every = isOn(request.query.all);
      const records = (await store.list(account.id)).filter((record) => every || isLive(record, now));
      return succeed(
        reply,
        records.map((record) => shown(account, record, now)),
      );
    },
  );
}

function createToken(app: V4App, { store, clock, log }: TokenEndpointsParts): void {
  app.post(
    path,
    {
      config,
      schema: {
        operationId: 'createToken',
        summary: 'Make a token',
        description: `The answer shows it, this once. It counts at once, by HTTP and SMTP. An account has at most ${maxLiveTokens} that are valid.`,
        tags,
        params: accountPath,
        body: newToken,
        response: { 200: madeToken },
      },
    },
    async (request, reply) => {
      const { account } = submitterOf(request);
      const { credential, label = '', scopes: wanted, expires_at: expiresText } = request.body;
      const now = clock.now();
      const faults = credentialFaults(account, credential, wanted ?? []);
      const expiresAt = readExpiry(expiresText, now);
      if (typeof expiresAt === 'object') throw new Refusal([...faults, expiresAt]);
      if (faults.length > 0) throw new Refusal(faults);
      const made = await store.transaction(async (tokens) => {
        if ((await tokens.countLive(account.id, now)) >= maxLiveTokens) return undefined;
        return await tokens.create({
          account: account.id,
          credential,
          label,
          ...(wanted === undefined ? {} : { scopes: wanted }),
          ...(expiresAt === undefined ? {} : { expiresAt }),
          createdAt: now,
        });
      });
      if (!made) {
        const message = `The account has ${maxLiveTokens} valid tokens, and may not have more; revoke one first`;
        throw new Refusal([{ token: 'E_VALIDATION_ERROR', message }]);
      }
      log.info({ session: request.id, account: account.name, credential, tokenId: made.record.id }, 'token made');
      reply.header('Cache-Control', 'no-store');
      return succeed(reply, { ...shown(account, made.record, now), token: made.token });
    },
  );
}

function revokeToken(app: V4App, { store, clock, log }: TokenEndpointsParts): void {
  app.delete(
    `${path}/:id`,
    {
      config,
      schema: {
        operationId: 'revokeToken',
        summary: 'Revoke a token',
        description: 'From now on it opens nothing; an SMTP session that it opened ends at its next MAIL.',
        tags,
        params: entryPath,
        response: { 200: removed },
      },
    },
    async (request, reply) => {
      const { account } = submitterOf(request);
      const { id } = request.params;
      const record = await store.revoke({ id, account: account.id, now: clock.now() });
      if (!record) throw new Refusal([{ token: 'E_NOT_FOUND', message: 'The account has no such token' }]);
      const { credential } = record;
      log.info({ session: request.id, account: account.name, credential, tokenId: id }, 'token revoked');
      return succeed(reply, { id });
    },
  );
}

/** The endpoints of tokens. */
export function tokenEndpoints(parts: TokenEndpointsParts): V4Plugin {
  return (app) => {
    listTokens(app, parts);
    createToken(app, parts);
    revokeToken(app, parts);
  };
}
