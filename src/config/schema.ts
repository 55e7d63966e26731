// The schema of the whole configuration file: one for mail, edge and proxy; every top-level key may be absent (D99).

import type { Static } from 'typebox';
import { Type } from '../base/schema/schema-type.ts';
import { account, webhookSettings } from './account-schema.ts';
import { consolePages, edge, http, proxy, zone } from './edge-schema.ts';
import {
  bounces,
  delivery,
  events,
  journal,
  platform,
  reports,
  rest,
  route,
  smtp,
  spool,
  tlsReports,
} from './mail-schema.ts';
import * as value from './value-types.ts';

const { Optional } = Type;

/** The whole file. */
export const schema = value.object({
  dataDir: Optional(value.filePath),
  certsDir: Optional(value.filePath),
  database: Optional(
    value.object(
      {
        url: value.words,
        passwordEnv: Optional(value.variableName),
        passwordFile: Optional(value.filePath),
        takeOverSeconds: Optional(value.integer(5, 600, 'seconds')),
        shareLimits: Optional(value.boolean),
      },
      true,
    ),
  ),
  log: Optional(
    value.object({ level: Optional(value.choice('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent')) }),
  ),
  processes: Optional(value.processes),
  drainSeconds: Optional(value.integer(0, 3600, 'seconds')),
  development: Optional(
    value.object({ account: Optional(value.accountReference), credential: Optional(value.entryName) }),
  ),
  platform: Optional(platform),
  limits: Optional(value.object({ bodiesInFlightBytes: Optional(value.memory) })),
  smtp: Optional(smtp),
  bounces: Optional(bounces),
  rest: Optional(rest),
  spool: Optional(spool),
  events: Optional(events),
  journal: Optional(journal),
  webhooks: Optional(webhookSettings),
  http: Optional(http),
  console: Optional(consolePages),
  edge: Optional(edge),
  proxy: Optional(proxy),
  routes: Optional(value.list(route, { minItems: 1 })),
  delivery: Optional(delivery),
  reports: Optional(reports),
  tlsReports: Optional(tlsReports),
  accounts: Optional(value.list(account)),
  zones: Optional(value.list(zone)),
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
