// The limits of the bounce listeners (D40a).

/** What reports may cost; sizes in octets. */
export interface BounceSettings {
  /** How many days after its message a token counts. */
  readonly tokenDays: number;
  readonly messageBytes: number;
  readonly connections: number;
  readonly connectionsPerAddress: number;
  /** Reports from one address in a minute. */
  readonly messagesPerMinute: number;
}
