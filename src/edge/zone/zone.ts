// A zone and an account with the members of the configuration that the edge reads (D65, D66, D99).

import type { RequestLimits } from './open-requests.ts';

/** One Custom Error Rule (D65). */
export interface CustomErrorRule {
  readonly expression: string;
  /** Absent: true. */
  readonly enabled?: boolean;
  /** At most 10,240 octets. */
  readonly content: string;
  readonly contentType: 'text/html' | 'text/plain' | 'application/json' | 'text/xml';
  /** 400-599; absent: the status of the error. */
  readonly statusCode?: number;
}

/** Custom errors of a zone or an account in the configuration (D65). */
export interface CustomErrorSettings {
  readonly rules?: readonly CustomErrorRule[];
  /** Either `html` or `file`, which is an absolute path. */
  readonly errorPage?: { readonly html?: string; readonly file?: string };
}

/** A zone (D66, D99). */
export interface EdgeZone {
  /** 32 hex. */
  readonly id: string;
  /** A-label, lower case. */
  readonly name: string;
  /** Id of its account. */
  readonly account: string;
  /** The hostnames that the edge answers for: A-labels, lower case. */
  readonly hostnames: readonly string[];
  /** Absent: requests are answered with error 1004. */
  readonly origin?: string | { readonly url: string; readonly tls?: 'strict' | 'full' };
  /** Networks (CIDR) or addresses. */
  readonly block?: readonly string[];
  readonly allow?: readonly string[];
  readonly rateLimit?: { readonly requests: number; readonly perSeconds: number; readonly retryAfterSeconds?: number };
  readonly customErrors?: CustomErrorSettings;
}

/** An account as the edge reads it. */
export interface EdgeAccountSlice {
  readonly id: string;
  readonly plan: 'free' | 'payg' | 'enterprise';
  readonly customErrors?: CustomErrorSettings;
}

/** `edge` of the configuration (D66). */
export interface EdgeSettings {
  /** Octets; a request with a larger header section is error 1038. */
  readonly maxHeaderBytes: number;
  readonly connectTimeoutSeconds: number;
  /** Seconds without a response head (524), or without an octet of a body. */
  readonly responseTimeoutSeconds: number;
  /** Seconds that a request has for the head of its answer once its client has ended its side. */
  readonly afterCloseSeconds: number;
  /** Seconds for which the failure of an origin that cannot be connected to is told from memory; 0: never. */
  readonly originDownSeconds: number;
  readonly trustedProxies: readonly string[];
  /** How many requests may be open at a time (1200). */
  readonly limits: RequestLimits;
}

/** What holds where the configuration says nothing (D66). */
export const defaultEdgeSettings: EdgeSettings = {
  maxHeaderBytes: 32_768,
  connectTimeoutSeconds: 15,
  responseTimeoutSeconds: 100,
  afterCloseSeconds: 5,
  originDownSeconds: 1,
  trustedProxies: [],
  limits: { requests: 8000, requestsPerZone: 2000, requestsPerAddress: 400 },
};
