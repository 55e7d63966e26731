// How much an event holds of what came from outside, and what is kept of a reason: the rule, without what it quotes.

/** The most that an event holds; the rest is cut, and counts tell how much there was. Texts in characters. */
export const eventBounds = {
  /** All recipients of an accepted message together. */
  acceptedRecipients: 16_384,
  /** All recipients of a refused one. */
  refusedRecipients: 2048,
  violations: 50,
  violationMessage: 300,
  fieldName: 100,
  pointer: 200,
  /** A path, a name, an id. */
  name: 1000,
} as const;

/** The first `length` characters; never half of a surrogate pair. */
export function cutText(text: string, length: number): string {
  if (text.length <= length) return text;
  const cut = text.slice(0, length);
  return cut.isWellFormed() ? cut : cut.slice(0, -1).toWellFormed();
}

/** The first addresses that together fit into so many characters; always at least the first one, cut if necessary. */
export function firstAddresses(addresses: readonly string[], characters: number): readonly string[] {
  let left = characters;
  let count = 0;
  for (const { length } of addresses) {
    if (length > left) break;
    left -= length;
    count += 1;
  }
  if (count === addresses.length) return addresses;
  return count === 0 ? addresses.slice(0, 1).map((one) => cutText(one, characters)) : addresses.slice(0, count);
}

const notKept = '[not kept]';

/** Words that a reason quotes because it asks for them. */
const ownWords: ReadonlySet<string> = new Set([
  'List-Unsubscribe=One-Click',
  ...['from', 'to', 'cc', 'bcc', 'reply_to', 'subject', 'text', 'html', 'attachments', 'headers'],
]);

/** Characters of a name by RFC 5322 §2.2. */
const fieldName = /^[!-9;-~]+$/;

/** A reason without what it quotes of a message, between quotation marks or behind `; got`. */
function withoutQuotes(message: string): string {
  const said = message.replace(/; got [^]*$/, `; got ${notKept}`);
  const first = said.indexOf('"');
  if (first < 0) return said;
  // What is quoted may have quotation marks of its own, and its end may be cut off.
  const last = said.lastIndexOf('"');
  if (ownWords.has(said.slice(first + 1, last))) return said;
  return `${said.slice(0, first)}"${notKept}"${last > first ? said.slice(last + 1) : ''}`;
}

/** A header's name, which is kept; text that only stands in place of one is not. @param isLine it stands in a line without a colon */
export function keptName(name: string, isLine: boolean): string {
  return name === '' || (!isLine && fieldName.test(name.trim())) ? name : notKept;
}

/** A reason without what it quotes. */
export function reasonWithoutQuotes<Reason extends { readonly message: string; readonly name?: string | undefined }>(
  reason: Reason,
): Reason {
  const { message, name } = reason;
  return {
    ...reason,
    message: withoutQuotes(message),
    ...(name === undefined ? {} : { name: keptName(name, message.startsWith('The header line ')) }),
  };
}

/** The server's words about a message, behind its 354, without what they quote. @param text `Transcript.text` */
export function dialogueWithoutQuotes(text: string): string {
  // Nothing is quoted in what is said of an ordinary message.
  if (!text.includes('"') && !text.includes('; got ')) return text;
  let isAbout = false;
  const lines = text.split('\n').map((line) => {
    if (/^S \d+ 354[ -]/.test(line)) isAbout = true;
    return isAbout && line.startsWith('S ') ? withoutQuotes(line) : line;
  });
  return lines.join('\n');
}
