// A reply of SMTP as a value: code (RFC 5321 §4.2), enhanced status (RFC 3463), text.

/** One reply, ours or a next hop's. Temporary or permanent is the first digit of the code. */
export interface SmtpReply {
  /** Three digits, 200-599. */
  readonly code: number;
  /** `5.7.1`; absent where a next hop gave none. */
  readonly enhanced?: string;
  /** The words, lines joined by LF, without code and enhanced status. */
  readonly text: string;
}
