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

/**
 * What holds where the configuration says nothing (D40a). The octets and the connections are no settings: these are beside those of
 * submission, and who finds none comes again.
 */
export const defaultBounceSettings: BounceSettings = {
  tokenDays: 30,
  messageBytes: 1_048_576,
  connections: 200,
  connectionsPerAddress: 50,
  messagesPerMinute: 15_000,
};
