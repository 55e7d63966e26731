// Repairs threads (D23): a message that cites one whose Message-ID was replaced cites the id that it left with.

import { citedIds, replaceIds } from '../mail/message-ids.ts';
import type { Checked, CheckedField } from './policy/checked.ts';

/** Finds the ids that messages of an account left with, by the ids that their client gave them. */
export type FindReplacedIds = (account: string, ids: readonly string[]) => Promise<ReadonlyMap<string, string>>;

function citesOthers({ name }: CheckedField): boolean {
  return name === 'In-Reply-To' || name === 'References';
}

/** Replaces ids in In-Reply-To and References where the account asks for it; all other ids and fields stay as they are. */
export async function repairThread(checked: Checked, find: FindReplacedIds | undefined): Promise<Checked> {
  const { via, submitter } = checked.submission;
  // Our own reports cite what their reader knows.
  if (!find || via.kind === 'dsn' || submitter.account.threadRepair !== true) return checked;
  const ids = citedIds(checked.custom.filter(citesOthers).map(({ text }) => text));
  if (ids.length === 0) return checked;
  const replaced = await find(submitter.account.name, ids);
  if (replaced.size === 0) return checked;
  const custom = checked.custom.map((field): CheckedField => {
    if (!citesOthers(field)) return field;
    const [text, decoded] = [field.text, field.decoded].map((one) => replaceIds(one, replaced));
    return { ...field, text: text ?? '', decoded: decoded ?? '' };
  });
  return { ...checked, custom };
}
