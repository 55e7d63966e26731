// The date of mail.

/** The date in the form of RFC 5322 §3.3, in UTC (D24). @param ms milliseconds since 1970 */
export function mailDate(ms: number): string {
  return `${new Date(ms).toUTCString().slice(0, -3)}+0000`;
}
