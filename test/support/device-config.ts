// The least configuration for tests that speak bare SMTP: one listener without AUTH and TLS for loopback (D40c).

/** What a test adds or replaces, by top-level key; `smtpLimits` go below `smtp`. */
export interface DeviceConfigOptions {
  readonly routes: readonly object[];
  readonly smtpLimits?: object;
  readonly delivery?: object;
  readonly zones?: readonly object[];
  readonly proxy?: object;
  /** `limits` of the configuration. */
  readonly limits?: object;
  readonly spool?: object;
  /** Keys of the account. */
  readonly account?: object;
  /** Keys of the credential. */
  readonly credential?: object;
  /** Listeners beside the one. */
  readonly listeners?: readonly object[];
  readonly bounces?: object;
  readonly processes?: number;
  readonly database?: object;
  /** `journal` of the configuration. */
  readonly journal?: object | undefined;
}

/** A configuration whose only listener is `devices`, with account dev, credential devices and domain example.com. */
export function deviceConfiguration({
  routes,
  smtpLimits,
  delivery,
  zones,
  proxy,
  limits,
  spool,
  account,
  credential,
  listeners = [],
  bounces,
  processes,
  database,
  journal,
}: DeviceConfigOptions): object {
  return {
    development: { account: 'dev', credential: 'devices' },
    http: { listen: '127.0.0.1:0' },
    smtp: {
      listeners: [
        {
          name: 'devices',
          role: 'submission',
          listen: '127.0.0.1:0',
          tls: 'none',
          credential: 'dev/devices',
          allowFrom: ['127.0.0.0/8'],
        },
        ...listeners,
      ],
      ...(smtpLimits ? { limits: smtpLimits } : {}),
    },
    routes,
    ...(delivery ? { delivery } : {}),
    ...(zones ? { zones } : {}),
    ...(proxy ? { proxy } : {}),
    ...(limits ? { limits } : {}),
    ...(spool ? { spool } : {}),
    ...(bounces ? { bounces } : {}),
    ...(processes ? { processes } : {}),
    ...(database ? { database } : {}),
    ...(journal ? { journal } : {}),
    accounts: [
      {
        name: 'dev',
        id: 'a1'.repeat(16),
        sendingDomains: [{ name: 'example.com' }],
        credentials: [{ name: 'devices', scopes: ['email:send'], ...credential }],
        ...account,
      },
    ],
  };
}

/** The route that keeps everything in the capture Maildir. */
export const captureRoute = { name: 'default', type: 'capture', folder: 'capture' } as const;
