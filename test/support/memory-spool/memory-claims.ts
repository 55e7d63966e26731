// Claims on messages of the spool in memory.

import { type Holds } from '../../../src/spool/hold.ts';
import type { ClaimQuery, DueMessage } from '../../../src/spool/spool.ts';
import { earliestOf, type Held, type HeldRecipient, holdOf, isDue, kept } from './memory-messages.ts';

function wasTried({ recipients }: Held): boolean {
  return recipients.some(({ attempts }) => attempts > 0);
}

/** Of the messages of a claim, the share of those that were deferred before, where both wait: one in so many. */
const deferredShare = 4;

/** The messages of a claim. @param singles single claims so far: every fourth is for a deferred message */
function withShare(due: readonly Held[], limit: number, singles: number): readonly Held[] {
  const [again, fresh] = [due.filter(wasTried), due.filter((held) => !wasTried(held))];
  const share = limit === 1 && singles % deferredShare === 0 ? 1 : Math.floor(limit / deferredShare);
  const room = Math.max(share, limit - fresh.length);
  const chosen = again.slice(0, room);
  return [...fresh.slice(0, limit - chosen.length), ...chosen];
}

/** Claims what is wanted of a message's recipients. */
function claim(held: Held, claimUntil: number, isWanted: (recipient: HeldRecipient) => boolean): DueMessage {
  const due: { address: string; attempts: number }[] = [];
  for (const [index, recipient] of held.recipients.entries()) {
    if (!isWanted(recipient)) continue;
    held.recipients[index] = { ...recipient, claimedUntil: claimUntil };
    due.push({ address: recipient.address, attempts: recipient.attempts });
  }
  const { head, body, transports: _, received: _received, ...entry } = held.entry;
  const recipients = held.recipients.map((recipient) => recipient.address);
  return { entry: { ...kept(entry), recipients }, size: head.length + body.length, due };
}

/** Claims due recipients, as `Spool.claimDue`. @param singles claims of a single message so far, this one included */
export function claimed(
  messages: Iterable<Held>,
  query: ClaimQuery,
  { holds, singles }: { readonly holds: Holds; readonly singles: number },
): readonly DueMessage[] {
  const { transport, account, now, limit, claimUntil, expiredOnly } = query;
  const isWanted = (held: Held) => (recipient: HeldRecipient) =>
    recipient.transport === transport &&
    held.entry.account === account &&
    isDue(recipient, now) &&
    !holdOf(held, recipient, holds);
  const dueTime = (held: Held): number => earliestOf(held.recipients.filter(isWanted(held)));
  const due = [...messages]
    .filter((held) => held.recipients.some(isWanted(held)))
    .sort((left, right) => dueTime(left) - dueTime(right));
  const unexpired = expiredOnly ? due.findIndex(({ entry }) => entry.expiresAt > now) : -1;
  const chosen = withShare(unexpired === -1 ? due : due.slice(0, unexpired), limit, singles);
  return chosen.map((held) => claim(held, claimUntil, isWanted(held)));
}
