// What other processes on the same PostgreSQL have changed: one connection of each process listens, and every change that others should
// see at once tells of itself in its commit (https://www.postgresql.org/docs/current/sql-notify.html). Such a message may be lost with a
// connection, so whoever is told looks regularly as well.

import { setTimeout as sleep } from 'node:timers/promises';
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
  readonly #closing = new AbortController();
  #listening: Promise<void> | undefined;

  on(subject: string, listener: () => void): () => void {
    const calling = callingOf(listener);
    const all = this.#listeners.get(subject) ?? new Set<Calling>();
    this.#listeners.set(subject, all.add(calling));
    this.#listening ??= this.#listen(this.#closing.signal);
    return () => {
      calling.stop();
      all.delete(calling);
    };
  }

  /** Ends the connection; nobody is called any more. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const all of this.#listeners.values()) for (const calling of all) calling.stop();
    this.#listeners.clear();
    await this.#listening;
  }

  /** Listens on one connection after another. */
  async #listen(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const client = singleClient(this.parts);
      await this.#listenOn(client, signal).catch(() => undefined);
      const ended = client.end().catch(() => undefined);
      if (signal.aborted) await ended;
      await sleep(againMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** @throws Error where the connection cannot be opened, once it is lost, or where it is given up */
  async #listenOn(client: pg.Client, signal: AbortSignal): Promise<never> {
    const lost = new AbortController();
    client.on('error', () => lost.abort());
    client.on('notification', ({ payload = '' }) => {
      const [subject = '', from] = payload.split(' ');
      if (from !== self) this.#told(subject);
    });
    await client.connect();
    const { rows } = await client.query<{ channel: string }>(`SELECT ${channel} AS channel`);
    await client.query(`LISTEN "${(rows[0]?.channel ?? '').replaceAll('"', '""')}"`);
    // What others changed while nobody listened.
    for (const subject of this.#listeners.keys()) this.#told(subject);
    for (const ended = AbortSignal.any([signal, lost.signal]); ; ) {
      await sleep(aliveMs, undefined, { signal: ended, ref: false });
      // A connection that does not answer is broken off.
      await client.query('SELECT 1');
    }
  }

  #told(subject: string): void {
    for (const calling of this.#listeners.get(subject) ?? []) calling.call();
  }
}
