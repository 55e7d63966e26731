// Builds every part, joins them, listens, drains, stops: the only file that knows them all.

import { join } from 'node:path';
import type { Accounts } from './accounts/accounts.ts';
import { createAccounts } from './accounts/create-accounts.ts';
import { type Clock, systemClock } from './base/clock.ts';
import { type DatabaseSync, openDatabase } from './base/database.ts';
import type { Logger } from './base/log.ts';
import type { Keys } from './config/keys.ts';
import type { Config } from './config.ts';
import { createDelivery, type Delivery } from './deliver/delivery.ts';
import { routeFor } from './deliver/router.ts';
import { createHealthServer } from './http/health-server.ts';
import { createMetrics } from './http/metrics.ts';
import { createSmtpDoor, type SmtpDoor } from './ingress/smtp/smtp-door.ts';
import type { Spool } from './spool/spool.ts';
import { openSqliteSpool } from './spool/sqlite-spool.ts';
import { type BuildParts, createSubmit } from './submit.ts';

/** A bound address. */
export interface Listening {
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

/** A running gateway. */
export interface Gateway {
  /** Every listener that is up, SMTP and HTTP. */
  readonly listening: readonly Listening[];
  /**
   * Stops accepting, lets DATA in flight finish, commits and records, closes (D97). Resolves within the drain time
   * and a second.
   */
  stop(): Promise<void>;
}

/** What the gateway is made from. */
export interface GatewayParts {
  readonly config: Config;
  readonly keys: Keys;
  readonly log: Logger;
  readonly clock?: Clock;
}

/** Opens the accounts over their own connection to the embedded database. */
export function openAccounts(config: Config, clock: Clock = systemClock): { readonly accounts: Accounts; readonly database: DatabaseSync } {
  const database = openDatabase(config.databaseFile);
  return { accounts: createAccounts({ accounts: config.accounts, database, clock }), database };
}

/** Opens the spool of the embedded database. */
export function openSpool(config: Config): Promise<Spool> {
  return openSqliteSpool({ file: config.databaseFile, bodiesFolder: join(config.dataDir, 'bodies') });
}

/** What building a message needs, from configuration, keys and accounts; `postern check` uses the same. */
export function buildParts(config: Config, keys: Keys, accounts: Accounts, clock: Clock): BuildParts {
  return {
    clock,
    hostname: config.smtp.hostname,
    platform: { domain: config.platform.domain, bounceDomain: config.platform.bounceDomain, hmacKey: keys.hmacKey },
    sendingDomain: (account, domain) => accounts.sendingDomain(account, domain),
    domainKeys: (domain) => keys.domains.get(domain) ?? [],
    platformKeys: keys.platform,
    wantsPlatformSignature: (account, recipients) =>
      recipients.some((recipient) => routeFor(config.delivery.routes, { account, recipient }).platformSignature),
  };
}

/** Opens everything and listens. What was opened is closed again when a part fails. */
export async function openGateway(parts: GatewayParts): Promise<Gateway> {
  const { config, keys, log } = parts;
  const clock = parts.clock ?? systemClock;
  const { accounts, database } = openAccounts(config, clock);
  const spool = await openSpool(config);
  const delivery = createDelivery({ spool, settings: config.delivery, clock, log });
  let ready = false;
  const metrics = createMetrics([
    { name: 'postern_spool_queued', help: 'Messages in the spool with a recipient still queued', read: async () => (await spool.counts()).queued },
    { name: 'postern_spool_failed', help: 'Messages kept as failed', read: async () => (await spool.counts()).failed },
    { name: 'postern_smtp_sessions', help: 'Open SMTP sessions', read: () => door.openSessions() },
  ]);
  const submit = createSubmit({
    ...buildParts(config, keys, accounts, clock),
    spool,
    expireAfterSeconds: config.delivery.retry.expireAfterSeconds,
    onAccepted: (entry, submission, stripped) => {
      metrics.accepted({ recipients: entry.recipients.length, bytes: entry.head.length + entry.body.length });
      log.info(
        {
          session: entry.sessionId,
          id: entry.id,
          messageId: entry.messageId,
          ...(entry.clientMessageId === undefined ? {} : { clientMessageId: entry.clientMessageId }),
          account: entry.account,
          credential: entry.credential,
          via: submission.via.kind,
          client: submission.via.remoteAddress,
          from: entry.senderPath,
          recipients: entry.recipients.length,
          size: submission.size,
          ...(stripped.length > 0 ? { stripped } : {}),
        },
        'accepted',
      );
      delivery.deliverNow(entry);
    },
  });
  const door: SmtpDoor = createSmtpDoor({ settings: config.smtp, accounts, submit, log, clock, tls: (host) => keys.tls(host) });
  const health = createHealthServer({ ready: () => ready, metrics: metrics.render, log });
  const close = async (): Promise<void> => {
    await spool.close();
    database.close();
  };
  try {
    await delivery.start();
    const smtp = await door.listen();
    const http = await health.listen(config.http);
    ready = true;
    return {
      listening: [...smtp, { name: 'http', ...http }],
      stop: async () => {
        ready = false;
        const deadline = clock.now() + config.drainSeconds * 1000;
        await door.drain(deadline);
        await delivery.drain(deadline);
        await health.close();
        await close();
      },
    };
  } catch (error) {
    await door.drain(clock.now());
    await delivery.drain(clock.now());
    await close();
    throw error;
  }
}
