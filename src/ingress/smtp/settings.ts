// What the SMTP door is told: its slice of the configuration (D40, D40c, D42), and which listeners of another one stay.

import { isDeepStrictEqual } from 'node:util';
import type { ObservePeriod } from '../../accounts/observe-period.ts';
import { ConfigurationError } from '../../base/errors.ts';

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
  /** Until when its messages are observed, not refused (D4c). */
  readonly observe?: ObservePeriod;
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

/** What becomes of the listeners. */
export interface ListenerChanges<Served> {
  /** Those whose socket stays, with their settings of the next configuration, and whether these are others. */
  readonly kept: readonly { readonly served: Served; readonly next: SmtpListener; readonly isChanged: boolean }[];
  readonly added: readonly SmtpListener[];
  readonly removed: readonly Served[];
}

/** Where a listener is bound, which is what a socket is known by. Port 0 is any free one: such listeners are told apart by their names. */
function placeOf({ name, host, port }: SmtpListener): string {
  return port === 0 ? `${host} ${port} ${name}` : `${host} ${port}`;
}

/**
 * Compares the listeners at work with those of the next configuration.
 * @throws ConfigurationError where the TLS of one would change, for which its socket would have to be bound anew
 */
export function compareListeners<Served extends { readonly listener: SmtpListener }>(
  atWork: readonly Served[],
  next: readonly SmtpListener[],
): ListenerChanges<Served> {
  const byPlace = new Map(atWork.map((served) => [placeOf(served.listener), served]));
  const kept: { served: Served; next: SmtpListener; isChanged: boolean }[] = [];
  const added: SmtpListener[] = [];
  for (const listener of next) {
    const served = byPlace.get(placeOf(listener));
    if (!served) {
      added.push(listener);
      continue;
    }
    const before = served.listener;
    if (before.tls !== listener.tls) {
      const text = `SMTP listener "${listener.name}": tls changes from ${before.tls} to ${listener.tls}; restart to change tls of a listener, or give it another port`;
      throw new ConfigurationError(text);
    }
    kept.push({ served, next: listener, isChanged: !isDeepStrictEqual(before, listener) });
  }
  const places = new Set(next.map(placeOf));
  return { kept, added, removed: atWork.filter(({ listener }) => !places.has(placeOf(listener))) };
}
