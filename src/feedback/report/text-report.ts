// Reads reports that are written for people alone. Which recipients of the message they name is found out by comparing every
// address of the text with the message's recipients, so no form needs to be known for that; what is read here is which words
// belong to which address.

import { type DeliveryReport, type NamedRecipient, oneLine, reportBounds } from './report.ts';

/** Where the returned message begins, in the words of common servers: what follows is the message's own. */
const returnedMessage = new RegExp(
  [
    // qmail (QSBMF) and netqmail
    // dma
    '^Message headers follow',
    '^--- (?:Below this line|Enclosed|Undelivered message|The header of the original message)',
    // Exim
    '^-{4,} *(?:This is a copy of (?:the|your) message|The body of the message)',
    // Sendmail before 8.7, and servers that copy its words
    '^ *-{3,} *(?:Original message|Unsent message|Returned message|Message header|The header of|Message text)',
    // Domino, and text in German, French, Japanese
    '^-{3,} *(?:Urspr|Message d|元の|Original)',
  ].join('|'),
  'im',
);

/** The mark that begins a report of qmail: QSBMF, the "qmail-send Bounce Message Format". */
const qmailMark = /^Hi\. This is the/m;

const address = /[^\s<>()[\]{}"'`,;:=]{1,64}@[a-zA-Z0-9\u{80}-\u{10ffff}][a-zA-Z0-9.\u{80}-\u{10ffff}-]{0,250}/gu;
const beginsWithAddress = /^[\s<]*[^\s@]{1,64}@/;
/** Lines behind the one with the address that belong to it. */
const linesBehind = 6;

/** The words behind an address: the rest of its line and what follows until an empty line behind words, or another address. */
function wordsBehind(lines: readonly string[], at: number, from: number): string {
  const words = [(lines[at] ?? '').slice(from)];
  let hasWords = /[\p{L}\d]{3}/u.test(words[0] ?? '');
  for (let next = at + 1; next < lines.length && next <= at + linesBehind; next += 1) {
    const line = lines[next] ?? '';
    if (line.trim() === '' && hasWords) break;
    if (beginsWithAddress.test(line)) break;
    words.push(line);
    hasWords ||= /[\p{L}\d]{3}/u.test(line);
  }
  return words.join(' ');
}

/** The enhanced status code in the words of a server: `550 5.1.1 ...`, `#5.1.1`, `(5.1.1)`; a failure before a success. */
function statusIn(text: string): string | undefined {
  const codes = text.matchAll(/(?<![\d.])([245]\.\d{1,2}\.\d{1,3})(?![\d.]*\d)/g).map(([, code]) => code ?? '');
  let first: string | undefined;
  for (const code of codes) {
    if (!code.startsWith('2')) return code;
    first ??= code;
  }
  return first;
}

/** Words that say that a message is only late. */
const late =
  /will (?:continue to|keep) (?:try|retry)|still (?:trying|being)|not (?:yet been delivered|been delivered yet)|delivery (?:is |has been )?delayed|warning:? message|you do not need to (?:resend|retry|do anything)|no action is required|wird weiterhin versucht|verz(?:ö|oe)ger/i;

/**
 * Reads a text.
 * @param text what the report says to people, as much as is there
 * @param named recipients that a header field of the report names (X-Failed-Recipients)
 */
export function readTextReport(text: string, named: readonly string[] = []): DeliveryReport {
  const searched = text.slice(0, reportBounds.searched);
  const cut = returnedMessage.exec(searched)?.index;
  const own = cut === undefined || cut === 0 ? searched : searched.slice(0, cut);
  const action = late.test(own) && !qmailMark.test(own) ? 'delayed' : 'failed';
  const found = new Map<string, NamedRecipient>();
  const lines = own.split(/\r\n|\r|\n/);
  for (const [at, line] of lines.entries()) {
    for (const match of line.slice(0, 2000).matchAll(address)) {
      const final = match[0].replace(/\.+$/, '');
      if (found.has(final) || found.size >= reportBounds.recipients || final.length > reportBounds.address) continue;
      const words = oneLine(wordsBehind(lines, at, match.index + match[0].length).replace(/^[>\s:.,;-]+/, ''));
      const status = statusIn(words ?? '') ?? statusIn(line.slice(0, match.index));
      found.set(final, {
        final,
        action: status?.startsWith('2') === true ? 'delivered' : action,
        ...(status === undefined ? {} : { status }),
        ...(words === undefined ? {} : { diagnostic: words }),
      });
    }
  }
  const recipients = named.length > 0 ? namedRecipients(named, found, action) : [...found.values()];
  // The words of a text that names nobody are about the message's only recipient, if it has one.
  const whole = oneLine(own);
  const status = statusIn(own);
  return {
    kind: 'delivery',
    form: 'text',
    recipients: [
      ...recipients,
      ...(named.length > 0 || whole === undefined
        ? []
        : [{ action, diagnostic: whole, ...(status === undefined ? {} : { status }) } as const]),
    ],
  };
}

/** The recipients that a field names, with the words that the text has for them; the addresses of the text otherwise count nothing. */
function namedRecipients(
  named: readonly string[],
  found: ReadonlyMap<string, NamedRecipient>,
  action: NamedRecipient['action'],
): NamedRecipient[] {
  const byAddress = new Map([...found].map(([key, value]) => [key.toLowerCase(), value]));
  return named
    .slice(0, reportBounds.recipients)
    .map((final) => ({ ...byAddress.get(final.toLowerCase()), final, action }));
}
