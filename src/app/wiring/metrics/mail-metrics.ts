// What /metrics tells of delivery and of the SMTP door.

import type { Logger } from '../../../base/log.ts';
import type { Delivery } from '../../../delivery/delivery.ts';
import { serviceOf } from '../../../delivery/transport.ts';
import type { OutcomeWatch } from '../../../doors/rest/outcome-watch.ts';
import type { SmtpDoor } from '../../../doors/smtp/smtp-door.ts';
import { restAnswers } from '../../../pipeline/submit.ts';
import { logEvent } from '../../../spool/events/log-event.ts';
import { type EventsOfWord, isOfWord } from '../../../spool/events/mail-event.ts';
import type { Spool } from '../../../spool/spool.ts';
import { counter, gauge, type MetricFamily, type Metrics } from '../../../web/http/metrics.ts';

function isToken(code: string): code is keyof typeof restAnswers {
  return Object.hasOwn(restAnswers, code);
}

/** Whom mail events are told to. */
interface EventHearers {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'accepted' | 'refused' | 'outcome' | 'bounced' | 'complained' | 'suppressed'>;
  readonly outcomes: OutcomeWatch;
}

/** Counts an event of a kind that has a counter of its own. */
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
    // What somebody did to the queue is told by `queue-log.ts`.
  });
}

/**
 * Makes the metrics of SMTP connections, of what is in hand, and of next hops: those of each route by how they are served, and how often
 * one was given less. A single next hop is told by `postern queue destinations` alone.
 * @param troubles how often, by kind and route with a line feed between them
 */
export function deliveryFamilies(
  delivery: Pick<Delivery, 'metrics' | 'destinations'>,
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
