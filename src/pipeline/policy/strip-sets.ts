// Named sets of fields that well-known systems add and nobody else needs (D4a), as docs/mailers.md shows them; a test compares.

/** One entry: a name, or a prefix of names followed by `*`, and why it stands in a message. */
export interface StripSetEntry {
  readonly pattern: string;
  readonly why: string;
}

/** Every name of a set. */
export const stripSetNames = ['exchange', 'cpanel', 'mailman', 'cron'] as const;

/** The name of a set. */
export type StripSetName = (typeof stripSetNames)[number];

const forwarded: readonly StripSetEntry[] = [
  { pattern: 'Return-Path', why: 'written by the server that had delivered the message; Postern’s own is another' },
  { pattern: 'Delivered-To', why: 'the mailbox that the message was delivered to before' },
  { pattern: 'Authentication-Results', why: 'what a server found when the message came in (RFC 8601)' },
  { pattern: 'Received-SPF', why: 'the same for SPF (RFC 7208)' },
  { pattern: 'DKIM-Signature', why: 'the signature of whoever sent it before; the message is signed anew' },
  { pattern: 'ARC-*', why: 'the chain of servers that forwarded it (RFC 8617)' },
];

/** The sets by name. */
export const stripSets = {
  exchange: [
    { pattern: 'X-MS-*', why: 'bookkeeping (X-MS-Exchange-* and others); some repeat, some are empty' },
    { pattern: 'X-Microsoft-Antispam*', why: 'the filter’s verdicts; the longest are over 2,048 bytes' },
    { pattern: 'X-Forefront-Antispam-Report*', why: 'the filter’s report' },
    { pattern: 'X-EOPAttributedMessage', why: 'the filter’s tenant' },
    { pattern: 'X-EOPTenantAttributedMessage', why: 'the filter’s tenant' },
    { pattern: 'X-Originating-IP', why: 'the address of the desktop that sent it' },
    { pattern: 'X-OriginatorOrg', why: 'the organisation' },
    { pattern: 'Accept-Language', why: 'languages of the sender’s desktop' },
    { pattern: 'acceptlanguage', why: 'the same in an older spelling' },
    { pattern: 'Content-Class', why: 'kind of message for the server’s own clients' },
    { pattern: 'msip_labels', why: 'the document label; its name has an underscore, which only X- names may have' },
    { pattern: 'SpamDiagnosticOutput', why: 'the filter’s trace' },
    { pattern: 'SpamDiagnosticMetadata', why: 'the filter’s trace' },
    ...forwarded,
  ],
  cpanel: [
    { pattern: 'X-AntiAbuse', why: 'five fields of one name with the account’s numbers' },
    { pattern: 'X-Get-Message-Sender-Via', why: 'how the server knew the sender' },
    { pattern: 'X-Authenticated-Sender', why: 'who logged in' },
    { pattern: 'X-Source*', why: 'the program that sent it; X-Source, X-Source-Args and X-Source-Dir are often empty' },
    { pattern: 'X-From-Rewrite', why: 'that From was changed' },
    { pattern: 'X-OutGoing-Spam-Status', why: 'the filter’s score' },
    { pattern: 'Sender', why: 'the login, where it is not From' },
  ],
  mailman: [
    { pattern: 'X-BeenThere', why: 'the list, to notice loops; once for each list on the way' },
    { pattern: 'X-Mailman-*', why: 'version and rules of the list manager' },
    { pattern: 'X-Content-Filtered-By', why: 'what the list manager removed' },
    { pattern: 'X-List-Administrivia', why: 'whether the message is the list manager’s own' },
    { pattern: 'Message-ID-Hash', why: 'the name in the archive' },
    { pattern: 'Errors-To', why: 'where errors went before DSNs; the reverse-path says it' },
    { pattern: 'Sender', why: 'the list’s address for errors' },
    { pattern: 'List-Approve', why: 'a command’s address' },
    { pattern: 'Mailing-List', why: 'the list in a form that no RFC knows' },
    { pattern: 'User-Agent', why: 'of the member who wrote the message' },
    { pattern: 'Mail-Followup-To', why: 'of the member who wrote the message' },
    { pattern: 'Autocrypt', why: 'of the member who wrote the message' },
    { pattern: 'Disposition-Notification-To', why: 'a receipt that a member asked for' },
    ...forwarded,
  ],
  cron: [
    { pattern: 'X-Cron-Env', why: 'one field for each variable of the environment' },
    { pattern: 'User-Agent', why: 'of the mail command that cron hands it to' },
  ],
} as const satisfies Readonly<Record<StripSetName, readonly StripSetEntry[]>>;

/** The patterns of some sets, as they would be written under `strip`. */
export function patternsOfSets(names: readonly StripSetName[]): string[] {
  return names.flatMap((name) => stripSets[name].map(({ pattern }) => pattern));
}
