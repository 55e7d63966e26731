// Finds whether a text holds another, in linear time (Knuth, Morris, Pratt 1977). `String.prototype.includes` takes the product
// of both lengths at worst: one customer's rule and a hostile path could hold up a gateway that many share.

/**
 * Prepares a search.
 * @param wanted what is searched for; an empty one is in every text
 * @returns tells whether a text holds it, comparing UTF-16 code units
 */
export function textFinder(wanted: string): (text: string) => boolean {
  /** At index i, how many units at the start of `wanted` are also the last ones of its first i + 1. */
  const border = new Uint16Array(wanted.length);
  for (let at = 1, length = 0; at < wanted.length; at += 1) {
    while (length > 0 && wanted.charCodeAt(at) !== wanted.charCodeAt(length)) length = border[length - 1] ?? 0;
    if (wanted.charCodeAt(at) === wanted.charCodeAt(length)) length += 1;
    border[at] = length;
  }
  return (text) => {
    let length = 0;
    for (let at = 0; at < text.length && length < wanted.length; at += 1) {
      while (length > 0 && text.charCodeAt(at) !== wanted.charCodeAt(length)) length = border[length - 1] ?? 0;
      if (text.charCodeAt(at) === wanted.charCodeAt(length)) length += 1;
    }
    return length === wanted.length;
  };
}
