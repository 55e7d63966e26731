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

/** What holds where the configuration says nothing (D42). */
export const defaultRestLimits: Omit<RestLimits, 'requestBytes'> = {
  messageBytes: 5_242_880,
  recipients: 50,
  attachments: 32,
  subjectCharacters: 998,
};

/**
 * Octets of a request for each of the message that it may become: base64, the escapes of JSON, and the rest of the body (D42a).
 * It is no setting, because a request that fits is one whose message may fit.
 */
export const requestBytesPerMessageByte = 1.6;
