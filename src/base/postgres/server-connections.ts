// The connections of one owner, so that all can be broken off: a server that hangs does not even answer their end.

import type { Socket } from 'node:net';
import type pg from 'pg';

/** The connections that are open or being opened. */
export class ServerConnections {
  readonly #open = new Set<pg.Client>();
  /** They were broken off, and none is opened any more. */
  isCut = false;

  /** Notes a connection that is about to be opened. @throws Error after `cut` */
  note(client: pg.Client): void {
    if (this.isCut) throw new Error('The connections to the database were broken off');
    this.#open.add(client);
    client.once('end', () => this.#open.delete(client));
  }

  /** Breaks all of them off: what waits for an answer fails, and so does what is asked from now on. */
  cut(): void {
    this.isCut = true;
    for (const client of this.#open) breakOff(client);
  }
}

/** Breaks a connection off without a word to the server, which may not answer. */
export function breakOff(client: pg.Client): void {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the driver's types leave its connection out
  const { connection } = client as unknown as { readonly connection: { readonly stream: Socket } };
  connection.stream.destroy();
}
