// Where the gateway listens: the addresses that the configuration names and, once they are bound, the actual ones.

import type { OwnDoor } from '../../base/net/own-doors.ts';
import { addressTest, hostPort } from '../../base/net/socket-address.ts';
import type { Config } from '../config/config.ts';

const isLoopback = addressTest(['127.0.0.0/8', '::1']);

/** A bound address. */
export interface Listening {
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

/** The listeners that a configuration names. Port 0 stands for a port known only once it is bound (D84). */
export function configuredListeners({ smtp, http }: Config): readonly Listening[] {
  const { listen, tlsListen, adminListen } = http;
  return [
    ...smtp.listeners.map(({ name, host, port }) => ({ name, host, port })),
    { name: 'http', ...listen },
    ...(tlsListen ? [{ name: 'https', ...tlsListen }] : []),
    ...(adminListen ? [{ name: 'admin', ...adminListen }] : []),
  ];
}

/** The addresses that the listeners are to be bound to, as far as they are known. */
export function configuredDoors(config: Config): readonly OwnDoor[] {
  return configuredListeners(config).filter(({ port }) => port !== 0);
}

/** The listeners of mail and HTTP: at first those that the configuration names, then those that are bound. */
export class GatewayAddresses {
  readonly #config: () => Config;
  #http: readonly Listening[] = [];
  #mail: readonly Listening[] = [];

  /** @param config gives the configuration in force; it is called each time */
  constructor(config: () => Config) {
    this.#config = config;
  }

  setHttp(bound: readonly Listening[]): void {
    this.#http = bound;
  }

  /** Sets the listeners of mail that are bound. They come before those of HTTP in `listening`. */
  setMail(bound: readonly Listening[]): void {
    this.#mail = bound;
  }

  get listening(): readonly Listening[] {
    return [...this.#mail, ...this.#http];
  }

  /** The gateway's own addresses, which no proxy application may have for its origin (D84). */
  ownDoors(): readonly OwnDoor[] {
    return [...configuredDoors(this.#config()), ...this.listening];
  }

  /** The start of the documentation's URLs (D62): as configured, else of plain HTTP in a development on loopback, which its reader reaches. */
  docsBaseUrl(): string | undefined {
    const { http, development } = this.#config();
    if (http.docsBaseUrl !== undefined) return http.docsBaseUrl;
    const bound = this.#http.find(({ name }) => name === 'http') ?? http.listen;
    const isReached = development && !http.adminListen && isLoopback(bound.host);
    return isReached ? `http://${hostPort(bound.host, bound.port)}` : undefined;
  }
}
