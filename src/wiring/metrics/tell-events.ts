// What happens to mail is told to the log, to the metrics, and to the requests that wait for an outcome.

import type { Logger } from '../../base/log.ts';
import { logEvent } from '../../events/log-event.ts';
import type { Metrics } from '../../http/metrics.ts';
import type { OutcomeWatch } from '../../ingress/rest/outcome-watch.ts';
import type { Spool } from '../../spool/spool.ts';
import { restAnswers } from '../../submit.ts';

function isToken(code: string): code is keyof typeof restAnswers {
  return Object.hasOwn(restAnswers, code);
}

/** Whom mail events are told to. */
export interface EventHearers {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'accepted' | 'refused' | 'outcome' | 'bounced' | 'complained' | 'suppressed'>;
  readonly outcomes: OutcomeWatch;
}

/** Makes the listener for the spool's mail events, which serves the log, the metrics, and requests that wait for an outcome. */
export function tellEvents({ events }: Pick<Spool, 'events'>, { log, metrics, outcomes }: EventHearers): void {
  events.listen((event) => {
    logEvent(log, event);
    switch (event.kind) {
      case 'accepted':
        metrics.accepted({ recipients: event.recipientCount, bytes: event.sizeAsSent });
        return;
      case 'refused': {
        const [first] = event.violations;
        if (first && event.stage === 'message' && isToken(first.code)) metrics.refused(first.code);
        return;
      }
      case 'delivered':
      case 'deferred':
      case 'failed':
        metrics.outcome({
          ...{ kind: event.kind, route: event.route },
          // The wall clock may have been set since.
          ...(event.kind === 'delivered' ? { seconds: Math.max(0, event.at - event.acceptedAt) / 1000 } : {}),
        });
        outcomes.tell(event.sessionId, event.recipient, event.kind);
        return;
      // Followers alone are told of the first two.
      case 'requeued':
      case 'dropped':
      case 'webhook_disabled':
        return;
      case 'bounced':
        metrics.bounced(event.bounceClass);
        return;
      case 'complained':
        metrics.complained();
        return;
      case 'suppressed':
        metrics.suppressed(event.source);
        return;
      default:
        event satisfies never;
    }
  });
}
