// The parts of a configuration that building a message and computing DNS records need.

import type { Accounts } from '../accounts/accounts.ts';
import { type RecordFacts, spfSenders } from '../admin/domain-records.ts';
import type { Clock } from '../base/clock.ts';
import type { Keys } from '../bootstrap.ts';
import type { Config } from '../config.ts';
import { wayFor } from '../deliver/router.ts';
import type { BuildParts } from '../submit.ts';

/** What building a message needs of configuration, keys and accounts. `postern check` builds its messages with it, too. */
export function buildParts(config: Config, keys: Keys, accounts: Accounts, clock: Clock): BuildParts {
  return {
    clock,
    hostname: config.smtp.hostname,
    platform: { domain: config.platform.domain, bounceDomain: config.platform.bounceDomain, hmacKey: keys.hmacKey },
    sendingDomain: (account, domain) => accounts.sendingDomain(account, domain),
    domainKeys: (domain) => keys.signing.get(domain) ?? [],
    platformKeys: keys.platform,
    wantsPlatformSignature: (account, recipients) =>
      recipients.some((recipient) => wayFor(config.delivery, { account, recipient }).route.platformSignature),
  };
}

/** The facts that the DNS records of a configuration's sending domains are made from. */
export function recordFacts({ platform, smtp, delivery }: Config): RecordFacts {
  return {
    bounceDomain: platform.bounceDomain,
    mailHost: smtp.hostname,
    takesBounces: smtp.listeners.some(({ role }) => role === 'bounce'),
    senders: spfSenders(delivery.routes, smtp.hostname),
  };
}
