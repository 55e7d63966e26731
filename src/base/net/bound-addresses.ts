// Where a process of several listens. They get their sockets from the supervisor by address and port (node:cluster), which gives
// the same socket to whoever asks for the same place twice, in place of the error that the system gives.

import cluster from 'node:cluster';

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
