// `senders` of credentials and listeners: checks its lines and makes the maps (D4d).

import { coveringDomain } from '../../accounts/accounts.ts';
import { type SenderMap, senderMap, senderRule } from '../../accounts/sender-map.ts';
import { oncePer } from '../../base/once-per.ts';
import { asciiDomain } from '../../mail/address/domain.ts';
import type { CompleteContents } from './defaults.ts';
import { type ConfigFault, type ConfigPath, quote } from './fault.ts';
import type { AccountEntry } from './schema.ts';

interface Entry {
  readonly senders?: Readonly<Record<string, string>>;
  readonly replyTo?: 'original';
}

/** Lines of one map. Each is tried against each sender that nobody owns. */
const mostLines = 200;

interface Owned {
  readonly account: AccountEntry;
  readonly domain: { readonly subdomains: boolean };
}

/** The sending domains of all accounts by name: made once for each file, however many maps it has. */
const ownedDomains = oncePer((accounts: readonly AccountEntry[]): ReadonlyMap<string, Owned> => {
  const owned = accounts.flatMap((account) =>
    (account.sendingDomains ?? []).map(({ name, subdomains = true }) => {
      return [asciiDomain(name) ?? name, { account, domain: { subdomains } }] as const;
    }),
  );
  return new Map(owned);
});

/** Which account has a sending domain that covers a domain (D50), by the longest; undefined: none. */
function ownerOf(accounts: readonly AccountEntry[], domain: string): AccountEntry | undefined {
  return coveringDomain(ownedDomains(accounts), domain)?.account;
}

/** The faults of a map. @param account whose it is; undefined: a listener's, which serves whoever logs in */
export function senderFaults(
  { senders = {}, replyTo }: Entry,
  path: ConfigPath,
  { accounts, account }: { readonly accounts: readonly AccountEntry[]; readonly account?: AccountEntry | undefined },
): ConfigFault[] {
  const lines = Object.entries(senders);
  if (replyTo !== undefined && lines.length === 0)
    return [{ path: [...path, 'replyTo'], text: 'stands without senders; want both, or senders alone', atKey: true }];
  if (lines.length > mostLines)
    return [{ path: [...path, 'senders'], text: `got ${lines.length} lines, want at most ${mostLines}`, atKey: true }];
  return lines.flatMap(([pattern, address]): ConfigFault[] => {
    const at = [...path, 'senders', pattern];
    const rule = senderRule(pattern, address);
    if (typeof rule === 'string') return [{ path: at, text: `got ${quote(`${pattern}: ${address}`)}; ${rule}` }];
    const target = ownerOf(accounts, asciiDomain(rule.toDomain) ?? '');
    if (!target || (account && target !== account)) {
      const whose = account ? `account ${account.name}` : 'any account';
      return [{ path: at, text: `got ${quote(address)}, whose domain is no sending domain of ${whose}` }];
    }
    const [, from = ''] = pattern.split('@');
    const owner = from.includes('*') ? undefined : ownerOf(accounts, asciiDomain(from) ?? from.toLowerCase());
    if (!owner) return [];
    const text = `has ${quote(from)}, which is a sending domain of account ${owner.name}: senders there are never mapped`;
    return [{ path: at, text, atKey: true }];
  });
}

/** The map of an entry; an empty object where it has none. */
export function sendersOf(
  { senders, replyTo }: Entry,
  { accounts }: Pick<CompleteContents, 'accounts'>,
): { readonly senders?: SenderMap } {
  if (!senders || Object.keys(senders).length === 0) return {};
  const isOwned = (domain: string): boolean => ownerOf(accounts, domain) !== undefined;
  return { senders: senderMap(senders, { repliesToOriginal: replyTo === 'original', isOwned }) };
}
