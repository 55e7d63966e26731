// The characters that words without quotation marks may have, listed in this one place.

/** Atext (RFC 5322 §3.2.3, RFC 5321 §4.1.2) as the inside of a character class, for regular expressions with or without `u`. */
export const atext = "A-Za-z0-9!#$%&'*+\\-/=?^_`{|}~";
