// What delivery is told: its slice of the configuration (D27, D42a, D96, D98).

interface RouteBase {
  readonly name: string;
  /** Every given list must hold the message; absent matches all. Names of accounts; domains in A-labels, lower case. */
  readonly match?: { readonly accounts?: readonly string[]; readonly recipientDomains?: readonly string[] };
  /** Send the platform's own DKIM signature along (D27). */
  readonly platformSignature: boolean;
}

/** Hands mail to one next hop. */
export interface SmarthostRoute extends RouteBase {
  readonly type: 'smarthost';
  readonly host: string;
  readonly port: number;
  /** `none` never, `opportunistic` STARTTLS if offered, `required` STARTTLS or nothing, `implicit` TLS from the first octet. */
  readonly tls: 'none' | 'opportunistic' | 'required' | 'implicit';
  /** Check the certificate and its name. With `auth` it is false only where the configuration says so in so many words. */
  readonly tlsVerify: boolean;
  /** Certificates to trust in place of the system's: absolute path of a PEM file, read at each handshake. */
  readonly caFile?: string;
  readonly auth?: { readonly user: string; readonly password: string };
  /** Connections at once. */
  readonly connections: number;
}

/** Writes mail into a Maildir: final delivery (D98). */
export interface CaptureRoute extends RouteBase {
  readonly type: 'capture';
  /** Absolute path of the Maildir. */
  readonly folder: string;
}

/** Where mail goes; the first route that matches takes it. */
export type Route = SmarthostRoute | CaptureRoute;

/** When a deferred message is tried again (D42a). */
export interface RetrySettings {
  readonly firstDelaySeconds: number;
  readonly factor: number;
  readonly maxDelaySeconds: number;
  /** 0.2: each delay is drawn from 80 % to 120 %. */
  readonly jitter: number;
  readonly expireAfterSeconds: number;
}

/** Delivery's slice. */
export interface DeliverySettings {
  /** What we call ourselves in EHLO. */
  readonly hostname: string;
  /** The last has no `match`. */
  readonly routes: readonly Route[];
  readonly retry: RetrySettings;
}
