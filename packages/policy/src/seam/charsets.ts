// Turns octets into text, in place of iconv-lite: charsets of one octet by their tables, those of several by the platform's
// TextDecoder, the forms of Unicode by hand. A test compares each with iconv-lite.

import { charsetAliases, charsetTables } from './charset-data.ts';
import { Octets } from './octets.ts';
import { isUtf16BigEndian, isUtf32BigEndian, utf7, utf16be, utf16le, utf32, withoutMark } from './unicode.ts';

type Decode = (octets: Octets) => string;

const ascii = String.fromCharCode(...Array(128).keys());

/** Reads one character an octet; a table of 128 is that of the upper half. */
function fromTable(given: string): Decode {
  const table = given.length === 128 ? ascii + given : given;
  return (octets) => {
    let text = '';
    for (const octet of octets) text += table.charAt(octet);
    return text;
  };
}

const decoderOf = (label: string) => new TextDecoder(label);

/** The platform's decoder, made at its first use. */
function fromPlatform(label: string): Decode {
  let decoder: ReturnType<typeof decoderOf> | undefined;
  return (octets) => {
    decoder ??= decoderOf(label);
    return decoder.decode(octets);
  };
}

const utf8: Decode = (octets) => withoutMark(octets.toString('utf8'));

/** What is no charset of one octet, by iconv-lite's name for it. */
const others: Readonly<Record<string, Decode>> = {
  utf8,
  cesu8: utf8,
  ucs2: (octets) => withoutMark(utf16le(octets)),
  utf16be: (octets) => withoutMark(utf16be(octets)),
  utf16: (octets) => withoutMark(isUtf16BigEndian(octets) ? utf16be(octets) : utf16le(octets)),
  utf32le: (octets) => withoutMark(utf32(octets, false)),
  utf32be: (octets) => withoutMark(utf32(octets, true)),
  utf32: (octets) => withoutMark(utf32(octets, isUtf32BigEndian(octets))),
  utf7: (octets) => withoutMark(utf7(octets, 'mail')),
  utf7imap: (octets) => withoutMark(utf7(octets, 'imap')),
  shiftjis: fromPlatform('shift_jis'),
  eucjp: fromPlatform('euc-jp'),
  cp936: fromPlatform('gbk'),
  gbk: fromPlatform('gbk'),
  gb18030: fromPlatform('gb18030'),
  cp949: fromPlatform('euc-kr'),
  cp950: fromPlatform('big5'),
  big5hkscs: fromPlatform('big5'),
};

/** The decoder of every name. */
const encodings: Record<string, Decode> = { ...others };
for (const [name, table] of Object.entries(charsetTables)) encodings[name] = fromTable(table);
for (const [alias, name] of Object.entries(charsetAliases)) {
  const decode = encodings[name];
  if (decode) encodings[alias] = decode;
}
Object.setPrototypeOf(encodings, null);

const iconv = {
  encodings,
  getCodec: (): void => undefined,
  decode(octets: Uint8Array, charset: string): string {
    const decode = encodings[charset.toLowerCase().replace(/:\d{4}$|[^0-9a-z]/g, '')];
    return decode?.(Octets.view(octets)) ?? '';
  },
};

export default iconv;
