// The envelope of RFC 5321: what MAIL and RCPT said, independent of what the header section says.

import type { DsnRequest } from './dsn-request.ts';

/** Where a message goes and where its reports go (RFC 5321 §2.3.1). */
export interface Envelope {
  /** The mailbox of MAIL FROM without brackets, its domain an A-label in lower case; '' is the null reverse-path. */
  readonly reversePath: string;
  /** The mailboxes of RCPT TO without brackets, domains as A-labels in lower case, local parts as given. Never empty. */
  readonly recipients: readonly string[];
  /** The client said SMTPUTF8 (RFC 6531), or an address is not ASCII. */
  readonly smtputf8: boolean;
  /** REQUIRETLS (RFC 8689): only over verified TLS, to hops that offer it too. */
  readonly requireTls: boolean;
  /** What the client asked about reports; absent where it asked nothing (RFC 3461). */
  readonly dsn?: DsnRequest;
}
