// The parts of a configuration that building a message and computing DNS records need.

import type { Accounts } from '../../accounts/accounts.ts';
import type { Clock } from '../../base/clock.ts';
import { wayFor } from '../../delivery/router.ts';
import type { BuildParts } from '../../pipeline/submit.ts';
import { type RecordFacts, spfSenders } from '../../web/admin/domain-records.ts';
import type { Keys } from '../bootstrap/bootstrap.ts';
import type { Config } from '../config/config.ts';

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
