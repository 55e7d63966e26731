// Connections that lead to the server that takes changes: of several servers in the URL the primary, also after a failover.

import { callbackify } from 'node:util';
import pg from 'pg';
import { errorCode, errorMessage } from '../errors.ts';
import { onceAtATime } from '../load/once-at-a-time.ts';
import { Part } from '../part.ts';
import type { ServerConnections } from './server-connections.ts';
import { currentUrl, hostName, passwordIn, type ServerHost, type ServerUrl } from './server-hosts.ts';
import { requireUsable } from './server-settings.ts';

/** How long one server may take to answer when the primary is looked for, in milliseconds. */
const lookMs = 3000;

/** Why all servers alike take nobody by these settings (SQLSTATE 28, 3D, or codes of TLS); undefined where only some do. */
function allRefuse([first, ...others]: readonly (string | undefined)[]): string | undefined {
  return first !== undefined && /^(?:28|3D)|_/.test(first) && others.every((code) => code === first)
    ? first
    : undefined;
}

interface FinderOptions {
  readonly hosts: readonly ServerHost[];
  /** Those of the connections; the server in them is passed over. */
  readonly settings: pg.ClientConfig;
  /** Gives the password of each connection; of a text it is in the settings. */
  readonly url: ServerUrl;
  /** Those of the owner: once they were broken off, no server is looked at; absent: nobody does. */
  readonly opened?: ServerConnections | undefined;
}

/** Finds out which of several servers takes changes, and remembers it until it does not. */
export class PrimaryFinder extends Part<FinderOptions> {
  #known = this.parts.hosts.length === 1 ? this.parts.hosts[0] : undefined;
  readonly #lookOnce = onceAtATime(() => this.#look());

  /** The server to connect to. @throws Error where none of several takes changes now */
  find(): Promise<ServerHost> {
    return this.#known ? Promise.resolve(this.#known) : this.#lookOnce();
  }

  /** A server is away, or takes no changes: the next connection looks at all. */
  lost(host: ServerHost): void {
    if (this.parts.hosts.length > 1 && this.#known === host) this.#known = undefined;
  }

  /** Directs a connection that is not open yet to a server, with the password of now. */
  aim(client: pg.Client, { host, port }: ServerHost): void {
    Object.assign(client, host === undefined ? {} : { host }, port === undefined ? {} : { port });
    const { url } = this.parts;
    if (typeof url === 'string') return;
    try {
      const password = passwordIn(currentUrl(url));
      if (password !== undefined) Object.assign(client, { password });
    } catch {
      // While its file is being written anew there may be none: the one of before is tried.
    }
  }

  async #look(): Promise<ServerHost> {
    try {
      this.#known = await Promise.any(this.parts.hosts.map((host) => this.#lookAt(host)));
      return this.#known;
    } catch (thrown) {
      const errors: readonly unknown[] = thrown instanceof AggregateError ? thrown.errors : [thrown];
      const words = errors.map((error, at) => `${hostName(this.parts.hosts[at] ?? {})}: ${errorMessage(error)}`);
      const error = new Error(`none of the servers takes changes: ${words.join('; ')}`);
      const codes = errors.map(errorCode);
      const code = codes.includes(tooManyConnections) ? tooManyConnections : allRefuse(codes);
      throw code === undefined ? error : Object.assign(error, { code });
    }
  }

  async #lookAt(host: ServerHost): Promise<ServerHost> {
    const Client = primaryClient(new PrimaryFinder({ ...this.parts, hosts: [host] }), this.parts.opened);
    const client = new Client({ ...this.parts.settings, connectionTimeoutMillis: lookMs, query_timeout: lookMs });
    await client.connect();
    void client.end().catch(() => undefined);
    return host;
  }
}

/** Why no connection can be made by some settings; undefined where one can. The driver reads the files that they name. */
function faultOf(settings: pg.ClientConfig): Error | undefined {
  try {
    return new pg.Client(settings) instanceof pg.Client ? undefined : new Error('The driver makes no connection');
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(errorMessage(thrown));
  }
}

/** Makes the driver's connections to the server that takes changes. @param connections the owner's; absent: nobody breaks them off */
export function primaryClient(finder: PrimaryFinder, connections?: ServerConnections): typeof pg.Client {
  return class PrimaryClient extends pg.Client {
    readonly #fault: Error | undefined;

    constructor(settings: pg.ClientConfig = {}) {
      // A pool makes some of its connections where nobody catches what is thrown: what is wrong is told when one is opened.
      const fault = faultOf(settings);
      const { connectionString: _, ...others } = settings;
      super(fault ? others : settings);
      this.#fault = fault;
      // One that breaks between two owners, as while a pool looks at a new one, would end the process: its next statement fails.
      this.on('error', () => undefined);
    }

    override connect(): Promise<pg.Client>;
    override connect(callback: Parameters<pg.Client['connect']>[0]): void;
    override connect(callback?: Parameters<pg.Client['connect']>[0]): Promise<pg.Client> | void {
      if (!callback) return this.#connect();
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the pool's callback takes an error or nothing
      callbackify(() => this.#connect())(callback as (error: Error) => void);
    }

    async #connect(): Promise<pg.Client> {
      if (this.#fault) throw this.#fault;
      const host = await finder.find();
      finder.aim(this, host);
      connections?.note(this);
      try {
        await super.connect();
        // Settings of a user or a database hold for new connections: each is asked whether its word is worth anything. A primary of
        // before may come back as one that may only be read, which is no standby.
        await requireUsable(this);
      } catch (thrown) {
        finder.lost(host);
        void this.end().catch(() => undefined);
        throw thrown;
      }
      // A primary that goes away, or is made a standby, breaks its connections.
      this.once('error', () => finder.lost(host));
      return this;
    }
  };
}

/** SQLSTATE too_many_connections. */
export const tooManyConnections = '53300';
/** How long no further connection is tried after one was refused, in milliseconds. */
const contentMs = 5000;

type Told = Parameters<pg.Pool['connect']>[0];

/** A pool that makes do with its connections while the server lets no more in, and has requests wait for those meanwhile. */
export class SharingPool extends pg.Pool {
  readonly #most = this.options.max;
  /** How long a request waits for a connection, in milliseconds. */
  readonly #waitMs = this.options.connectionTimeoutMillis ?? 0;
  #refusedAt = Number.NEGATIVE_INFINITY;

  override connect(): Promise<pg.PoolClient>;
  override connect(callback: Told): void;
  override connect(told?: Told): Promise<pg.PoolClient> | void {
    const connecting = this.#connect();
    if (!told) return connecting;
    connecting.then(
      (client) => told(undefined, client, (release) => client.release(release)),
      (thrown: Error) => told(thrown, undefined, () => undefined),
    );
  }

  async #connect(): Promise<pg.PoolClient> {
    const until = performance.now() + this.#waitMs;
    if (performance.now() - this.#refusedAt > contentMs) this.options.max = this.#most;
    for (;;) {
      try {
        return await super.connect();
      } catch (thrown) {
        const isRefused = errorCode(thrown) === tooManyConnections;
        if (!isRefused || this.totalCount === 0 || performance.now() > until) throw thrown;
        this.#refusedAt = performance.now();
        this.options.max = this.totalCount;
      }
    }
  }
}
