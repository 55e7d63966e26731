// What other processes on the same PostgreSQL have changed: one connection of each process listens, and every change that others should
// see at once tells of itself in its commit (https://www.postgresql.org/docs/current/sql-notify.html). Such a message may be lost with a
// connection, so whoever is told looks regularly as well.

import type pg from 'pg';
import { randomHex } from '../ids.ts';
import { Part } from '../part.ts';
import type { ServerConnections } from '../postgres/server-connections.ts';
import type { ServerUrl } from '../postgres/server-hosts.ts';
import type { Changes } from './database.ts';
import { singleClient } from './postgres-pool.ts';

/** How long after a loss the connection is opened again, in milliseconds. */
const againMs = 1000;
/** How often the connection is tried, in milliseconds: one whose other end has gone without a word says nothing. */
const aliveMs = 10_000;
/** A listener is called this often at most, in milliseconds. */
const calledMs = 50;

/** This process, so that it passes over its own messages. */
const self = randomHex(8);

/** The channel of the tables in one schema. A name has 63 octets at most. */
const channel = "left('postern.' || current_schema(), 63)";

/** Tells the other processes of a change, in the transaction that makes it. @param subject a constant: a word of this program */
export function tellOthers(subject: string): string {
  return `SELECT pg_notify(${channel}, '${subject} ${self}')`;
}

/** Calls a listener at once, and at the end of a pause for all that came during it. */
function callingOf(listener: () => void) {
  let pause: NodeJS.Timeout | undefined;
  let isAsked = false;
  const call = (): void => {
    isAsked = pause !== undefined;
    if (isAsked) return;
    listener();
    pause = setTimeout(() => {
      pause = undefined;
      if (isAsked) call();
    }, calledMs);
  };
  return { call, stop: () => clearTimeout(pause) };
}
type Calling = ReturnType<typeof callingOf>;

/** The changes in one database. The connection is opened when somebody wants to know of them. */
export class PostgresChanges
  extends Part<{ readonly url: ServerUrl; readonly opened: ServerConnections }>
  implements Changes
{
  readonly #listeners = new Map<string, Set<Calling>>();
  #client: pg.Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #connecting: Promise<void> | undefined;
  #isClosed = false;

  on(subject: string, listener: () => void): () => void {
    const calling = callingOf(listener);
    const all = this.#listeners.get(subject) ?? new Set<Calling>();
    this.#listeners.set(subject, all.add(calling));
    if (!this.#client && !this.#connecting && !this.#isClosed) this.#connect();
    return () => {
      calling.stop();
      all.delete(calling);
    };
  }

  /** Ends the connection; nobody is called any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const all of this.#listeners.values()) for (const calling of all) calling.stop();
    this.#listeners.clear();
    await this.#connecting;
    await this.#client?.end().catch(() => undefined);
  }

  #connect(): void {
    this.#connecting = this.#open().then(
      (client) => {
        this.#connecting = undefined;
        this.#client = client;
        // What others changed while nobody listened.
        for (const subject of this.#listeners.keys()) this.#told(subject);
        this.#timer = setInterval(() => {
          // A connection that does not answer is broken off, which `lost` hears of.
          client.query('SELECT 1').catch(() => this.#lost(client));
        }, aliveMs);
      },
      () => {
        this.#connecting = undefined;
        this.#again();
      },
    );
  }

  async #open(): Promise<pg.Client> {
    const client = singleClient({ url: this.parts.url, opened: this.parts.opened });
    client.on('error', () => this.#lost(client));
    client.on('notification', ({ payload = '' }) => {
      const [subject = '', from] = payload.split(' ');
      if (from !== self) this.#told(subject);
    });
    try {
      await client.connect();
      const { rows } = await client.query<{ channel: string }>(`SELECT ${channel} AS channel`);
      await client.query(`LISTEN "${(rows[0]?.channel ?? '').replaceAll('"', '""')}"`);
      return client;
    } catch (thrown) {
      void client.end().catch(() => undefined);
      throw thrown;
    }
  }

  #told(subject: string): void {
    for (const calling of this.#listeners.get(subject) ?? []) calling.call();
  }

  #lost(client: pg.Client): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    clearInterval(this.#timer);
    void client.end().catch(() => undefined);
    this.#again();
  }

  #again(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => this.#connect(), againMs);
  }
}
