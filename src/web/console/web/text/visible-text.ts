// Text that a stranger chose, made safe to look at: characters that show nothing, or that change how others stand, become marks. And
// whether their HTML can be shown: a browser takes many seconds to parse some ten thousand elements that nobody closes, since it looks
// through those that are open at each further one.

/** A piece of text: as it is, or the name of a character that would not be seen. */
interface TextPiece {
  readonly kind: 'text' | 'mark';
  readonly text: string;
}

/** Names of the characters that people meet; others are written as U+ and their number. */
const names: ReadonlyMap<string, string> = new Map([
  ['\0', 'NUL'],
  ['\t', 'TAB'],
  ['\n', 'LF'],
  ['\r', 'CR'],
  ['\u001b', 'ESC'],
  ['\u007f', 'DEL'],
  ['\u00a0', 'NBSP'],
  ['\u00ad', 'SHY'],
  ['\u200b', 'ZWSP'],
  ['\u200c', 'ZWNJ'],
  ['\u200d', 'ZWJ'],
  ['\u200e', 'LRM'],
  ['\u200f', 'RLM'],
  ['\u061c', 'ALM'],
  ['\u202a', 'LRE'],
  ['\u202b', 'RLE'],
  ['\u202c', 'PDF'],
  ['\u202d', 'LRO'],
  ['\u202e', 'RLO'],
  ['\u2066', 'LRI'],
  ['\u2067', 'RLI'],
  ['\u2068', 'FSI'],
  ['\u2069', 'PDI'],
  ['\ufeff', 'BOM'],
]);

/** Controls, format and private characters, lone surrogates, odd spaces, tags; not the blank, nor what joins emoji. */
const hidden =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u115f\u1160\u3164\uffa0]/gu;

/** Joiners that stand between parts of one emoji. */
const emojiJoiner =
  /(?<=[\p{Emoji_Presentation}\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d(?=\p{Extended_Pictographic})/gu;

function characterName(character: string): string {
  const known = names.get(character);
  if (known !== undefined) return known;
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}

/** Cuts text into pieces that can be shown. @param keep line ends and tabs stay where the text is shown in lines */
export function visiblePieces(text: string, keep: 'none' | 'lines' = 'none'): readonly TextPiece[] {
  const pieces: TextPiece[] = [];
  const joiners = new Set([...text.matchAll(emojiJoiner)].map(({ index }) => index));
  let from = 0;
  for (const { 0: character, index } of text.matchAll(hidden)) {
    if (joiners.has(index) || (keep === 'lines' && (character === '\n' || character === '\t'))) continue;
    if (index > from) pieces.push({ kind: 'text', text: text.slice(from, index) });
    pieces.push({ kind: 'mark', text: characterName(character) });
    from = index + character.length;
  }
  if (from < text.length || pieces.length === 0) pieces.push({ kind: 'text', text: text.slice(from) });
  return pieces;
}

/** Cuts text at a number of characters, never within a surrogate pair. @returns the beginning, and how many are left out */
export function cutAt(text: string, most: number): { readonly shown: string; readonly left: number } {
  if (text.length <= most) return { shown: text, left: 0 };
  const last = text.charCodeAt(most - 1);
  const end = last >= 0xd800 && last <= 0xdbff ? most - 1 : most;
  return { shown: text.slice(0, end), left: text.length - end };
}

/** Elements that may be open at once. */
const mostOpen = 2000;

/** Elements that have no content, and those that the next one of their kind closes. */
const closed = new Set(
  (
    'area base br col embed hr img input link meta param source track wbr ' +
    'p li dt dd option tr td th tbody thead tfoot html head body'
  ).split(' '),
);

/** Whether a browser would take long to parse HTML, judged by the tags that nothing closes; a bit too strict with broken HTML. */
export function isTooDeep(html: string): boolean {
  const open = new Map<string, number>();
  let all = 0;
  for (const [, slash, given = ''] of html.matchAll(/<(\/?)([a-z][^\s/>]{0,40})/gi)) {
    const name = given.toLowerCase();
    if (closed.has(name)) continue;
    const count = open.get(name) ?? 0;
    if (slash === '') {
      open.set(name, count + 1);
      all += 1;
      if (all > mostOpen) return true;
    } else if (count > 0) {
      open.set(name, count - 1);
      all -= 1;
    }
  }
  return false;
}
