// What all endpoints of webhooks share: path, scope, and the answer where there is no such webhook (D54).

import { Refusal } from '../../http/envelope.ts';

/** Path, scopes for reading and for changes, and group. */
export const webhookRoute = {
  path: '/accounts/:account_id/email/sending/webhooks',
  reads: { scope: ['email:webhooks', 'console:read'] },
  edits: { scope: ['email:webhooks', 'console:edit'] },
  tags: ['Webhooks'],
} as const;

/** The answer where nothing of the account's has this id. */
export function noWebhook(): Refusal {
  return new Refusal([{ token: 'E_NOT_FOUND', message: 'The account has no such webhook' }]);
}
