// What is kept of the words of a reason where nothing of the message itself may be: the rule, without what it quotes.

/** Stands for what is not kept. */
const notKept = '[not kept]';

/** Words that a reason quotes because it asks for them. */
const ownWords: ReadonlySet<string> = new Set([
  'List-Unsubscribe=One-Click',
  ...['from', 'to', 'cc', 'bcc', 'reply_to', 'subject', 'text', 'html', 'attachments', 'headers'],
]);

/** Characters of a name by RFC 5322 §2.2. */
const fieldName = /^[!-9;-~]+$/;

/**
 * A reason without what it quotes of a message.
 * @param message a sentence that quotes between quotation marks, or behind `; got`
 */
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
