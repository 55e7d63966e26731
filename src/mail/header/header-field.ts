// A header field as it was handed in: its name and its octets, without any interpretation (RFC 5322 §2.2).

/** What is wrong with the form of a field, found before its name or value is judged (D5, D10, D11). */
export type FieldFault =
  /** A line of the header section without a colon. */
  | 'no-colon'
  /** White space between the name and the colon. */
  | 'space-before-colon'
  /** The header section begins with a continuation line. */
  | 'leading-continuation'
  /** REST: the value is no string. */
  | 'not-a-string'
  /** REST: the value has a lone surrogate, which UTF-8 cannot carry. */
  | 'lone-surrogate';

/** One header field as a door hands it over. The order of a list of them is the order in the text. */
export interface HeaderField {
  /** The name as given: by SMTP one character an octet (latin1), by REST the JSON key. */
  readonly name: string;
  /** The octets after the colon as given, with folds and stray CR or LF, without the final line end. From REST: the string's UTF-8. */
  readonly rawBytes: Buffer;
  /** REST: the JSON pointer of the value (`/headers/X-Foo`). */
  readonly pointer?: string;
  readonly fault?: FieldFault;
}
