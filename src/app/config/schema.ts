// The schema of the whole configuration file: one for mail, edge and proxy; every top-level key may be absent (D99).

import type { Static } from 'typebox';
import { Type } from '../../base/schema/schema-type.ts';
import { account, dkimKeys, policy, senders, webhookSettings } from './account-schema.ts';
import { consolePages, edge, http, proxy, zone } from './edge-schema.ts';
import * as value from './value-types.ts';

const { Optional } = Type;

const platform = value.partial({ domain: value.domain, bounceDomain: value.domain, dkim: dkimKeys });

const smtpListener = value.object({
  name: value.entryName,
  role: Optional(value.choice('submission', 'bounce')),
  listen: value.listen,
  tls: value.choice('starttls', 'implicit', 'none'),
  allowInsecureAuth: Optional(value.boolean),
  trustedHop: Optional(value.boolean),
  lineEndings: Optional(value.choice('fix', 'reject')),
  legacyCharset: Optional(value.charset),
  proxyProtocolFrom: Optional(value.list(value.network)),
  credential: Optional(value.credentialReference),
  allowFrom: Optional(value.list(value.network)),
  ...senders,
  policy: Optional(policy),
  shadow: Optional(value.boolean),
  enabled: Optional(value.boolean),
});

const count = value.integer(1, 1_000_000);

const smtp = value.partial({
  hostname: value.domain,
  listeners: value.list(smtpListener),
  limits: value.partial({
    messageBytes: value.octets,
    // RFC 5321 §4.5.3.1.8: at least 100 recipients must be taken.
    recipients: value.integer(100, 1_000_000),
    connections: count,
    connectionsPerAddress: count,
    authFailures: value.integer(1, 100),
    authSeconds: value.seconds,
    commandSeconds: value.seconds,
    dataIdleSeconds: value.seconds,
    dataOctetsPerSecond: value.integer(0, 1_000_000),
    idleSeconds: value.seconds,
  }),
});

/** `bounces`: limits of the bounce listeners (D40a). */
const bounces = value.partial({
  tokenDays: value.integer(1, 365, 'days'),
  messagesPerMinute: value.integer(1, 1_000_000),
});

const rest = value.partial({
  limits: value.partial({
    messageBytes: value.octets,
    recipients: value.integer(1, 1_000_000),
    attachments: value.integer(0, 10_000),
    subjectCharacters: value.integer(1, 100_000),
  }),
});

const tlsMode = value.choice('none', 'opportunistic', 'required', 'implicit');

/** How a route uses TLS: a word, or a mapping where there is more to say. */
const routeTls = Type.Union([tlsMode, value.partial({ mode: tlsMode, verify: value.boolean, ca: value.filePath })], {
  want: 'one of none, opportunistic, required, implicit, or a mapping of mode, verify and ca',
});

const auth = value.object(
  {
    user: value.words,
    passwordEnv: Optional(value.variableName),
    passwordFile: Optional(value.filePath),
  },
  true,
);

const smarthostUrl = Type.Union(
  [
    value.url('smtp', 'smtps'),
    value.object({
      url: value.url('smtp', 'smtps'),
      priority: Optional(value.integer(0, 65_535)),
      tls: Optional(routeTls),
      auth: Optional(auth),
    }),
  ],
  { want: 'a URL of smtp:// or smtps://, or a mapping of url, priority, tls and auth' },
);

const localAddress = Type.Union(
  [value.ipAddress, value.object({ address: value.ipAddress, hostname: Optional(value.domain) })],
  { want: 'an IP address, or a mapping of address and hostname' },
);

const domainTls = Type.Union(
  [
    value.choice('none', 'opportunistic', 'required'),
    value.object({ mode: value.choice('none', 'opportunistic', 'required'), verify: Optional(value.boolean) }),
  ],
  { want: 'one of none, opportunistic, required, or a mapping of mode and verify' },
);

/** TLS by recipient domain; the names are checked afterwards. */
const tlsByDomain = Type.Record(Type.String({ pattern: '^[^\\s]{1,253}$' }), domainTls, {
  additionalProperties: false,
  want: 'a mapping of domains to what is asked of their TLS',
});

/** The limits of one next hop, which a recipient domain may have of its own. */
const hopLimits = {
  connections: Optional(value.integer(1, 10_000)),
  messagesPerConnection: Optional(count),
  messagesPerSecond: Optional(value.number(0.001, 100_000)),
};

/** One entry of `routes`; which keys go with which type is checked afterwards, so that an error can say so. */
const route = value.object({
  name: value.entryName,
  type: value.choice('smarthost', 'capture', 'mx'),
  match: Optional(
    value.partial({
      accounts: value.list(value.accountReference, { minItems: 1 }),
      recipientDomains: value.list(value.domain, { minItems: 1 }),
    }),
  ),
  platformSignature: Optional(value.boolean),
  url: Optional(value.url('smtp', 'smtps')),
  urls: Optional(value.list(smarthostUrl, { minItems: 1 })),
  tls: Optional(routeTls),
  tlsByDomain: Optional(tlsByDomain),
  mtaSts: Optional(value.boolean),
  port: Optional(value.integer(1, 65_535)),
  localAddress: Optional(value.list(localAddress, { minItems: 1 })),
  allowPrivate: Optional(
    Type.Union([value.boolean, value.list(value.network)], { want: 'true, false, or a list of networks' }),
  ),
  auth: Optional(auth),
  ...hopLimits,
  backoffSeconds: Optional(value.integer(1, 86_400, 'seconds')),
  folder: Optional(value.filePath),
  redirectAll: Optional(value.address),
  allowRecipients: Optional(value.list(value.recipientPattern)),
});

const room = value.integer(0, 2 ** 50, 'octets');
const heldMessages = value.integer(1, 1_000_000_000);

const spool = value.partial({
  minFreeBytes: room,
  account: value.partial({ queuedMessages: heldMessages, queuedBytes: room, failedBytes: room }),
});

/** `reports`: those to senders about their mail (RFC 3464). */
const reports = value.partial({
  perAddressPerDay: value.integer(0, 1_000_000),
  gatherSeconds: value.integer(0, 86_400, 'seconds'),
  delaySeconds: value.seconds,
});

const events = value.partial({ keepDays: value.integer(1, 3650, 'days'), perAccount: heldMessages });

/** `journal`: what is kept of each message for the console. */
const journal = value.partial({
  enabled: value.boolean,
  content: value.choice('none', 'headers', 'full'),
  keepDays: value.integer(1, 3650, 'days'),
  maxOctets: value.integer(0, 1_099_511_627_776, 'octets'),
  maxBodyOctets: value.integer(0, 33_554_432, 'octets'),
});

/** `tlsReports`: those to recipients' domains about their TLS (RFC 8460). */
const tlsReports = value.partial({ enabled: value.boolean, allowPrivate: value.list(value.network) });

const delivery = value.partial({
  resolver: value.partial({ servers: value.list(value.nameServer, { minItems: 1 }), validates: value.boolean }),
  connections: value.integer(1, 60_000),
  destinations: value.list(value.object({ domains: value.list(value.domain, { minItems: 1 }), ...hopLimits }, true)),
  retry: value.partial({
    firstDelaySeconds: value.seconds,
    maxDelaySeconds: value.seconds,
    expireAfterSeconds: value.integer(1, 2_592_000, 'seconds'),
  }),
});

/** The whole file. */
export const schema = value.partial({
  dataDir: value.filePath,
  certsDir: value.filePath,
  database: value.object(
    {
      url: value.words,
      passwordEnv: Optional(value.variableName),
      passwordFile: Optional(value.filePath),
      takeOverSeconds: Optional(value.integer(5, 600, 'seconds')),
      shareLimits: Optional(value.boolean),
    },
    true,
  ),
  log: value.partial({ level: value.choice('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent') }),
  processes: value.processes,
  drainSeconds: value.integer(0, 3600, 'seconds'),
  development: value.partial({ account: value.accountReference, credential: value.entryName }),
  platform,
  limits: value.partial({ bodiesInFlightBytes: value.memory }),
  smtp,
  bounces,
  rest,
  spool,
  events,
  journal,
  webhooks: webhookSettings,
  http,
  console: consolePages,
  edge,
  proxy,
  routes: value.list(route, { minItems: 1 }),
  delivery,
  reports,
  tlsReports,
  accounts: value.list(account),
  zones: value.list(zone),
});

/** What the file may say. */
export type FileContents = Static<typeof schema>;
/** The name of a top-level key. */
export type Section = keyof FileContents;
/** One entry of `accounts` as written. */
export type AccountEntry = NonNullable<FileContents['accounts']>[number];
/** One entry of `zones` as written. */
export type ZoneEntry = NonNullable<FileContents['zones']>[number];
/** One entry of `routes` as written. */
export type RouteEntry = NonNullable<FileContents['routes']>[number];
/** One entry of `smtp.listeners` as written. */
export type ListenerEntry = NonNullable<NonNullable<FileContents['smtp']>['listeners']>[number];
/** One entry of an account's `credentials` as written. */
export type CredentialEntry = NonNullable<AccountEntry['credentials']>[number];
