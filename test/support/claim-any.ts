// Claims what is due, whichever line it waits in.

import type { ClaimQuery, DueMessage, Spool } from '../../src/spool/spool.ts';

type AnyQuery = Omit<ClaimQuery, 'transport' | 'account'> & Partial<Pick<ClaimQuery, 'transport' | 'account'>>;

/** Claims of each account in turn. Without a transport, recipients that have none are given one first, and claimed then. */
export async function claimAny(
  spool: Pick<Spool, 'giveTransports' | 'turns' | 'claimDue'>,
  { transport = 'any', account, ...query }: AnyQuery,
): Promise<readonly DueMessage[]> {
  const { now, limit } = query;
  if (transport === 'any')
    await spool.giveTransports({ now, limit: 100_000, transports: ['any'], transportOf: () => 'any' });
  const stem = transport.split('/')[0] ?? '';
  const turns =
    account === undefined ? await spool.turns({ transport: stem, now, limit: 1000 }) : [{ transport, account }];
  const claimed: DueMessage[] = [];
  for (const turn of turns) {
    if (turn.transport !== transport || claimed.length >= limit) continue;
    claimed.push(...(await spool.claimDue({ ...query, ...turn, limit: limit - claimed.length })));
  }
  return claimed;
}
