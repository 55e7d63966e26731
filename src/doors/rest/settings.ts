// The REST door's slice of the configuration (D42, D42a).

/** What one request may hold; `requestBytes` are the octets of its HTTP body. */
export type RestLimits = Readonly<typeof defaultRestLimits> & { readonly requestBytes: number };

/** What holds where the configuration says nothing (D42). */
export const defaultRestLimits = {
  /** Octets of the composed message. */
  messageBytes: 5_242_880,
  /** to, cc and bcc together. */
  recipients: 50,
  attachments: 32,
  subjectCharacters: 998,
};

/** Octets of a request for each octet of its message: base64, escapes and the rest of the body (D42a). It follows the message's limit. */
export const requestBytesPerMessageByte = 1.6;
