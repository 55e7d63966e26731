// The defaults of absent keys (D42a, D95, D99). Where a room's settings are numbers of a section alone, theirs stand beside them.

import { scopes } from '../../accounts/account.ts';
import type { CredentialEntry, FileContents } from './schema.ts';

/** The contents with every section present. Only `development` may be absent, since its absence has a meaning (D95). */
export type CompleteContents = Required<Omit<FileContents, 'development'>> & Pick<FileContents, 'development'>;

/** Of each account; how many failed messages are kept is no setting. */
export const spoolLimits = {
  queuedMessages: 1_000_000,
  failedMessages: 10_000,
  failedBytes: 1_073_741_824,
} as const;

/** D53. The number is of each account. */
export const events = { keepDays: 30, perAccount: 1_000_000 } as const;

/** D53a. Of the messages themselves nothing is kept unless the operator says otherwise. */
export const journal = {
  enabled: true,
  content: 'none',
  keepDays: 30,
  maxOctets: 1_073_741_824,
  maxBodyOctets: 262_144,
} as const;

/** D42a. How many are made about a message, and what RET=FULL returns whole, are no settings: more tells a reader nothing. */
export const reports = {
  perMessage: 10,
  perAddressPerDay: 1000,
  gatherSeconds: 30,
  delaySeconds: 14_400,
  returnBytes: 262_144,
} as const;

/** Reports to all addresses of an account in a day, for each that one address may get (D42a). */
export const reportsPerAddressReport = 10;

/** Of each account (D51). */
export const suppress = { hardBounces: true, complaints: true, failures: true } as const;

/** Connections that a route has open at once to one next hop. */
export const connections = 10;

/** RFC 5321 §4.5.4.2. */
export const mxPort = 25;

/** D54. */
export const webhooks = { allowHttp: false, allowNetworks: [] };

/** D84, D86. In development an offset is added to ports, because ports such as tcp/22 are privileged. */
export function proxy(isDevelopment: boolean): Required<NonNullable<FileContents['proxy']>> {
  return {
    ipv4Pool: '127.64.0.0/16',
    portOffset: isDevelopment ? 20_000 : 0,
    servedAddresses: ['0.0.0.0/0', '::/0'],
    originDeny: ['0.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '::/128', 'fe80::/10', 'ff00::/8'],
    originAllow: [],
    limits: {},
  };
}

/** D67, D95. */
export const http = {
  listen: '127.0.0.1:8080',
  tlsListen: '127.0.0.1:8443',
  apiHosts: ['127.0.0.1', 'localhost'],
  limits: { connections: 10_000, connectionsPerAddress: 500 },
} as const;

/** The key that authenticates the tokens in reverse-paths, below certsDir as every other key is, so its name is no setting (D26). */
export const hmacKeyFile = 'hmac.key';

/** D40a. */
export const platform = {
  domain: 'platform.example',
  bounceDomain: 'bounces.platform.example',
  dkim: [{ selector: 'p1', algorithm: 'rsa' }],
} as const;

/** The DKIM keys of a sending domain that names none. */
export const domainKeys = [{ selector: 's1', algorithm: 'rsa' }] as const;

/** D95. */
export const development = { account: 'dev', credential: 'default' } as const;

const listeners = [
  { name: 'submission', listen: '127.0.0.1:2587', tls: 'starttls' },
  { name: 'submissions', listen: '127.0.0.1:2465', tls: 'implicit' },
] as const;

const developmentCredential: CredentialEntry = {
  name: development.credential,
  tokenEnv: 'POSTERN_TOKEN',
  scopes: [...scopes],
};

const accounts: NonNullable<FileContents['accounts']> = [
  {
    name: development.account,
    id: 'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1',
    sendingDomains: [{ name: 'example.com' }, { name: 'example.net' }, { name: 'example.org' }],
    credentials: [developmentCredential],
  },
];

/** The credentials of an account that lists none: one that may send, or, for the development account, do everything. */
function defaultCredentials(
  account: Pick<NonNullable<FileContents['accounts']>[number], 'name' | 'id'>,
  setup: FileContents['development'],
): CredentialEntry[] {
  const name = setup?.account ?? development.account;
  if (setup === undefined || (account.name !== name && account.id !== name)) return [{ name: 'default' }];
  return [{ ...developmentCredential, name: setup.credential ?? development.credential }];
}

/** A section's settings: what the file says, over the defaults. A key that the settings have not does not compile. */
export function filledIn<Settings extends object, Given extends { readonly [Key in keyof Settings]?: Settings[Key] }>(
  defaults: Settings,
  given: Given & Readonly<Record<Exclude<keyof Given, keyof Settings>, never>>,
): Settings {
  return { ...defaults, ...given };
}

/** Fills in the sections and entries that the file leaves out. The numbers inside are filled in slice by slice. */
export function complete(given: FileContents): CompleteContents {
  // Where accounts are listed but none has a sending domain, only edge and proxy are used, and no mail listener is needed.
  const sendsMail = given.accounts?.some(({ sendingDomains = [] }) => sendingDomains.length > 0) ?? true;
  return {
    dataDir: './data',
    certsDir: './certs',
    database: { url: 'sqlite:postern.db' },
    drainSeconds: 30,
    processes: 1,
    ...{ log: {}, limits: {}, bounces: {}, rest: {}, spool: {}, events: {}, journal: {}, webhooks: {}, http: {} },
    ...{ console: {}, edge: {}, proxy: {}, delivery: {}, reports: {}, tlsReports: {} },
    zones: [],
    routes: [{ name: 'default', type: 'capture' }],
    ...given,
    platform: { ...platform, dkim: [...platform.dkim], ...given.platform },
    smtp: { hostname: 'mx.platform.example', listeners: sendsMail ? [...listeners] : [], ...given.smtp },
    accounts: (given.accounts ?? accounts).map((account) => ({
      ...account,
      credentials: account.credentials ?? defaultCredentials(account, given.development),
    })),
  };
}
