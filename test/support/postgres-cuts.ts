// Stands between a spool and a server of PostgreSQL, on a socket in a folder of its own, and cuts all connections at a chosen
// moment: when the server has kept a transaction and the spool has not heard of it yet, or before the server hears of it.

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { PostgresServer } from './postgres.ts';

/** The server's answer to COMMIT (CommandComplete, https://www.postgresql.org/docs/current/protocol-message-formats.html). */
const committed = Buffer.from('C\0\0\0\x0bCOMMIT\0', 'latin1');
/** A column of the answer to a claim that has taken something, and the end of one that has not. */
const [claimed, nothing] = [Buffer.from('due_recipients\0'), Buffer.from('SELECT 0\0')];
const socketName = '.s.PGSQL.5432';

/**
 * When connections are cut: at the next answer to COMMIT, which is not passed on; at the next octets that the spool sends, which
 * are not passed on either; at the next answer to a claim that has taken something, which is not passed on; at the answer to the
 * COMMIT of such a claim.
 */
export type Moment = 'answer to COMMIT' | 'question' | 'answer to a claim' | 'commit of a claim';

/** A proxy in front of a server. */
export interface PostgresCuts {
  /** The URL of the same database through the proxy. */
  url(direct: string): string;
  /** Cuts all connections at a moment, and takes no others until `open`. @returns resolves once that has happened */
  cutAt(moment: Moment): Promise<void>;
  /** Takes connections again. */
  open(): void;
}

/** Starts one; it ends with the test. */
export async function startPostgresCuts(server: PostgresServer): Promise<PostgresCuts> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-pg-proxy-'));
  const sockets = new Set<Socket>();
  let isOpen = true;
  let armed: { moment: Moment; readonly done: () => void } | undefined;
  const cut = (): void => {
    isOpen = false;
    for (const socket of sockets) socket.destroy();
    armed?.done();
    armed = undefined;
  };
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  };
  const listener = createServer((client) => {
    keep(client);
    if (!isOpen) {
      client.destroy();
      return;
    }
    const upstream = connect(join(server.folder, socketName));
    keep(upstream);
    client.on('data', (octets) => (armed?.moment === 'question' ? cut() : upstream.write(octets)));
    let claims = false;
    upstream.on('data', (octets) => {
      const isClaim = octets.includes(claimed) && !octets.includes(nothing);
      const isCommit = octets.includes(committed);
      const moment = armed?.moment;
      claims ||= isClaim;
      if (
        (moment === 'answer to COMMIT' && isCommit) ||
        (moment === 'answer to a claim' && isClaim) ||
        (moment === 'commit of a claim' && claims && isCommit)
      )
        cut();
      else client.write(octets);
      if (isCommit) claims = false;
    });
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  listener.listen(join(folder, socketName));
  await once(listener, 'listening');
  onTestFinished(async () => {
    cut();
    listener.close();
    await once(listener, 'close');
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    url: (direct) => direct.replace(/host=[^&]*/, `host=${encodeURIComponent(folder)}`),
    cutAt: (moment) =>
      new Promise((done) => {
        armed = { moment, done };
      }),
    open: () => void (isOpen = true),
  };
}
