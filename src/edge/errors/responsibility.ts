// Who is responsible for an error and who has to act, in the words of the pages.

import type { EdgeCategory, EdgeError } from './edge-error.ts';

/** What an error of a category is laid to. */
const responsibleParties = {
  origin: 'The origin server of the site',
  platform: 'The platform',
  ssl: 'The TLS settings of the origin server',
  access_denied: 'The access rules of the site',
  rate_limit: 'A limit on requests',
  dns: 'The DNS records of the site',
  config: 'The configuration of the site',
  tls: 'The TLS settings of the client',
  legal: 'A legal restriction',
  worker: 'A script of the site',
  rewrite: 'A rewrite rule of the site',
  snippet: 'A snippet of the site',
  unsupported: 'The request of the client',
} as const satisfies Record<EdgeCategory, string>;

/** What the error is laid to: that of its category, but for an error of category config which the client causes (1038). */
export function responsiblePartyOf(error: EdgeError): string {
  if (error.category === 'config' && !error.ownerAction) return 'The request of the client';
  return responsibleParties[error.category];
}

/** Who has to act (D64). */
export function whoActs(error: EdgeError): string {
  if (error.ownerAction) return 'The operator of the site';
  return error.category === 'platform' ? 'The operators of the platform' : 'The client (browser or program)';
}
