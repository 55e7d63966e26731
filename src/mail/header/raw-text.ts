// Reads a field body as UTF-8 or the legacy charset (D13); 8-bit octets inside an encoded-word are read in its charset.

import { isAscii } from 'node:buffer';
import { decodeRaw } from './charset.ts';
import { encodedWords } from './encoded-word.ts';
import { type EncodedWord, readWord, trimBlanks, unfold } from './header-text.ts';

const eightBit = /[\x80-\xff]/;
const lineBreak = /[\r\n]/;
// These characters divide addresses: no word of an address or phrase includes one, since a reader would see the address.
const dividing = /[<>"\\@]/;

/** Encoded-words of one charset with only blanks between them, at least one of them with 8-bit octets: [start, end). */
interface MarredRun {
  readonly start: number;
  end: number;
  readonly charset: string;
  readonly words: EncodedWord[];
}

/** Finds words with 8-bit octets, and their neighbours of the same charset, since a character may be split between two. */
function marredRuns(octets: string, structured: boolean): readonly MarredRun[] {
  const runs: MarredRun[] = [];
  let run: MarredRun | undefined;
  for (let at = octets.indexOf('=?'); at >= 0; ) {
    const word = readWord(octets, at);
    if (!word || lineBreak.test(word.encoded) || (structured && dividing.test(word.encoded))) {
      at = octets.indexOf('=?', at + 2);
      continue;
    }
    if (run?.charset === word.charset && trimBlanks(octets.slice(run.end, at)) === '') {
      run.words.push(word);
      run.end = word.end;
    } else {
      run = { start: at, end: word.end, charset: word.charset, words: [word] };
      runs.push(run);
    }
    at = octets.indexOf('=?', word.end);
  }
  return runs.filter(({ words }) => words.some(({ encoded }) => eightBit.test(encoded)));
}

/** The text of a run; octets that are invalid in its charset are read like octets outside of words. */
function textOf({ words }: MarredRun, legacyCharset: string): string {
  const bytes = Buffer.concat(words.map((word) => word.bytes));
  const text = words[0]?.decoder(bytes) ?? '';
  return text.includes('\ufffd') ? decodeRaw(bytes, legacyCharset) : text;
}

interface RawTextOptions {
  /** For octets that are no UTF-8; an iconv-lite name. */
  readonly legacyCharset: string;
  /** Folds are taken out first; JSON has none (D11). */
  readonly folded: boolean;
  /** Addresses or phrases: no encoded-word reaches over a bracket, a quotation mark or an `@`. */
  readonly structured: boolean;
}

/** Reads a field body as text. Encoded-words stay, and those with 8-bit octets are written anew in UTF-8. Linear. */
export function readRawText(bytes: Buffer, options: RawTextOptions): string {
  const { legacyCharset, folded, structured } = options;
  const unfoldIf = (text: string): string => (folded ? unfold(text) : text);
  if (isAscii(bytes) || !bytes.includes('=?')) return unfoldIf(decodeRaw(bytes, legacyCharset));
  const octets = unfoldIf(bytes.toString('latin1'));
  const pieces: string[] = [];
  let copied = 0;
  for (const run of marredRuns(octets, structured)) {
    pieces.push(octets.slice(copied, run.start), encodedWords(textOf(run, legacyCharset), { place: 'phrase' }));
    copied = run.end;
  }
  pieces.push(octets.slice(copied));
  return decodeRaw(Buffer.from(pieces.join(''), 'latin1'), legacyCharset);
}
