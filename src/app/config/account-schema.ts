// The schema of accounts. The keys for mail, edge and proxy stand together in one list (D50, D65, D85, D93, D99).

import { scopes } from '../../accounts/account.ts';
import { Type } from '../../base/schema/schema-type.ts';
import { ruleContentTypes } from '../../edge/custom/custom-error-rules.ts';
import { stripSetNames } from '../../pipeline/policy/strip-sets.ts';
import { toldKinds } from '../../spool/events/mail-event.ts';
import * as value from './value-types.ts';

const { Optional } = Type;

/** Each name with a `*` is compared with each field of a message. */
const strippedNames = { maxItems: 500 } as const;
const kinds = [...toldKinds];

/** Names of keys; the files are certs/dkim/<domain>/<selector>.pem. Each message is signed by each of them: two pairs at most. */
export const dkimKeys = value.list(
  value.object({ selector: value.selector, algorithm: Optional(value.choice('rsa', 'ed25519')) }),
  { minItems: 1, maxItems: 4 },
);

const sendingDomain = value.object({
  name: value.domain,
  subdomains: Optional(value.boolean),
  returnPathDomain: Optional(value.domain),
  dkim: Optional(dkimKeys),
});

const scope = value.choice(...scopes);

/** `policy` of a credential or a listener (D4c). */
export const policy = value.partial({ observe: value.object({ until: value.isoDay }) });

/** `senders` and `replyTo` of a credential or a listener (D4d). */
export const senders = {
  senders: Optional(
    Type.Record(Type.String({ pattern: '^[^\\s]{1,320}$' }), value.words, {
      additionalProperties: false,
      want: 'a mapping of patterns to addresses, such as "*@box.internal": "*@example.com"',
      keyWant: 'the pattern of an address, such as "*@box.internal" or "root@*"',
    }),
  ),
  replyTo: Optional(value.choice('original')),
};

const credential = value.object(
  {
    name: value.entryName,
    scopes: Optional(value.list(scope, { minItems: 1 })),
    tokenEnv: Optional(value.variableName),
    tokenFile: Optional(value.filePath),
    tokenSha256: Optional(value.sha256Hex),
    strip: Optional(value.list(value.fieldPattern, strippedNames)),
    stripSets: Optional(value.list(value.choice(...stripSetNames), { maxItems: stripSetNames.length })),
    stripInvalid: Optional(value.list(value.fieldPattern, strippedNames)),
    stripEmpty: Optional(value.boolean),
    keepFirst: Optional(value.list(value.fieldName, strippedNames)),
    trustedHop: Optional(value.boolean),
    defaultDomain: Optional(value.domain),
    legacyCharset: Optional(value.charset),
    ...senders,
    policy: Optional(policy),
  },
  true,
);

const rule = value.object({
  // Any length is accepted here; the reader of expressions says what is wrong with one.
  expression: value.content,
  enabled: Optional(value.boolean),
  content: value.content,
  // Either spelling is accepted, so that a rule can be copied from the API and back; one of the two is required.
  contentType: Optional(value.choice(...ruleContentTypes)),
  content_type: Optional(value.choice(...ruleContentTypes)),
  statusCode: Optional(value.integer(400, 599)),
  status_code: Optional(value.integer(400, 599)),
});

/** Custom Error Rules and the Error Page, of an account or a zone (D65). */
export const customErrors = value.partial({
  rules: value.list(rule),
  errorPage: value.partial({ html: value.content, file: value.filePath }),
});

/** One webhook of an account (D54). */
const webhook = value.object(
  {
    name: value.entryName,
    url: value.url('https', 'http'),
    kinds: Optional(value.list(value.choice(...kinds), { minItems: 1, maxItems: kinds.length })),
    secretEnv: Optional(value.variableName),
    secretFile: Optional(value.filePath),
    previousSecretEnv: Optional(value.variableName),
    previousSecretFile: Optional(value.filePath),
  },
  true,
);

/** What webhooks may reach, of the API and of the file (D54). */
export const webhookSettings = value.partial({
  allowHttp: value.boolean,
  allowNetworks: value.list(value.network),
});

const virtualNetwork = value.object({
  id: value.uuid,
  name: value.words,
  routes: value.list(value.network, { maxItems: 500 }),
  sourceAddress: Optional(value.ipAddress),
});

/** One account. */
export const account = value.object({
  name: value.accountName,
  id: value.hexId,
  plan: Optional(value.choice('free', 'payg', 'enterprise')),
  email: Optional(value.words),
  sendingDomains: Optional(value.list(sendingDomain)),
  showClientAddress: Optional(value.boolean),
  tlsRequiredNo: Optional(value.boolean),
  threadRepair: Optional(value.boolean),
  reports: Optional(value.partial({ failure: value.boolean, delay: value.boolean, success: value.boolean })),
  suppress: Optional(value.partial({ hardBounces: value.boolean, complaints: value.boolean, failures: value.boolean })),
  limits: Optional(
    value.partial({
      messagesPerMinute: value.integer(1, 1_000_000_000),
      recipientsPerDay: value.integer(1, 1_000_000_000),
    }),
  ),
  redirectAll: Optional(value.address),
  allowRecipients: Optional(value.list(value.recipientPattern)),
  credentials: Optional(value.list(credential)),
  entitlements: Optional(value.list(value.choice('ftp', 'edge_ips', 'smart_routing'))),
  prefixes: Optional(value.list(value.network)),
  globalKeyEnv: Optional(value.variableName),
  virtualNetworks: Optional(value.list(virtualNetwork, { maxItems: 100 })),
  customErrors: Optional(customErrors),
  webhooks: Optional(value.list(webhook)),
});
