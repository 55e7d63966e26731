// The REST door on loopback with everything behind it real: accounts, policy, signing, a SQLite spool. Nothing delivers,
// so that what was queued stays to be counted.

import { createSecretKey, generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Account, AccountLimits, Credential } from '../../src/accounts/account.ts';
import { createAccounts } from '../../src/accounts/accounts.ts';
import { Limits } from '../../src/accounts/limits.ts';
import { stripRules } from '../../src/accounts/strip-rules.ts';
import { hashToken } from '../../src/accounts/token-store.ts';
import type { BodyBudget } from '../../src/base/body-budget.ts';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { openSqliteFile } from '../../src/base/database/sqlite-file.ts';
import { createOutcomeWatch, type OutcomeWatch } from '../../src/doors/rest/outcome-watch.ts';
import { restDoor } from '../../src/doors/rest/rest-door.ts';
import type { RestLimits } from '../../src/doors/rest/settings.ts';
import type { SigningKey } from '../../src/pipeline/sign/sign.ts';
import { type BuildParts, build, createSubmit, examine, type Violation } from '../../src/pipeline/submit.ts';
import type { SpoolEntry } from '../../src/spool/spool.ts';
import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { openTestDatabase } from './engines.ts';
import { ask, type HttpAnswer, startHttpApp } from './http-app.ts';
import { scratchFolder } from './scratch.ts';
import { countsOf } from './spool-counts.ts';

/** The limits of the shipped configuration. */
export const shippedLimits: RestLimits = {
  messageBytes: 5_242_880,
  requestBytes: 8_388_608,
  recipients: 50,
  attachments: 32,
  subjectCharacters: 998,
};

function credential(name: string, more: Partial<Credential> = {}): [string, Credential] {
  return [name, { name, scopes: new Set(['email:send']), strip: stripRules(), trustedHop: false, ...more }];
}

function account(name: string, id: string, domains: readonly string[], limits: AccountLimits = {}): Account {
  return {
    id: id.repeat(32),
    name,
    plan: 'enterprise',
    sendingDomains: domains.map((domain) => ({
      name: domain,
      subdomains: true,
      dkim: [{ selector: 'e1', algorithm: 'ed25519' }],
    })),
    limits,
    showClientAddress: true,
    tlsRequiredNo: false,
    credentials: new Map([
      credential('default'),
      credential('cron', { defaultDomain: 'example.com' }),
      credential('reader', { scopes: new Set(['proxy:read']) }),
      credential('hop', { trustedHop: true }),
    ]),
  };
}

/** Tokens are `ACCOUNT-CREDENTIAL`. keyless.example has no DKIM key. */
const restAccounts: readonly Account[] = [
  account('dev', 'a', ['example.com', 'xn--bcher-kva.example', 'keyless.example']),
  account('slow', 'b', ['slow.example'], { messagesPerMinute: 1 }),
  account('small', 'c', ['small.example'], { recipientsPerDay: 2 }),
];

/** A running door. */
export interface RestGateway {
  readonly base: string;
  readonly port: number;
  /** Everything that was accepted, as it would leave. */
  readonly sent: readonly SpoolEntry[];
  readonly outcomes: OutcomeWatch;
  /** Messages in the spool. */
  queued(): Promise<number>;
  /** Closes the spool under the door. */
  breakSpool(): Promise<void>;
  /** Posts to an endpoint of an account: `send`, `send_raw`, `validate`. A body that is no string is written as JSON. */
  post(endpoint: string, body: unknown, options?: PostOptions): Promise<HttpAnswer>;
}

/** How a request differs from the usual one. */
export interface PostOptions {
  readonly account?: string;
  readonly credential?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What differs from the shipped settings. */
export interface RestOptions {
  readonly limits?: Partial<RestLimits>;
  readonly suppressed?: (account: Account, recipient: string) => boolean | Promise<boolean>;
  readonly clock?: Clock;
  readonly onAccepted?: (entry: SpoolEntry, outcomes: OutcomeWatch) => void;
  /** Folder of an earlier one, to start again on its data. */
  readonly folder?: string;
  /** Where request bodies find room. */
  readonly bodies?: BodyBudget;
  /** Where the pages of headers are. */
  readonly headersUrl?: string;
}

/** Starts one; it is stopped when the test ends. */
export async function startRest(options: RestOptions = {}): Promise<RestGateway> {
  const folder = options.folder ?? scratchFolder();
  const clock = options.clock ?? systemClock;
  const file = join(folder, 'postern.db');
  const database = openSqliteFile(file);
  const spool = await SqliteSpool.open({ file, bodiesFolder: join(folder, 'bodies'), clock });
  const tokens = restAccounts.flatMap(({ id, name, credentials }) =>
    [...credentials.keys()].map((key) => ({ account: id, credential: key, sha256: hashToken(`${name}-${key}`) })),
  );
  const accounts = createAccounts({ accounts: restAccounts, tokens, clock });
  const stores = await openTestDatabase(file);
  const limits = await Limits.open(stores, clock);
  const { privateKey } = generateKeyPairSync('ed25519');
  const keyOf = (domain: string): SigningKey => ({ domain, selector: 'e1', algorithm: 'ed25519', key: privateKey });
  const parts: BuildParts = {
    clock,
    hostname: 'mx.platform.example',
    platform: {
      domain: 'platform.example',
      bounceDomain: 'bounces.platform.example',
      hmacKey: createSecretKey(Buffer.from('rest-hmac-key-rest-hmac-key-rest')),
    },
    sendingDomain: (owner, domain) => accounts.sendingDomain(owner, domain),
    domainKeys: (domain) => (domain === 'keyless.example' ? [] : [keyOf(domain)]),
    platformKeys: [keyOf('platform.example')],
    wantsPlatformSignature: () => true,
  };
  const sent: SpoolEntry[] = [];
  const outcomes = createOutcomeWatch();
  const charge = async (owner: Account, recipients: number): Promise<Violation | undefined> => {
    const verdict = await limits.take(owner, recipients);
    if (verdict.allowed) return undefined;
    const { code, retryAfterSeconds } = verdict;
    return { code, message: `Try again in ${retryAfterSeconds} s`, retryAfterSeconds };
  };
  const door = restDoor({
    limits: { ...shippedLimits, ...options.limits },
    submit: createSubmit({
      ...parts,
      spool,
      expireAfterSeconds: 3600,
      charge: ({ submitter, envelope }) => charge(submitter.account, envelope.recipients.length),
      onAccepted: (entry) => {
        sent.push(entry);
        options.onAccepted?.(entry, outcomes);
      },
      onRefused: () => undefined,
    }),
    examine: (submission) => examine(submission, parts),
    preview: (submission) => build(submission, parts),
    keys: spool,
    outcomes,
    onRefused: () => undefined,
    ...(options.suppressed ? { suppressed: options.suppressed } : {}),
    headersUrl: () => options.headersUrl,
  });
  onTestFinished(async () => {
    await spool.close();
    if (database.isOpen) database.close();
  });
  const { base, port } = await startHttpApp([door], {
    ...{ accounts, clock },
    ...(options.bodies ? { bodies: options.bodies } : {}),
  });
  return {
    base,
    port,
    sent,
    outcomes,
    queued: async () => (await countsOf(spool)).queued,
    breakSpool: () => spool.close(),
    post: (endpoint, body, { account: of = 'dev', credential: by = 'default', headers = {} } = {}) =>
      ask(`${base}/client/v4/accounts/${of}/email/sending/${endpoint}`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${of}-${by}`, 'Content-Type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
  };
}

/** A message that is accepted. */
export const goodMessage = {
  from: 'Shop <shop@example.com>',
  to: 'you@example.net',
  subject: 'Hello',
  text: 'A first message.',
} as const;
