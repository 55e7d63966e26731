// A way to a PostgreSQL that can be broken: a socket of its own, in front of the server's.

import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { scratchFolder } from './scratch.ts';

/**
 * What becomes of what passes. `open`: it passes. `silent`: connections are taken, and nothing passes in either direction.
 * `cut-after-commit`: the connection is cut once the server has answered COMMIT, before the client hears of it.
 */
export type Way = 'open' | 'silent' | 'cut-after-commit';

/** A connection of a client, and its continuation to the server. */
type Pair = readonly [client: Socket, server: Socket];

/** Whether octets that a client sends are of interest: a text, or anything else about them. */
type Sent = string | ((octets: Buffer) => boolean);

function matches(sent: Sent, octets: Buffer): boolean {
  return typeof sent === 'string' ? octets.includes(sent) : sent(octets);
}

/** Such a way. */
export class PostgresProxy {
  readonly #listener = createServer();
  readonly #folder = scratchFolder();
  readonly #pairs = new Set<Pair>();
  #way: Way = 'open';
  /** Connections on which this is sent are cut, and their octets go no further. */
  #cutting: Sent | undefined;
  /** Connections on which this is sent hear nothing. */
  #keeping: Sent | undefined;
  readonly #kept = new Set<Pair>();
  /** New connections are refused, as by a server that is about to stop. */
  refusesNew = false;
  /** How many connections were cut. */
  cuts = 0;
  /** On how many connections answers were kept back. */
  keptBack = 0;

  /** Opens a way to the server whose socket is in a folder. It is to be closed. */
  static async start(serverFolder: string): Promise<PostgresProxy> {
    const proxy = new PostgresProxy();
    const listener = proxy.#listener.on('connection', (client) => proxy.#take(client, serverFolder));
    await new Promise<void>((resolve) => listener.listen(join(proxy.#folder, '.s.PGSQL.5432'), resolve));
    return proxy;
  }

  /** The URL of a database of the server by this way. */
  url(url: string): string {
    return url.replace(/host=[^&]*/, `host=${encodeURIComponent(this.#folder)}`);
  }

  /** Changes the way, for open connections too. What a silent way has kept back passes once it is open. */
  set(way: Way): void {
    this.#way = way;
    for (const socket of [...this.#pairs].flat()) {
      if (way === 'silent') socket.pause();
      else socket.resume();
    }
  }

  /** From now on connections are cut on which a client sends this, before the server hears of it; undefined ends that. */
  cutAt(sent: Sent | undefined): void {
    this.#cutting = sent;
  }

  /** From now on what the server answers is kept back on connections on which a client sends this, until `passOn`. */
  keepBack(sent: Sent): void {
    this.#keeping = sent;
  }

  /** Passes on what was kept back. `keepBack` still holds for what is sent from now on. */
  passOn(): void {
    for (const [, server] of this.#kept) server.resume();
    this.#kept.clear();
  }

  close(): void {
    this.#listener.close();
    for (const socket of [...this.#pairs].flat()) socket.destroy();
  }

  #take(client: Socket, serverFolder: string): void {
    if (this.refusesNew) {
      client.destroy();
      return;
    }
    const server = connect(join(serverFolder, '.s.PGSQL.5432'));
    const pair: Pair = [client, server];
    this.#pairs.add(pair);
    for (const socket of pair) {
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#pairs.delete(pair);
        this.#kept.delete(pair);
        for (const one of pair) one.destroy();
      });
    }
    client.on('data', (octets) => this.#send(pair, octets));
    server.on('data', (octets) => {
      if (this.#way === 'cut-after-commit' && octets.includes('COMMIT\0')) this.#cut(pair);
      else client.write(octets);
    });
    if (this.#way === 'silent') for (const socket of pair) socket.pause();
  }

  #send(pair: Pair, octets: Buffer): void {
    const [, server] = pair;
    if (this.#cutting !== undefined && matches(this.#cutting, octets)) {
      this.#cut(pair);
      return;
    }
    if (this.#keeping !== undefined && matches(this.#keeping, octets)) {
      server.pause();
      this.#kept.add(pair);
      this.keptBack += 1;
    }
    server.write(octets);
  }

  #cut(pair: Pair): void {
    this.cuts += 1;
    for (const socket of pair) socket.destroy();
  }
}
