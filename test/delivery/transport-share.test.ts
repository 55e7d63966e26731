// What accounts may have of a transport's share: one leaves room to the others, and none counts for another.

import { expect, test } from 'vitest';
import type { Route } from '../../src/delivery/settings.ts';
import { TransportShare } from '../../src/delivery/transport-share.ts';

const route: Route = { name: 'default', type: 'capture', folder: '/nowhere', platformSignature: false };

/** The only transport's share: 10,000 messages and 50,000 recipients in hand, of them 512 messages claimed. */
function newShare() {
  const share = new TransportShare(route, { name: 'default', transports: 1, contentBytes: 1000 });
  const load = (account: string, isClaimed: boolean, recipientCount = 1) => ({
    entry: { account },
    recipientCount,
    isClaimed,
  });
  const enter = (account: string, count: number, more: { claimed?: boolean; recipients?: number } = {}): void => {
    for (let at = 0; at < count; at += 1) share.enter(load(account, more.claimed === true, more.recipients));
  };
  return { share, enter, leave: (account: string) => share.leave(load(account, true)) };
}

test.each([
  ['messages', 9000, 1],
  ['recipients', 45, 1000],
])('one account has nine tenths of the %s, and another then has room', (_, count, recipients) => {
  const { share, enter } = newShare();
  enter('greedy', count - 1, { recipients });
  expect(share.mayTake('greedy')).toBe(true);
  enter('greedy', 1, { recipients });
  expect([share.mayTake('greedy'), share.mayTake('other')]).toEqual([false, true]);
  enter('other', 1);
  expect([share.mayTake('greedy'), share.mayTake('other')]).toEqual([false, true]);
});

test('in one claim and over several, each account has so many times what is left free', () => {
  const { share, enter } = newShare();
  const room = share.claimRoom();
  expect([room('greedy', 1000), room('other', 1000), room('greedy', 1000), room('third', 2)]).toEqual([460, 46, 0, 2]);
  enter('greedy', 460, { claimed: true });
  const again = share.claimRoom();
  expect([again('greedy', 1000), again('other', 1000)]).toEqual([0, 46]);
});

test('full is who has all that it may have, and only its leaving lets more be claimed', () => {
  const { share, enter, leave } = newShare();
  enter('greedy', 460, { claimed: true });
  enter('other', 2, { claimed: true });
  expect(share.fullAccounts()).toEqual(['greedy']);
  leave('other');
  expect(share.mayHaveMore).toBe(false);
  for (let at = 0; at < 70; at += 1) leave('greedy');
  expect([share.mayHaveMore, share.fullAccounts()]).toEqual([true, []]);
});
