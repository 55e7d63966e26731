// Why a session with a next hop could not be made ready.

import type { SmtpReply } from '../../mail/smtp-reply.ts';

/** What was wrong with the TLS of a connection, in the words of RFC 8460 §4.3. */
export type TlsFault =
  | 'starttls-not-supported'
  | 'certificate-host-mismatch'
  | 'certificate-expired'
  | 'certificate-not-trusted'
  | 'validation-failure'
  | 'tlsa-invalid';

/** Why a session could not be made ready, in the form of a reply. Always temporary, because the mail is not the cause. */
export class HandshakeFailure extends Error {
  override readonly name = 'HandshakeFailure';
  readonly reply: SmtpReply;
  /** TLS is to blame, so that a connection without it might do. */
  readonly tlsFault: TlsFault | undefined;
  /** STARTTLS was put off, or the connection lost within the handshake of TLS, which may go well the next time. */
  readonly wasLost: boolean;
  /** The next hop's own reply, where it refused. */
  readonly said: SmtpReply | undefined;

  constructor(
    reply: SmtpReply,
    options: ErrorOptions & {
      readonly tlsFault?: TlsFault;
      readonly wasLost?: boolean;
      readonly said?: SmtpReply;
    } = {},
  ) {
    super(reply.text, options);
    this.reply = reply;
    this.tlsFault = options.tlsFault;
    this.wasLost = options.wasLost === true;
    this.said = options.said;
  }
}

/** Makes a failure of our own. @param enhanced the enhanced status (RFC 3463) */
export function failure(enhanced: string, text: string, cause?: unknown): HandshakeFailure {
  return new HandshakeFailure({ code: 451, enhanced, text }, cause === undefined ? undefined : { cause });
}

/** Makes the failure of a command that the next hop refused. @param what which, for people */
export function refused(what: string, reply: SmtpReply): HandshakeFailure {
  const words = `${what}: ${reply.code} ${reply.enhanced ? `${reply.enhanced} ` : ''}${reply.text}`;
  const enhanced = reply.enhanced ? `4${reply.enhanced.slice(1)}` : '4.3.0';
  return new HandshakeFailure({ code: 451, enhanced, text: words }, { said: reply });
}
