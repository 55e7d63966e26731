// Bounces of mail servers behind a credential with a default domain (D4b): the From of such a bounce holds no address
// that the account may send from, or no address at all (RFC 3464 §2, RFC 5321 §4.5.5).

import { type Mailbox, parseAddressList } from '../../mail/address/address.ts';
import { asciiDomain } from '../../mail/address/domain.ts';

/** The name of the field that keeps the From as it was given. */
export const originalFromName = 'X-Original-From';

const serverNames = new Set(['mailer-daemon', 'postmaster']);

/** The one mailbox of a From; `none` where it is empty (`<>`, `MAILER-DAEMON <>`, comments), undefined for all else. */
function readMailbox(text: string): Mailbox | 'none' | undefined {
  const list = parseAddressList(text);
  if (list.ok) {
    const [first, second] = list.addresses;
    if (!first) return 'none';
    return second || first.kind === 'group' ? undefined : first;
  }
  // RFC 5322 has no empty address: a filler is put in, so that everything around it is read by the usual rules.
  const filled = parseAddressList(text.replace(/<[ \t]*>/, '<none>'));
  if (!filled.ok) return undefined;
  const [first, second] = filled.addresses;
  return first?.kind === 'mailbox' && !second && first.localPart === 'none' ? 'none' : undefined;
}

/**
 * Tells whether From is a mail server's own, as it stands in the bounces that servers behind Postern write: empty,
 * MAILER-DAEMON or postmaster without a domain, or any address whose domain the account may not send from.
 * @param text unfolded, encoded-words not decoded
 * @param isSendingDomain takes an A-label in lower case
 */
export function isServersFrom(text: string, isSendingDomain: (domain: string) => boolean): boolean {
  const mailbox = readMailbox(text);
  if (mailbox === undefined) return false;
  if (mailbox === 'none') return true;
  if (mailbox.domain === undefined) return serverNames.has(mailbox.localPart.toLowerCase());
  const domain = asciiDomain(mailbox.domain);
  return domain === undefined || !isSendingDomain(domain);
}
