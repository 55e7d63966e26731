// Changes of an account that wait for one another: what let the caller in must still hold once the change's turn comes.

import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createAccounts } from '../../../src/accounts/accounts.ts';
import { openTokenStore } from '../../../src/accounts/token-store.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { createRestingQueues, type KeyedQueues } from '../../../src/base/keyed-queues.ts';
import { endpoint, endpointsOf } from '../../../src/web/http/endpoint.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { ask, httpAccounts, startHttpApp } from '../../support/http-app.ts';
import { scratchFolder } from '../../support/scratch.ts';

test('of changes that wait, those of a token that was revoked meanwhile are refused, and those of others made', async () => {
  const store = await openTokenStore(await openTestDatabase(join(scratchFolder(), 'postern.db')));
  const [{ id: account } = { id: '' }] = httpAccounts;
  const newToken = () => store.create({ account, credential: 'default', label: '', createdAt: systemClock.now() });
  const [lost, kept] = [await newToken(), await newToken()];
  const gate = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const made: (string | undefined)[] = [];
  const change = endpoint({
    at: 'POST',
    operationId: 'change',
    summary: 'Change',
    async answer({ request }) {
      begun.resolve();
      await gate.promise;
      made.push(request.headers.authorization?.slice(-4));
      return null;
    },
  });
  const queued = createRestingQueues(systemClock, 0);
  let asked = 0;
  const pace: KeyedQueues = (key, work) => {
    asked += 1;
    return queued(key, work);
  };
  const place = { path: '/accounts/:account_id/things', tag: 'Things', reads: 'email:suppressions', pace } as const;
  const accounts = createAccounts({ accounts: httpAccounts, tokens: [], store, clock: systemClock });
  const { base } = await startHttpApp([endpointsOf(place, undefined, [change])], { accounts });
  const call = ({ token }: { readonly token: string }) =>
    ask(`${base}/client/v4/accounts/dev/things`, { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  const first = call(kept);
  await begun.promise;
  const waiting = [call(lost), call(kept), call(lost)];
  await expect.poll(() => asked).toBe(4);
  await store.revoke({ id: lost.record.id, account, now: systemClock.now() });
  gate.resolve();
  expect((await first).status).toBe(200);
  const answers = await Promise.all(waiting);
  expect(answers.map(({ status, json }) => [status, json.errors[0]?.message])).toEqual([
    [401, 'E_UNAUTHORIZED: The token is unknown, expired or revoked'],
    [200, undefined],
    [401, 'E_UNAUTHORIZED: The token is unknown, expired or revoked'],
  ]);
  expect(made).toEqual([kept.record.lastFour, kept.record.lastFour]);
});
