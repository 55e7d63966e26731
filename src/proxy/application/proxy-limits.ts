// `proxy.limits` of the configuration: what it says for all applications, for one, and for an account (D84).

/** Limits of an application; absent ones are those of all applications, or the defaults. */
interface ApplicationLimits {
  /** Open TCP connections. */
  readonly connections?: number;
  /** Open UDP sessions. */
  readonly sessions?: number;
  /** Open connections or sessions of one client address. */
  readonly perClient?: number;
  /** Until an origin must have accepted and agreed on TLS. */
  readonly connectSeconds?: number;
  /** Silence after which a TCP connection is closed. */
  readonly tcpIdleSeconds?: number;
  /** Silence after which a UDP session is over. */
  readonly udpIdleSeconds?: number;
}

/** `proxy.limits`. */
export interface ProxyLimits extends ApplicationLimits {
  /** Open TCP connections of one account. */
  readonly accountConnections?: number;
  /** Open UDP sessions of one account. */
  readonly accountSessions?: number;
  /** Listening sockets of one account. */
  readonly accountListeners?: number;
  /** By id of the application, over those of all. */
  readonly applications?: Readonly<Record<string, ApplicationLimits>>;
}
