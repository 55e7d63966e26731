// A claim that broke off: some recipients may be claimed for this process all the same.

/** The recipients of one message. */
export interface ClaimedMessage {
  /** Queue id. */
  readonly id: string;
  readonly addresses: readonly string[];
}

/** A claim has failed, and nobody knows whether these recipients are claimed. Whoever asked gives them back (`Spool.release`). */
export class BrokenClaim extends Error {
  override readonly name = 'BrokenClaim';
  readonly messages: readonly ClaimedMessage[];

  /** @param cause what the claim met */
  constructor(messages: readonly ClaimedMessage[], cause: unknown) {
    super('A claim broke off', { cause });
    this.messages = messages;
  }
}
