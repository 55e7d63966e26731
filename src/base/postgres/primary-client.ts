// ServerConnections that lead to the server that takes changes: of several servers in the URL the primary, also after a failover.

import pg from 'pg';
import { errorMessage } from '../errors.ts';
import type { ServerConnections } from './server-connections.ts';
import { hostName, type ServerHost } from './server-hosts.ts';

/** How long one server may take to answer when the primary is looked for, in milliseconds. */
const lookMs = 3000;

/** SQLSTATE read_only_sql_transaction. */
const readOnly = '25006';

/** A connection to a standby was refused by ourselves. */
class IsStandby extends Error {
  readonly code = readOnly;
}

/** Whether a server has said that it is a standby. Servers tell it at each connection and at each change (version 14 on). */
class Standing {
  isStandby = false;

  constructor(client: pg.Client) {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the driver's types leave out its connection
    const { connection } = client as unknown as { readonly connection: NodeJS.EventEmitter };
    connection.on('parameterStatus', ({ parameterName: name, parameterValue: value }: Record<string, unknown>) => {
      if (name === 'in_hot_standby') this.isStandby = value === 'on';
    });
  }
}

/** Finds out which of several servers takes changes, and remembers it until it does not. */
export class PrimaryFinder {
  readonly #hosts: readonly ServerHost[];
  readonly #settings: pg.ClientConfig;
  #known: ServerHost | undefined;
  #looking: Promise<ServerHost> | undefined;

  /** @param settings those of the connections; the server in them is passed over */
  constructor(hosts: readonly ServerHost[], settings: pg.ClientConfig) {
    this.#hosts = hosts;
    this.#settings = settings;
    if (hosts.length === 1) this.#known = hosts[0];
  }

  /** The server to connect to. @throws Error where none of several takes changes now */
  find(): Promise<ServerHost> {
    if (this.#known) return Promise.resolve(this.#known);
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  /** A server could not be reached, or takes no changes: the next connection looks at all of them. */
  lost(host: ServerHost): void {
    if (this.#hosts.length > 1 && this.#known === host) this.#known = undefined;
  }

  async #look(): Promise<ServerHost> {
    const looks = this.#hosts.map((host) => this.#lookAt(host));
    try {
      this.#known = await Promise.any(looks);
      return this.#known;
    } catch {
      const ends = await Promise.allSettled(looks);
      const words = ends.map((end, index) => {
        const reason = end.status === 'rejected' ? errorMessage(end.reason) : 'ended';
        return `${hostName(this.#hosts[index] ?? {})}: ${reason}`;
      });
      throw new Error(`none of the servers takes changes: ${words.join('; ')}`);
    }
  }

  async #lookAt(host: ServerHost): Promise<ServerHost> {
    const client = new pg.Client({ ...this.#settings, connectionTimeoutMillis: lookMs });
    aim(client, host);
    const standing = new Standing(client);
    client.on('error', () => undefined);
    try {
      await client.connect();
      if (standing.isStandby) throw new IsStandby('it is a standby, which takes no changes');
      return host;
    } finally {
      void client.end().catch(() => undefined);
    }
  }
}

/** Directs a connection that is not open yet to a server. */
function aim(client: pg.Client, { host, port }: ServerHost): void {
  Object.assign(client, host === undefined ? {} : { host }, port === undefined ? {} : { port });
}

/**
 * Makes the class of the driver's connections that a pool opens. Each leads to the server that takes changes.
 * @param connections those of the owner; absent: nobody breaks them off
 */
export function primaryClient(finder: PrimaryFinder, connections?: ServerConnections): typeof pg.Client {
  return class PrimaryClient extends pg.Client {
    readonly #standing = new Standing(this);

    override connect(): Promise<pg.Client>;
    override connect(callback: Parameters<pg.Client['connect']>[0]): void;
    override connect(callback?: Parameters<pg.Client['connect']>[0]): Promise<pg.Client> | void {
      const connecting = this.#connect();
      if (!callback) return connecting;
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the pool's callback takes an error or nothing
      const told = callback as (error?: Error) => void;
      connecting.then(
        () => told(),
        (error: unknown) => told(error instanceof Error ? error : new Error(errorMessage(error))),
      );
    }

    async #connect(): Promise<pg.Client> {
      const host = await finder.find();
      aim(this, host);
      connections?.note(this);
      try {
        await super.connect();
      } catch (thrown) {
        finder.lost(host);
        throw thrown;
      }
      if (!this.#standing.isStandby) {
        // A primary that goes away, or is made a standby, breaks its connections.
        this.once('error', () => finder.lost(host));
        return this;
      }
      finder.lost(host);
      void this.end().catch(() => undefined);
      throw new IsStandby(`The PostgreSQL at ${hostName(host)} is a standby, which takes no changes`);
    }
  };
}
