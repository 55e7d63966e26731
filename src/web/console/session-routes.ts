// Signing in and out: with a token, or by a link that works once.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { type Account, hasScope, type Submitter } from '../../accounts/account.ts';
import type { Guessing } from '../../accounts/guessing.ts';
import type { MinuteCounts } from '../../accounts/minute-window.ts';
import type { FieldNames } from '../../accounts/strip-rules.ts';
import { hashToken } from '../../accounts/token-store.ts';
import type { BodyBudget } from '../../base/body-budget.ts';
import type { Logger } from '../../base/log.ts';
import type { SharedMinutes } from '../../base/process-group.ts';
import { failureTeller, refuseLogin, unknownToken } from '../http/authorization.ts';
import { refusal, refuse, succeed } from '../http/envelope.ts';
import { admitBody, readBodies } from '../http/request-body.ts';
import type { V4App } from '../http/v4-app.ts';
import { answerError, putOff } from '../http/v4-routes.ts';
import {
  forgottenCookies,
  type OpenSession,
  refuseUse,
  type SessionParts,
  type Sessions,
  sessionCookie,
  sessionMs,
} from './sessions.ts';

/** What signing in needs. */
export interface SignInParts extends SessionParts {
  readonly sessions: Sessions;
  /** Counts the sign-ins of each account. */
  readonly minutes: SharedMinutes | MinuteCounts;
  /** The count of wrong tokens, which all protocols share (D92). */
  readonly guessing: Guessing;
  readonly bodies: BodyBudget;
  /** Every account, for those who may act for all. */
  readonly allAccounts: readonly Pick<Account, 'id' | 'name'>[];
  readonly log: Logger;
  /** Whether the gateway has started and has not begun to stop. */
  readonly isServing: () => boolean;
  /** Told of each wrong token. */
  readonly onAuthFailure: () => void;
}

const maxBodyBytes = 4096;
/** A program that signs in all the time does not keep the database from others. */
const signInsPerMinute = 60;
const codeForm = /^[\w-]{43}$/;

const SignIn = Type.Object(
  { token: Type.String({ pattern: '^[A-Za-z0-9._~+/=-]{1,512}$', want: 'a token' }) },
  { additionalProperties: false },
);

function patterns({ names, prefixes }: FieldNames): readonly string[] {
  return [...names, ...prefixes.map((prefix) => `${prefix}*`)];
}

/** The settings by which the messages of a session are judged, in the words of the configuration. */
function judgedAs({ account, credential }: Submitter) {
  const { strip, trustedHop, defaultDomain, legacyCharset } = credential;
  return {
    account: account.name,
    sendingDomains: account.sendingDomains.map(({ name, subdomains }) => ({ name, subdomains })),
    strip: patterns(strip),
    stripInvalid: patterns(strip.invalid),
    stripEmpty: strip.empty,
    keepFirst: [...strip.keepFirst],
    trustedHop,
    defaultDomain,
    legacyCharset,
  };
}

function told({ submitter, expiresAt }: OpenSession, { allAccounts }: Pick<SignInParts, 'allAccounts'>) {
  const { account, credential } = submitter;
  const accounts = hasScope(credential, 'admin') ? allAccounts : [account];
  return {
    account: { id: account.id, name: account.name },
    credential: credential.name,
    scopes: [...credential.scopes],
    expires_at: new Date(expiresAt).toISOString(),
    accounts: accounts.map(({ id, name }) => ({ id, name })),
    judged_as: judgedAs(submitter),
  };
}

/** The session as `GET /console/session` tells it. */
export type ToldSession = ReturnType<typeof told>;

/** Whether the browser speaks HTTPS, as far as can be seen from here: a proxy may speak it for us. */
function isSecure({ protocol, headers, host }: FastifyRequest, publicUrl: string | undefined): boolean {
  if (protocol === 'https' || headers.origin?.startsWith('https://') === true) return true;
  return publicUrl === `https://${host}`;
}

/** The fields by which browsers tell that they only look ahead: of today, of older ones and of Safari. */
const lookingAhead = ['sec-purpose', 'purpose', 'x-purpose', 'x-moz'] as const;

/** Whether a browser only looks ahead, or loads a part of a page. A link must not be used up by that. */
function isNoVisit({ headers }: FastifyRequest): boolean {
  const { 'sec-fetch-dest': wanted } = headers;
  const looksAhead = lookingAhead.some((name) => /prefetch|prerender|preview/i.test(String(headers[name] ?? '')));
  return looksAhead || (wanted !== undefined && wanted !== 'document');
}

/** Opens a session and sets its cookie. @param by the token's hash; absent: a link @throws Refusal 403 without scope, 429 too often */
async function signIn(
  request: FastifyRequest,
  reply: FastifyReply,
  { parts, submitter, by }: { readonly parts: SignInParts; readonly submitter: Submitter; readonly by?: string },
): Promise<OpenSession> {
  const { sessions, minutes, log, publicUrl } = parts;
  const { account, credential } = submitter;
  refuseUse(submitter);
  // Messages are counted beside it, by the id of the account alone.
  const waitSeconds = await minutes.take(`sign-in ${account.id}`, signInsPerMinute);
  if (waitSeconds > 0) {
    const message = `The account signs in too often; try again in ${waitSeconds} s`;
    throw refusal('E_RATE_LIMIT_EXCEEDED', message, waitSeconds);
  }
  const opened = await sessions.open(request, submitter, by);
  reply.header('Set-Cookie', sessionCookie(opened.secret, isSecure(request, publicUrl), sessionMs / 1000));
  const facts = { session: request.id, client: request.ip, account: account.name, credential: credential.name };
  log.info({ ...facts, way: by === undefined ? 'link' : 'token' }, 'signed in to the console');
  return opened;
}

/** Signs in with a token; the answer to a wrong one may be delayed (D92). */
async function signInByToken(
  request: FastifyRequest,
  reply: FastifyReply,
  { parts, token }: { readonly parts: SignInParts; readonly token: string },
): Promise<FastifyReply> {
  const { sessions, guessing, accounts } = parts;
  sessions.refuseForeign(request);
  await guessing.pause(request.ip);
  const by = hashToken(token);
  const submitter = await accounts.authenticateHash(by);
  if (!submitter) {
    throw await refuseLogin(request, unknownToken, {
      guessing,
      onFailure: failureTeller(parts, () => '/console/session'),
    });
  }
  return succeed(reply, told(await signIn(request, reply, { parts, submitter, by }), parts));
}

/** Signs in by a link and leads to the first page. The way on has no host in it, so that no Host decides where it leads. */
async function signInByLink(
  request: FastifyRequest<{ Params: { code: string } }>,
  reply: FastifyReply,
  parts: SignInParts,
): Promise<FastifyReply> {
  const { store, guessing, accounts } = parts;
  reply.header('Referrer-Policy', 'no-referrer');
  if (isNoVisit(request)) return refuse(reply, [{ token: 'E_FORBIDDEN', message: 'This link is for a visit' }]);
  await guessing.pause(request.ip);
  const { code } = request.params;
  const found = codeForm.test(code) ? await store.useLink(code, parts.clock.now()) : undefined;
  const submitter = found && accounts.submitter(found.account, found.credential);
  if (!submitter) {
    // No log may have the code of a link.
    await refuseLogin(request, '', { guessing, onFailure: failureTeller(parts, () => '/console/sign-in/...') });
    return reply.redirect('/console?notice=link', 303);
  }
  await signIn(request, reply, { parts, submitter });
  return reply.redirect('/console', 303);
}

/** Registers the routes. */
export function sessionRoutes(app: V4App, parts: SignInParts): void {
  const { sessions, bodies, log } = parts;
  app.addHook('onRequest', async (request, reply) => {
    reply.header('Cache-Control', 'no-store');
    if (!parts.isServing()) return putOff(reply);
    admitBody(request, reply, { bodies, limit: maxBodyBytes });
    return undefined;
  });
  app.setErrorHandler(async (error, request, reply) => answerError(log, error, request, reply));
  readBodies(app, maxBodyBytes);
  app.post('/console/session', { schema: { body: SignIn } }, async (request, reply) =>
    signInByToken(request, reply, { parts, token: request.body.token }),
  );
  app.get('/console/session', async (request, reply) => {
    sessions.refuseForeign(request);
    const open = await sessions.look(request);
    return succeed(reply, open ? told(open, parts) : null);
  });
  app.delete('/console/session', async (request, reply) => {
    sessions.refuseForeign(request);
    await sessions.end(request);
    return succeed(reply.header('Set-Cookie', forgottenCookies()), null);
  });
  const visit = { exposeHeadRoute: false };
  app.get<{ Params: { code: string } }>('/console/sign-in/:code', visit, async (request, reply) =>
    signInByLink(request, reply, parts),
  );
}
