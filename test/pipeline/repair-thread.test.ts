// Whose threads are repaired (D23): those of accounts that ask for it, by the ids of the account itself.

import { expect, test } from 'vitest';
import { repairThread } from '../../src/pipeline/submit.ts';
import { checkedOf, submissionOf } from '../support/checked.ts';
import { clockOf } from '../support/manual-clock.ts';
import { MemorySpool } from '../support/memory-spool/memory-spool.ts';
import { someTime, spoolEntry } from '../support/spool-entry.ts';

test('ids that were kept while an account asked for repair are not used once it asks no more, nor by another account', async () => {
  const spool = new MemorySpool(clockOf(() => someTime));
  const entry = spoolEntry({ clientMessageId: '<first@client.example>', keepsClientId: true });
  await spool.add(entry, someTime);
  const find = (account: string, ids: readonly string[]) => spool.replacedIds(account, ids);
  const cited = async (account: object): Promise<string | undefined> => {
    const raw = 'From: a@example.com\nIn-Reply-To: <first@client.example>\n\nHi\n';
    const checked = checkedOf(submissionOf(raw, { account }));
    return (await repairThread(checked, find)).custom.find(({ name }) => name === 'In-Reply-To')?.text;
  };
  expect(await cited({ threadRepair: true })).toBe(entry.messageId);
  for (const account of [{}, { threadRepair: false }, { threadRepair: true, name: 'other' }])
    expect([account, await cited(account)]).toEqual([account, '<first@client.example>']);
});
