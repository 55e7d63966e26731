// The REST door's slice of the configuration (D42, D42a).

/** What one request may hold. */
export interface RestLimits {
  /** Octets of the composed message. */
  readonly messageBytes: number;
  /** Octets of the HTTP body. */
  readonly requestBytes: number;
  /** to, cc and bcc together. */
  readonly recipients: number;
  readonly attachments: number;
  readonly subjectCharacters: number;
}
