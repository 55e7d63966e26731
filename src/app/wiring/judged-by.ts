// How messages that were kept are judged under another configuration.

import { createAccounts } from '../../accounts/create-accounts.ts';
import { systemClock } from '../../base/clock.ts';
import type { PartsOf } from '../../pipeline/report/would-pass.ts';
import type { Config } from '../config/config.ts';

/** How messages are judged under a configuration. */
export function judgedBy(config: Config): PartsOf {
  const accounts = createAccounts({ accounts: config.accounts, tokens: [], clock: systemClock });
  return (account, credential) => {
    const submitter = accounts.submitter(account, credential);
    if (!submitter) return undefined;
    const { messageBytes } = config.smtp.limits;
    return { submitter, messageBytes, sendingDomain: (one, domain) => accounts.sendingDomain(one, domain) };
  };
}
