import pg from 'pg';
import { errorCode } from '../errors.ts';

/** SQLSTATE too_many_connections. */
export const tooManyConnections = '53300';
/** How long no further connection is tried after one was refused, in milliseconds. */
const contentMs = 5000;

type Told = Parameters<pg.Pool['connect']>[0];

/**
 * A pool of connections that makes do with those that it has while the server lets no more in: the role, the database or the server
 * has as many as it may. Requests wait for those that are open, as they do once the pool has as many as it may itself.
 */
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
