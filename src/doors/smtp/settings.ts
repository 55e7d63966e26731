// The configuration of the SMTP door (D40, D40c, D42) and of the listeners for bounces (D40a), and which listeners stay when it changes.

import { isDeepStrictEqual } from 'node:util';
import type { ObservePeriod } from '../../accounts/observe-period.ts';
import type { SenderMap } from '../../accounts/sender-map.ts';
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
  /** Sessions from `allowFrom` have this credential, without AUTH (D40c). */
  readonly credential?: { readonly account: string; readonly name: string };
  /** CIDRs of the clients that need no AUTH; non-empty exactly where `credential` is given. */
  readonly allowFrom: readonly string[];
  /** Until when its messages are observed instead of being refused (D4c). */
  readonly observe?: ObservePeriod;
  /** What senders become that nobody owns, in place of what the credential says (D4d). */
  readonly senders?: SenderMap;
  /** What comes is copies, which are judged and never sent (D4f). */
  readonly shadow?: true;
}

/** Limits of every SMTP listener (D42); sizes in octets. */
export type SmtpLimits = Readonly<typeof defaultSmtpLimits>;

/** What holds where the configuration says nothing (D42). */
export const defaultSmtpLimits = {
  messageBytes: 5_242_880,
  recipients: 1000,
  connections: 1000,
  connectionsPerAddress: 100,
  authFailures: 3,
  authSeconds: 30,
  commandSeconds: 60,
  dataIdleSeconds: 300,
  /** The least octets of DATA a second, averaged over a minute in which some come; 0: no minimum. */
  dataOctetsPerSecond: 100,
  idleSeconds: 300,
};

/** The settings of the SMTP door. */
export interface SmtpSettings {
  /** The host name in the greeting and in Received `by`. */
  readonly hostname: string;
  readonly listeners: readonly SmtpListener[];
  readonly limits: SmtpLimits;
}

/** The place where a listener is bound, which identifies its socket. Listeners on port 0 are identified by their names. */
function addressOf({ name, host, port }: SmtpListener): string {
  return port === 0 ? `${host} ${port} ${name}` : `${host} ${port}`;
}

const portVariables = { starttls: 'POSTERN_SMTP_PORT', implicit: 'POSTERN_SMTPS_PORT' } as const;

/** What says where a listener listens, in the file and in the environment (D96), for errors. @param all the listeners in the file's order */
export function listenSetting({ name, tls }: SmtpListener, all: readonly SmtpListener[]): string {
  const first = all.find((listener) => listener.role === 'submission' && listener.tls === tls);
  const variable = tls !== 'none' && first?.name === name ? `, or ${portVariables[tls]}` : '';
  return `listen of "${name}" in smtp.listeners${variable}`;
}

/**
 * Compares the current listeners with those of the next configuration.
 * @returns `kept`: those whose socket stays, with their next settings, and whether these differ; those that are added and removed
 * @throws ConfigurationError where the TLS mode of one would change, because its socket would have to be bound anew
 */
export function compareListeners<Served extends { readonly listener: SmtpListener }>(
  atWork: readonly Served[],
  next: readonly SmtpListener[],
) {
  const byPlace = new Map(atWork.map((served) => [addressOf(served.listener), served]));
  const kept: { served: Served; next: SmtpListener; isChanged: boolean }[] = [];
  const added: SmtpListener[] = [];
  for (const listener of next) {
    const served = byPlace.get(addressOf(listener));
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
  const places = new Set(next.map(addressOf));
  return { kept, added, removed: atWork.filter(({ listener }) => !places.has(addressOf(listener))) };
}

/** What reports may cost; sizes in octets. */
export type BounceSettings = Readonly<typeof defaultBounceSettings>;

/** What holds where the configuration is silent (D40a). Octets and connections are constants: who finds no room comes again. */
export const defaultBounceSettings = {
  /** How many days after its message a token counts. */
  tokenDays: 30,
  messageBytes: 1_048_576,
  connections: 200,
  connectionsPerAddress: 50,
  messagesPerMinute: 15_000,
};
