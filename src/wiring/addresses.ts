// Where the gateway listens: what the configuration names, and what is bound once it is known.

import { formatHostPort } from '../config/addresses.ts';
import type { Config } from '../config.ts';
import type { OwnDoor } from '../proxy/application/own-doors.ts';

/** A bound address. */
export interface Listening {
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

/** What listeners are to be bound to; a port 0 is known only once it is bound (D84). */
export function configuredDoors({ smtp, http }: Config): readonly OwnDoor[] {
  const { listen, tlsListen, adminListen } = http;
  return [...smtp.listeners, listen, ...(tlsListen ? [tlsListen] : []), ...(adminListen ? [adminListen] : [])]
    .map(({ host, port }) => ({ host, port }))
    .filter(({ port }) => port !== 0);
}

/** The listeners of mail and HTTP: at first those of the configuration, then what has been bound. */
export class GatewayAddresses {
  readonly #config: () => Config;
  #http: readonly Listening[] = [];
  #mail: readonly Listening[] = [];

  /** @param config the one in force, asked for each time */
  constructor(config: () => Config) {
    this.#config = config;
  }

  /** Keeps the listeners of HTTP that are bound. */
  setHttp(bound: readonly Listening[]): void {
    this.#http = bound;
  }

  /** Keeps the listeners of mail that are bound now, which are told before those of HTTP. */
  setMail(bound: readonly Listening[]): void {
    this.#mail = bound;
  }

  /** Every listener that is up. */
  get listening(): readonly Listening[] {
    return [...this.#mail, ...this.#http];
  }

  /** What no proxy application may have for its origin (D84). */
  ownDoors(): readonly OwnDoor[] {
    return [...configuredDoors(this.#config()), ...this.listening];
  }

  /** The start of the documentation's URLs (D62): the configured one, or where plain HTTP listens. */
  docsBaseUrl(): string {
    const { docsBaseUrl, listen } = this.#config().http;
    return docsBaseUrl ?? `http://${formatHostPort(this.#http.find(({ name }) => name === 'http') ?? listen)}`;
  }
}
