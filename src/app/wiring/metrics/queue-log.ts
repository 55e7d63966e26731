// Tells the log of what somebody did to messages in the queue. Commands beside the server write these events into the
// database; the server follows them there, so that its log has them whoever did it.

import { setTimeout } from 'node:timers/promises';
import type { Logger } from '../../../base/log.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import { logEvent } from '../../../spool/events/log-event.ts';
import { eventKinds, isOfWord, kindNames, type QueueEvent } from '../../../spool/events/mail-event.ts';
import type { MetricSources } from '../../../web/http/metrics.ts';

/** What somebody did to the queue. */
const kinds = kindNames.filter((kind) => eventKinds[kind].metric === 'queue');

/** How long after a failure of the store it is asked again, in milliseconds. */
const againMs = 5000;

/** The reader of these events. */
export interface QueueLog extends MetricSources {
  /** Begins to tell of events that are written from now on. */
  start(): void;
  /** Ends it; resolves once it reads no more. */
  stop(): Promise<void>;
}

/** Makes the reader. It reads nothing before `start`. */
export function openQueueLog(events: Pick<EventStore, 'follow' | 'newest'>, log: Logger): QueueLog {
  const ending = new AbortController();
  const { signal } = ending;
  const counts: Record<QueueEvent['kind'], number> = { requeued: 0, dropped: 0 };
  let after: number | undefined;

  async function read(): Promise<void> {
    after ??= await events.newest();
    for await (const event of events.follow({ after, kinds, signal })) {
      after = event.id;
      if (!isOfWord(event, 'metric', 'queue')) continue;
      counts[event.kind] += 1;
      logEvent(log, event);
    }
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      try {
        await read();
      } catch (err) {
        if (signal.aborted) return;
        log.error({ err }, 'events of the queue could not be read');
        await setTimeout(againMs, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  }

  let running = Promise.resolve();
  return {
    start() {
      if (!signal.aborted) running = run();
    },
    families: [
      {
        kind: 'counter',
        name: 'postern_queue_actions_total',
        help: 'Messages that somebody had tried again (requeued) or removed (dropped)',
        label: 'action',
        read: () => Object.entries(counts),
      },
    ],
    stop() {
      ending.abort();
      return running;
    },
  };
}
