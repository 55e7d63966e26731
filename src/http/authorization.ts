// Who calls: the bearer token (RFC 6750), its scope, and the account of the path (D85, D92, D93).

import type { FastifyRequest } from 'fastify';
import type { Scope, Submitter } from '../accounts/account.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { AddressLimit } from './address-limit.ts';
import { type Fault, Refusal } from './envelope.ts';

const bearer = /^Bearer +([A-Za-z0-9._~+/-]{1,512}=*)$/i;

function unauthorized(message: string): Refusal {
  return new Refusal([{ token: 'E_UNAUTHORIZED', message }]);
}

/** What authorization asks of. */
export interface AuthorizationParts {
  readonly accounts: Pick<Accounts, 'authenticate' | 'find'>;
  readonly addressLimit: AddressLimit;
  /** Told of every failed login. */
  readonly onFailure: (request: FastifyRequest) => void;
}

/** Finds the submitter of the request's token. Only hashes are compared. */
function authenticate(request: FastifyRequest, { accounts, addressLimit, onFailure }: AuthorizationParts): Submitter {
  const wait = addressLimit.waitSeconds(request.ip);
  if (wait > 0) {
    const message = `Too many wrong tokens came from this address; try again in ${wait} s`;
    throw new Refusal([{ token: 'E_RATE_LIMIT_EXCEEDED', message }], wait);
  }
  const header = request.headers.authorization;
  if (header === undefined) throw unauthorized('Authorization: Bearer TOKEN is missing');
  const token = bearer.exec(header)?.[1];
  const submitter = token === undefined ? undefined : accounts.authenticate(token);
  if (submitter) return submitter;
  addressLimit.failed(request.ip);
  onFailure(request);
  throw unauthorized(
    token === undefined ? 'Authorization must be Bearer TOKEN' : 'The token is unknown, expired or revoked',
  );
}

const unknownAccount: Fault = { token: 'E_NOT_FOUND', message: 'There is no such account, or it is another one’s' };

function pathAccount(request: FastifyRequest): string | undefined {
  const { params } = request;
  if (typeof params !== 'object' || params === null || !('account_id' in params)) return undefined;
  return String(params.account_id);
}

/**
 * Finds who calls and whether they may; the request's `submitter` is then set. Its account is the one of the path: the
 * token's own, or any where the token has the scope `admin` (D85).
 * @throws Refusal 401, 403 for a scope that is missing, 404 for an account that is not the token's, 429 after many failures
 */
export function authorize(request: FastifyRequest, scope: Scope, parts: AuthorizationParts): Submitter {
  const submitter = authenticate(request, parts);
  const { account, credential } = submitter;
  if (!credential.scopes.has(scope)) {
    throw new Refusal([{ token: 'E_FORBIDDEN', message: `The token lacks the scope ${scope}` }]);
  }
  const named = pathAccount(request);
  if (named === undefined || named === account.id || named === account.name) return submitter;
  const other = parts.accounts.find(named);
  if (other?.id === account.id) return submitter;
  if (!other || !credential.scopes.has('admin')) throw new Refusal([unknownAccount]);
  return { account: other, credential };
}
