// What answers by HTTP while a start waits for its database: the process lives, and takes nobody's request yet (D97).

import type { BoundHttp } from './listener/accepting.ts';
import { type ConnectionLimits, createConnectionLimit } from './listener/connection-limit.ts';
import { HttpListener, type ListenerHandlers } from './listener/listener.ts';
import { answerPlainly } from './plain-routes.ts';

const closingMs = 500;
const retryAfterSeconds = '2';

const handlers: ListenerHandlers = {
  request(request, response) {
    response.setHeader('Connection', 'close');
    if (request.url?.split('?', 1)[0] === '/livez') return answerPlainly(response, 200, 'live');
    response.setHeader('Retry-After', retryAfterSeconds);
    answerPlainly(response, 503, 'not ready');
  },
  takesUpgrade: () => false,
  upgrade: (_request, socket) => void socket.destroy(),
  connect: (_request, socket) => void socket.destroy(),
};

/** Makes a door that says that the process lives (`/livez`) and is not ready (503 to everything else). It is opened and closed as needed. */
export function createWaitingDoor(at: { readonly places: readonly BoundHttp[]; readonly limits: ConnectionLimits }) {
  const { places, limits } = at;
  let listening: readonly HttpListener[] = [];
  /** The end of the last change: they follow one another. */
  let changing: Promise<void> = Promise.resolve();
  const next = (change: () => Promise<void>): Promise<void> => (changing = changing.then(change));
  return {
    /** Opens it, where it is not open. A place that cannot be bound stays without: the start itself tells of that. Never rejects. */
    open: () =>
      next(async () => {
        if (listening.length > 0) return;
        const opened = await Promise.allSettled(
          places.map(async (place) => {
            const listener = new HttpListener({ limit: createConnectionLimit(limits), handlers: () => handlers });
            await listener.listen(place);
            return listener;
          }),
        );
        listening = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
      }),
    /** Closes it; resolves when its places are free. */
    close: () =>
      next(async () => {
        await Promise.all(listening.map((listener) => listener.close(closingMs)));
        listening = [];
      }),
  };
}
