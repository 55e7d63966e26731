// Writes the tables of charsets that the policy package brings along, from those of iconv-lite, which the gateway reads with.

import iconv from 'iconv-lite';

type Definition = string | { readonly type?: string; readonly chars?: string } | ((...args: never) => unknown);

/** By name: the name of another charset, or what it is. */
export function charsetDefinitions(): Readonly<Record<string, Definition>> {
  iconv.getCodec('utf8');
  return Object.fromEntries(Object.entries((iconv as unknown as { encodings: Record<string, Definition> }).encodings));
}

/** The names that are aliases in the end of octets, not of characters. */
const notCharsets = new Set(['hex', 'base64', 'binary', '_internal', '_sbcs', '_dbcs', '_utf32']);

function literal(text: string): string {
  // Controls would be invisible in the file, and a mark of direction would turn it around.
  return `'${text.replace(/[\p{C}\p{Z}'\\]/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)}'`;
}

/** The module's text. */
export function renderCharsetData(): string {
  const definitions = charsetDefinitions();
  const tables: string[] = [];
  const aliases: string[] = [];
  for (const [name, given] of Object.entries(definitions)) {
    if (notCharsets.has(name)) continue;
    let last = name;
    let found: Definition | undefined = given;
    while (typeof found === 'string') {
      last = found;
      found = definitions[last];
    }
    const key = /^[a-z]/.test(name) ? name : `'${name}'`;
    if (last !== name) aliases.push(`  ${key}: '${last}',`);
    else if (typeof found === 'object' && typeof found.chars === 'string') {
      // iconv-lite completes a table in place at its first use.
      const chars =
        found.chars.length === 256 && /^[\x00-\x7f]{128}/.test(found.chars) ? found.chars.slice(128) : found.chars;
      tables.push(`  ${key}:\n    ${literal(chars)},`);
    }
  }
  return `// The charsets of one octet a character, made from iconv-lite (MIT, Alexander Shtuchkin) by
// UPDATE_DOCS=1 npx vitest run --project unit test/policy-seam.test.ts

/** The characters of each table by its name: of all 256 octets, or of those over 127 where the others are ASCII. */
export const charsetTables: Readonly<Record<string, string>> = {
${tables.join('\n')}
};

/** Other names, of these and of all other charsets. */
export const charsetAliases: Readonly<Record<string, string>> = {
${aliases.join('\n')}
};
`;
}
