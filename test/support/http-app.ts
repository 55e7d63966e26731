// An HTTP app on loopback for tests: accounts of its own, plugins as the test gives them.

import { expect, onTestFinished } from 'vitest';
import type { Account, Credential, Scope } from '../../src/accounts/account.ts';
import { createAccounts } from '../../src/accounts/accounts.ts';
import { Guessing } from '../../src/accounts/guessing.ts';
import { stripRules } from '../../src/accounts/strip-rules.ts';
import { hashToken } from '../../src/accounts/token-store.ts';
import { BodyBudget, defaultBodyLimit } from '../../src/base/body-budget.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { restAnswers } from '../../src/pipeline/submit.ts';
import { HttpApp, type HttpAppParts } from '../../src/web/http/app.ts';
import type { V4Plugin } from '../../src/web/http/v4-app.ts';

function credential(name: string, scopes: readonly Scope[]): [string, Credential] {
  return [name, { name, scopes: new Set(scopes), strip: stripRules(), trustedHop: false }];
}

function account(name: string, id: string, domain: string): Account {
  return {
    id,
    name,
    plan: 'enterprise',
    sendingDomains: [{ name: domain, subdomains: true, dkim: [{ selector: 's1', algorithm: 'rsa' }] }],
    limits: {},
    showClientAddress: true,
    tlsRequiredNo: false,
    credentials: new Map([
      credential('default', ['email:send', 'email:suppressions']),
      credential('watcher', ['email:events', 'email:webhooks']),
      credential('reader', ['proxy:read']),
      credential('boss', ['email:send', 'email:suppressions', 'email:events', 'email:webhooks', 'admin']),
    ]),
  };
}

/** Account `dev` (example.com) and account `other` (other.example); tokens are `ACCOUNT-CREDENTIAL`. */
export const httpAccounts: readonly Account[] = [
  account('dev', 'a1'.repeat(16), 'example.com'),
  account('other', 'b2'.repeat(16), 'other.example'),
];

/** An answer with its body read. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The envelope; an empty one where the body is no JSON. */
  readonly json: {
    readonly success?: boolean;
    readonly errors: readonly {
      readonly code: number;
      readonly message: string;
      readonly source?: { readonly pointer: string };
    }[];
    readonly messages?: readonly unknown[];
    readonly result?: unknown;
  };
}

/** Asks and reads the answer. */
export async function ask(url: string, init: RequestInit = {}): Promise<HttpAnswer> {
  const answer = await fetch(url, init);
  const text = await answer.text();
  const json: HttpAnswer['json'] = text.startsWith('{') ? JSON.parse(text) : { errors: [] };
  return { status: answer.status, headers: answer.headers, text, json };
}

/** Starts an app with the test's plugins; it is closed when the test ends. */
export async function startHttpApp(
  plugins: readonly V4Plugin[] = [],
  more: Partial<HttpAppParts> = {},
): Promise<{ readonly base: string; readonly port: number; readonly app: HttpApp }> {
  const tokens = httpAccounts.flatMap(({ id, name, credentials }) =>
    [...credentials.keys()].map((key) => ({ account: id, credential: key, sha256: hashToken(`${name}-${key}`) })),
  );
  const globalKeys = httpAccounts.map(({ id, name }) => ({
    account: id,
    email: `${name}@example.com`,
    sha256: hashToken(`global-key-of-${name}`),
  }));
  const app = new HttpApp({
    answers: restAnswers,
    accounts: createAccounts({ accounts: httpAccounts, tokens, globalKeys, clock: systemClock }),
    log: silentLog,
    ready: () => Promise.resolve(true),
    metrics: async () => ({ contentType: 'text/plain; version=0.0.4', text: 'up 1\n' }),
    plugins,
    ...{ bodies: new BodyBudget(defaultBodyLimit()), guessing: new Guessing({}) },
    ...{ trustedProxies: [], takesRequests: () => true },
    limits: { connections: Infinity, connectionsPerAddress: Infinity },
    ...more,
  });
  const { port } = await app.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(async () => {
    await app.close(0);
    expect(app.open(), 'what is still counted as open after the test').toEqual({
      connections: 0,
      answers: 0,
      upgraded: 0,
      waitingOctets: 0,
    });
  });
  return { base: `http://127.0.0.1:${port}`, port, app };
}
