// What the SMTP door is told: its slice of the configuration (D40, D40c, D42).

/** One SMTP listener. */
export interface SmtpListener {
  readonly name: string;
  readonly role: 'submission' | 'bounce';
  /** IP address to bind. */
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly tls: 'starttls' | 'implicit' | 'none';
  readonly allowInsecureAuth: boolean;
  readonly trustedHop: boolean;
  readonly lineEndings: 'fix' | 'reject';
  /** iconv-lite name. */
  readonly legacyCharset: string;
  /** CIDRs of load balancers whose PROXY header is required and believed. */
  readonly proxyProtocolFrom: readonly string[];
  /** Sessions from `allowFrom` are this credential, without AUTH (D40c). */
  readonly credential?: { readonly account: string; readonly name: string };
  /** CIDRs; non-empty exactly where `credential` is given. */
  readonly allowFrom: readonly string[];
}

/** Limits of every SMTP listener (D42); sizes in octets. */
export interface SmtpLimits {
  readonly messageBytes: number;
  readonly recipients: number;
  readonly connections: number;
  readonly connectionsPerAddress: number;
  readonly authFailures: number;
  readonly authSeconds: number;
  readonly commandSeconds: number;
  readonly dataIdleSeconds: number;
  /** The least octets of DATA a second, on the average of a minute in which some come; 0: any pace. */
  readonly dataOctetsPerSecond: number;
  readonly idleSeconds: number;
}

/** The SMTP door's slice. */
export interface SmtpSettings {
  /** Greeting, Received `by`. */
  readonly hostname: string;
  /** Only the enabled ones. */
  readonly listeners: readonly SmtpListener[];
  readonly limits: SmtpLimits;
}
