// TLS of a connection to a next hop: the handshake, and who is believed (RFC 3207, RFC 7817).

import { isIP, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { readRegularFile } from '../../base/named-file.ts';
import type { TlsPolicy } from '../../mail/tls-facts.ts';
import { failure, HandshakeFailure, type TlsFault } from './handshake-failure.ts';
import type { SmtpTimeouts } from './smtp-transaction.ts';

/** Where and how to connect. */
export interface SmtpClientOptions {
  /** The name of the next hop, which its certificate has to name. */
  readonly host: string;
  readonly port: number;
  /** The IP address to connect to; absent: what the system finds for `host`. */
  readonly address?: string;
  /** The IP address to connect from; absent: the system chooses. */
  readonly localAddress?: string;
  /** `none` never, `opportunistic` STARTTLS if offered, `required` STARTTLS or nothing, `implicit` TLS from the first octet. */
  readonly tls: 'none' | 'opportunistic' | 'required' | 'implicit';
  /** Verify the certificate and its name. False accepts any, and whoever answers gets the password of `auth`. */
  readonly tlsVerify: boolean;
  /** Certificates to trust instead of the system's, PEM. */
  readonly ca?: string;
  /** Absolute path of a file with such certificates, read at each handshake, so that renewed ones take effect at once. */
  readonly caFile?: string;
  /** Judges the peer in place of the authorities, as DANE does. @returns why it is refused */
  readonly judgePeer?: (peer: TLSSocket) => string | undefined;
  /** What decided about TLS, where `tls` does not say it. */
  readonly policy?: TlsPolicy;
  /** `host` was found in a way that nobody could have forged; absent: true, the configuration names it. */
  readonly hostIsTrusted?: boolean;
  readonly auth?: { readonly user: string; readonly password: string };
  /** How long the connection is used, in milliseconds: it takes no more messages then. Absent: without an end. */
  readonly lastsMs?: number;
  readonly hostname: string;
  readonly timeouts: SmtpTimeouts;
}

/** @throws HandshakeFailure where the file of trusted certificates cannot be read */
function trusted({ ca, caFile }: SmtpClientOptions): Pick<ConnectionOptions, 'ca'> {
  if (caFile === undefined) return ca === undefined ? {} : { ca };
  try {
    return { ca: readRegularFile(caFile) };
  } catch (error) {
    throw failure('4.3.5', `The certificates that the route trusts cannot be read: ${errorMessage(error)}`, error);
  }
}

function tlsOptions(options: SmtpClientOptions): ConnectionOptions {
  return {
    host: options.host,
    // RFC 6066 §3: an IP address is no server name.
    ...(isIP(options.host) ? {} : { servername: options.host }),
    ...trusted(options),
    rejectUnauthorized: options.tlsVerify,
    minVersion: 'TLSv1.2',
  };
}

/** OpenSSL's own text names its source file; its `reason` is what a person can read, such as `wrong version number`. */
function socketWords(error: Error): string {
  return 'reason' in error && typeof error.reason === 'string' ? error.reason : errorMessage(error);
}

/** Waits for the event that makes a socket usable; rejects when the socket ends or the time is over. */
export async function established(socket: Socket, event: 'connect' | 'secureConnect', timeout: number): Promise<void> {
  const [enhanced, what] = event === 'connect' ? ['4.4.1', 'Cannot connect'] : ['4.7.5', 'The TLS handshake failed'];
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => reject(failure(enhanced, `${what}: timed out`)), timeout);
      socket.once(event, resolve);
      socket.once('error', (error) => reject(failure(enhanced, `${what}: ${socketWords(error)}`, error)));
      socket.once('close', () => reject(failure(enhanced, `${what}: the connection was closed`)));
    });
  } finally {
    clearTimeout(timer);
  }
}

const certificateFaults: Readonly<Record<string, TlsFault>> = {
  ERR_TLS_CERT_ALTNAME_INVALID: 'certificate-host-mismatch',
  CERT_HAS_EXPIRED: 'certificate-expired',
  CERT_NOT_YET_VALID: 'certificate-expired',
};

/** What is wrong with a certificate. @param error `authorizationError` of the socket: an error or its code */
export function certificateFault(error: unknown): TlsFault {
  return certificateFaults[errorCode(error) ?? String(error)] ?? 'certificate-not-trusted';
}

/** Puts TLS on a socket, and judges the certificate as the options ask. @throws HandshakeFailure with the fault of TLS */
export async function secured(socket: Socket, options: SmtpClientOptions): Promise<TLSSocket> {
  const secure = connectTls({ ...tlsOptions(options), socket });
  // The waiting code handles the first error; this listener keeps a second one from ending the process.
  secure.on('error', () => undefined);
  try {
    await established(secure, 'secureConnect', options.timeouts.handshake);
  } catch (thrown) {
    if (!(thrown instanceof HandshakeFailure)) throw thrown;
    // Node sets `authorizationError` where it refused a certificate, and only then.
    const isRefusal = secure.authorizationError !== null;
    const text =
      isRefusal && options.policy === undefined ? `${thrown.message}; ${remedyFor(options)}` : thrown.message;
    const tlsFault = isRefusal ? certificateFault(thrown.cause) : 'validation-failure';
    // What OpenSSL ends a handshake for has a reason.
    const wasLost = !isRefusal && !(thrown.cause instanceof Error && 'reason' in thrown.cause);
    throw new HandshakeFailure({ ...thrown.reply, text }, { cause: thrown, tlsFault, wasLost });
  }
  const refusal = options.judgePeer?.(secure);
  if (refusal === undefined) return secure;
  const reply = { code: 451, enhanced: '4.7.5', text: `The certificate of ${options.host} is refused: ${refusal}` };
  throw new HandshakeFailure(reply, { tlsFault: 'tlsa-invalid' });
}

/** Says what an operator can do about a refused certificate. */
export function remedyFor({ host, auth }: SmtpClientOptions): string {
  const what = auth ? `the password goes only to a next hop` : `the route asks for one`;
  return `${what} whose certificate is trusted here and names ${host}: trust its issuer (tls: { ca: FILE } in the route), or say tls: { verify: false } there`;
}
