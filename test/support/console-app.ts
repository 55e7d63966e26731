// The API with its console on loopback: accounts and tokens in a real store, pages from a folder, a clock that tests turn.

import { join } from 'node:path';
import type { Account, Credential, Scope } from '../../src/accounts/account.ts';
import { createAccounts } from '../../src/accounts/accounts.ts';
import { Guessing } from '../../src/accounts/guessing.ts';
import { stripRules } from '../../src/accounts/strip-rules.ts';
import { hashToken, openTokenStore, type TokenStore } from '../../src/accounts/token-store.ts';
import { BodyBudget } from '../../src/base/body-budget.ts';
import type { Clock } from '../../src/base/clock.ts';
import type { Database } from '../../src/base/database/database.ts';
import { type Logger, silentLog } from '../../src/base/log.ts';
import { openConsole, type SessionSettings } from '../../src/web/console/console.ts';
import { openSessionStore, type SessionStore } from '../../src/web/console/session-store.ts';
import type { HttpAppParts } from '../../src/web/http/app.ts';
import type { V4Plugin } from '../../src/web/http/v4-app.ts';
import { openTestDatabase } from './engines.ts';
import { ask, type HttpAnswer, startHttpApp } from './http-app.ts';
import { scratchFolder } from './scratch.ts';

function account(name: string, id: string, credentials: Readonly<Record<string, readonly Scope[]>>): Account {
  const each = Object.entries(credentials).map(([key, scopes]): [string, Credential] => [
    key,
    { name: key, scopes: new Set(scopes), strip: stripRules(), trustedHop: false },
  ]);
  return {
    id,
    name,
    plan: 'enterprise',
    sendingDomains: [{ name: `${name}.example`, subdomains: true, dkim: [{ selector: 's1', algorithm: 'rsa' }] }],
    limits: {},
    showClientAddress: true,
    tlsRequiredNo: false,
    credentials: new Map(each),
  };
}

const credentials = {
  reader: ['console:read'],
  editor: ['console:edit'],
  boss: ['admin'],
  sender: ['email:send'],
} as const satisfies Readonly<Record<string, readonly Scope[]>>;

/** The accounts `dev` and `other`; tokens of the configuration are `ACCOUNT-CREDENTIAL`. */
export const consoleAccounts: readonly Account[] = [
  account('dev', 'a1'.repeat(16), credentials),
  account('other', 'b2'.repeat(16), credentials),
];

/** What differs from the usual. */
export interface ConsoleAppOptions {
  readonly settings?: Omit<SessionSettings, 'accounts'>;
  readonly plugins?: readonly V4Plugin[];
  readonly more?: Partial<HttpAppParts>;
  readonly guessing?: Guessing;
  readonly log?: Logger;
  readonly database?: Database;
}

/** What a page asks with. */
export type PageRequest = Omit<RequestInit, 'headers'> & { readonly headers?: Readonly<Record<string, string>> };

/** A running API with a console. */
export interface ConsoleApp {
  readonly base: string;
  readonly port: number;
  readonly tokens: TokenStore;
  readonly store: SessionStore;
  readonly database: Database;
  /** Moves the clock. */
  pass(ms: number): void;
  readonly clock: Clock;
  /** Asks as a page of the console does: with its header and its origin. */
  ask(path: string, init?: PageRequest): Promise<HttpAnswer>;
  /** Signs in. @returns the cookie, `name=value` */
  signIn(token: string): Promise<string>;
}

/** The cookie that an answer sets, as a browser sends it back. */
export function cookieOf({ headers }: HttpAnswer): string {
  return headers.getSetCookie()[0]?.split(';')[0] ?? '';
}

/** Starts one; it is stopped when the test ends. */
export async function startConsole(options: ConsoleAppOptions = {}): Promise<ConsoleApp> {
  const database = options.database ?? (await openTestDatabase(join(scratchFolder(), 'postern.db')));
  let passed = 0;
  const clock: Clock = { now: () => Date.UTC(2026, 10, 22) + passed, monotonic: () => passed };
  const tokens = await openTokenStore(database);
  const fixed = consoleAccounts.flatMap(({ id, name, credentials: own }) =>
    [...own.keys()].map((key) => ({ account: id, credential: key, sha256: hashToken(`${name}-${key}`) })),
  );
  const accounts = createAccounts({ accounts: consoleAccounts, tokens: fixed, store: tokens, clock });
  const { guessing = new Guessing({}), log = silentLog } = options;
  const bodies = new BodyBudget(1_000_000);
  const shared = { accounts, guessing, bodies, clock, log };
  const pages = await openConsole({ ...shared, database, isServing: () => true, isServed: () => true });
  const { base, port } = await startHttpApp(options.plugins ?? [], {
    ...shared,
    ...pages.under({ accounts: consoleAccounts, ...options.settings }),
    ...options.more,
  });
  const asPage: ConsoleApp['ask'] = (path, init = {}) =>
    ask(`${base}${path}`, {
      redirect: 'manual',
      ...init,
      headers: { 'X-Postern-Console': '1', Origin: base, ...init.headers },
    });
  return {
    base,
    port,
    tokens,
    database,
    clock,
    store: await openSessionStore(database),
    pass: (ms) => void (passed += ms),
    ask: asPage,
    async signIn(token) {
      const headers = { 'Content-Type': 'application/json' };
      const answer = await asPage('/console/session', { method: 'POST', headers, body: JSON.stringify({ token }) });
      if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`);
      return cookieOf(answer);
    },
  };
}
