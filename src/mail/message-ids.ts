// The ids in Message-ID, In-Reply-To and References (RFC 5322 §3.6.4).

const pattern = /<[^<>\s]{1,996}>/g;

/** Ids of one message that are looked up at most; the last ones of References are the nearest. */
const mostIds = 200;

/** The one id that a text is, with its brackets; undefined where it is none. */
export function oneMessageId(text: string): string | undefined {
  return /^<[^<>\s]{1,996}>$/.exec(text.trim())?.[0];
}

/** An id, or an address, without white space and angle brackets around it. */
export function bareId(text: string): string {
  return text.trim().replace(/^<([^<>]*)>$/, '$1');
}

/** The ids that texts name, each once, with their brackets; the last ones where there are very many. */
export function citedIds(texts: readonly string[]): readonly string[] {
  const found = new Set(texts.flatMap((text) => text.match(pattern) ?? []));
  return [...found].slice(-mostIds);
}

/** The text with some ids replaced; everything between them stays. */
export function replaceIds(text: string, by: ReadonlyMap<string, string>): string {
  return text.replace(pattern, (id) => by.get(id) ?? id);
}
