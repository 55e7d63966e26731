// What the log and /metrics tell of mail: of its events, of delivery, of the SMTP door, and of what somebody did to the queue.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../../base/log.ts';
import type { Delivery } from '../../../delivery/delivery.ts';
import type { DeliveryMetrics } from '../../../delivery/new-transport.ts';
import { serviceOf } from '../../../delivery/transport.ts';
import type { OutcomeWatch } from '../../../doors/rest/outcome-watch.ts';
import type { SmtpDoor } from '../../../doors/smtp/smtp-door.ts';
import { restAnswers } from '../../../pipeline/submit.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import { logEvent } from '../../../spool/events/log-event.ts';
import {
  type EventsOfWord,
  eventKinds,
  isOfWord,
  kindNames,
  type QueueEvent,
} from '../../../spool/events/mail-event.ts';
import type { Spool } from '../../../spool/spool.ts';
import { counter, gauge, type MetricFamily, type MetricSources, type Metrics } from '../../../web/http/metrics.ts';

function isToken(code: string): code is keyof typeof restAnswers {
  return Object.hasOwn(restAnswers, code);
}

interface EventHearers {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'accepted' | 'refused' | 'outcome' | 'bounced' | 'complained' | 'suppressed'>;
  readonly outcomes: OutcomeWatch;
}

function countOwn(metrics: EventHearers['metrics'], event: EventsOfWord<'metric', 'own'>): void {
  switch (event.kind) {
    case 'accepted':
      return metrics.accepted({ recipients: event.recipientCount, bytes: event.sizeAsSent });
    case 'refused': {
      const [first] = event.violations;
      return first && event.stage === 'message' && isToken(first.code) ? metrics.refused(first.code) : undefined;
    }
    case 'bounced':
      return metrics.bounced(event.bounceClass);
    case 'complained':
      return metrics.complained();
    case 'suppressed':
      return metrics.suppressed(event.source);
    default:
      return event satisfies never;
  }
}

/** Makes the listener for the spool's mail events, which serves the log, the metrics, and requests that wait for an outcome. */
export function tellEvents({ events }: Pick<Spool, 'events'>, { log, metrics, outcomes }: EventHearers): void {
  events.listen((event) => {
    logEvent(log, event);
    if (isOfWord(event, 'metric', 'outcome')) {
      const { kind, route } = event;
      // The wall clock may have been set since.
      const seconds = kind === 'delivered' ? Math.max(0, event.at - event.acceptedAt) / 1000 : undefined;
      metrics.outcome({ kind, route, ...(seconds === undefined ? {} : { seconds }) });
      outcomes.tell(event.sessionId, event.recipient, kind);
    } else if (isOfWord(event, 'metric', 'own')) countOwn(metrics, event);
    // What somebody did to the queue is told by the queue log below.
  });
}

/**
 * Makes the metrics of SMTP connections, of what is in hand, and of next hops: those of each route by how they are served, and how often
 * one was given less. A single next hop is told by `postern queue destinations` alone.
 * @param troubles how often, by kind and route with a line feed between them
 */
export function deliveryFamilies(
  delivery: Pick<Delivery, 'destinations'> & {
    metrics(): Pick<DeliveryMetrics, 'inHand' | 'connections' | 'leftToSpool'>;
  },
  door: Pick<SmtpDoor, 'counts'>,
  troubles: ReadonlyMap<string, number>,
): readonly MetricFamily[] {
  return [
    gauge(
      'postern_delivery_in_hand',
      'Messages in hand, each once for every route that it goes by',
      () => delivery.metrics().inHand,
    ),
    gauge('postern_delivery_connections', 'Connections to next hops open now', () => delivery.metrics().connections),
    gauge(
      'postern_delivery_left_to_spool',
      'Accepted messages since the start that wait in the spool because their route had its share in hand',
      () => delivery.metrics().leftToSpool,
    ),
    gauge('postern_smtp_connections', 'SMTP connections open now', () => door.counts().connections),
    counter('postern_smtp_auth_failures_total', 'Failed AUTH commands', () => door.counts().authFailures),
    {
      kind: 'gauge',
      over: 'max',
      name: 'postern_delivery_destinations',
      help: 'Next hops that are known, by route and by how they are served',
      label: ['route', 'state'],
      read: () => {
        const byState = Map.groupBy(delivery.destinations(), (hop) => `${serviceOf(hop)}\n${hop.route}`);
        return [...byState].map(([key, { length }]) => [key.split('\n').toReversed(), length]);
      },
    },
    {
      kind: 'counter',
      name: 'postern_delivery_troubles_total',
      help: 'How often a next hop was given less: it was down, asked for less, or deferred everything',
      label: ['route', 'trouble'],
      read: () => [...troubles].map(([key, count]) => [key.split('\n').toReversed(), count]),
    },
  ];
}

const queueKinds = kindNames.filter((kind) => eventKinds[kind].metric === 'queue');

/** How long after a failure of the store it is asked again, in milliseconds. */
const againMs = 5000;

/** Tells of what somebody did to the queue: the server follows the events, so that its log has them whoever did it. */
export class QueueLog implements MetricSources {
  readonly #events: Pick<EventStore, 'follow' | 'newest'>;
  readonly #log: Logger;
  readonly #ending = new AbortController();
  readonly #counts: Record<QueueEvent['kind'], number> = { requeued: 0, dropped: 0 };
  #after: number | undefined;
  #running = Promise.resolve();
  readonly families = [
    {
      kind: 'counter',
      name: 'postern_queue_actions_total',
      help: 'Messages that somebody had tried again (requeued) or removed (dropped)',
      label: 'action',
      read: () => Object.entries(this.#counts),
    } as const,
  ];

  constructor(events: Pick<EventStore, 'follow' | 'newest'>, log: Logger) {
    this.#events = events;
    this.#log = log;
  }

  /** Begins to tell of events that are written from now on. */
  start(): void {
    if (!this.#ending.signal.aborted) this.#running = this.#run();
  }

  /** Ends it; resolves once it reads no more. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      try {
        await this.#read();
      } catch (err) {
        if (signal.aborted) return;
        this.#log.error({ err }, 'events of the queue could not be read');
        await sleep(againMs, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  }

  async #read(): Promise<void> {
    this.#after ??= await this.#events.newest();
    const { signal } = this.#ending;
    for await (const event of this.#events.follow({ after: this.#after, kinds: queueKinds, signal })) {
      this.#after = event.id;
      if (!isOfWord(event, 'metric', 'queue')) continue;
      this.#counts[event.kind] += 1;
      logEvent(this.#log, event);
    }
  }
}
