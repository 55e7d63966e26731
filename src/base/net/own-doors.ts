// The listeners of Postern itself. What comes from Postern has the machine's own address, and whoever trusts that address
// would trust everyone that Postern connects for; mail to a listener of its own would go round for ever (D84, RFC 5321 §6.3).
// Processes of several get their sockets from the supervisor by address and port (node:cluster), which gives the same socket to whoever
// asks for the same place twice, in place of the error that the system gives.

import cluster from 'node:cluster';
import { networkInterfaces } from 'node:os';
import { errorCode, errorMessage } from '../errors.ts';
import { normalAddress } from './socket-address.ts';

/** A TCP listener of mail or HTTP, as it is bound or will be. */
export interface OwnDoor {
  /** An IP address; `0.0.0.0` and `::` are all of this machine. */
  readonly host: string;
  readonly port: number;
}

/** Whether this machine itself has an address: loopback, or one of its interfaces. */
export function isLocalAddress(address: string): boolean {
  const normal = normalAddress(address);
  if (normal === undefined) return false;
  if (normal === '::1' || normal.startsWith('127.')) return true;
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return own.some((one) => normalAddress(one.address) === normal);
}

/** Whether a connection to an address comes to a listener that is bound to `host`. `::` takes IPv4 as well. */
export function isBoundTo(host: string, address: string): boolean {
  const bound = normalAddress(host);
  if (bound === normalAddress(address)) return true;
  if (bound === '::') return isLocalAddress(address);
  return bound === '0.0.0.0' && !address.includes(':') && isLocalAddress(address);
}

const places = new Set<string>();

/** Notes that this process listens, where several may. @returns ends that @throws Error with EADDRINUSE where it does already */
export function takePlace({ host, port }: { readonly host: string; readonly port: number }): () => void {
  if (!cluster.isWorker || port === 0) return () => undefined;
  const place = `${host} ${port}`;
  if (places.has(place)) {
    const text = `listen EADDRINUSE: address already in use ${host}:${port}`;
    throw Object.assign(new Error(text), { code: 'EADDRINUSE' });
  }
  places.add(place);
  return () => void places.delete(place);
}

/** Tells why an address cannot be listened on. @param setting what says it: `http.listen, or POSTERN_HTTP_PORT` */
export function listenFault(cause: unknown, setting: string): string {
  const reason = errorMessage(cause);
  if (errorCode(cause) !== 'EADDRINUSE') return reason;
  return `${reason}. Something listens there already: end it, or change ${setting}`;
}
