// What others need of a configuration: to build and to judge messages, to make rows of the journal, to compute DNS records.

import { type Accounts, createAccounts } from '../../accounts/accounts.ts';
import { type Clock, systemClock } from '../../base/clock.ts';
import { uuidv7 } from '../../base/ids.ts';
import { wayFor } from '../../delivery/router.ts';
import type { PartsOf } from '../../pipeline/report/rehearse.ts';
import type { BuildParts, SubmitParts } from '../../pipeline/submit.ts';
import type { ContentKept, EntryLink } from '../../spool/journal/journal-row.ts';
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

/** What messages are built with, and what becomes of them then. It charges nobody. */
export type Sending = Omit<SubmitParts, 'charge' | 'refund'>;

/** The facts that the DNS records of a configuration's sending domains are made from. */
export function recordFacts({ platform, smtp, delivery }: Config): RecordFacts {
  return {
    bounceDomain: platform.bounceDomain,
    mailHost: smtp.hostname,
    takesBounces: smtp.listeners.some(({ role }) => role === 'bounce'),
    senders: spfSenders(delivery.routes, smtp.hostname),
  };
}

/** How messages that were kept are judged under a configuration. */
export function judgedBy(config: Config): PartsOf {
  const accounts = createAccounts({ accounts: config.accounts, tokens: [], clock: systemClock });
  return (account, credential) => {
    const submitter = accounts.submitter(account, credential);
    if (!submitter) return undefined;
    const { messageBytes } = config.smtp.limits;
    return { submitter, messageBytes, sendingDomain: (one, domain) => accounts.sendingDomain(one, domain) };
  };
}

/** How much of each message is kept beside its row; undefined where the journal is off and there are no rows. */
export function keptContent({ enabled, ...kept }: Config['journal']): ContentKept | undefined {
  return enabled ? kept : undefined;
}

/** Makes the links of refusals to their rows; undefined where there are no rows, or nobody has said where they are looked at. */
export function entryLinkFor({ console: { publicUrl }, journal }: Config, clock: Clock): EntryLink | undefined {
  if (!journal.enabled || publicUrl === undefined) return undefined;
  return { newId: () => uuidv7(clock.now()), urlOf: (id) => `${publicUrl}/m/${id}` };
}
