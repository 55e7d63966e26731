// How much an event holds of what came from outside, and cutting to it.

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
