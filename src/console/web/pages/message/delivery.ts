// What became of each recipient, in the order in which it happened.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../../parts/controls.ts';
import { Empty } from '../../parts/surfaces.ts';
import { Foreign, State, Time } from '../../parts/text.ts';
import type { JournalEntry, MailEvent, RecipientHistory } from '../../state/shapes.ts';
import { writeCounted } from '../../text/amounts.ts';

const drawnAtOnce = 50;

/** What somebody said about it: the next hop, or Postern. */
function wordsOf({ reply, ...event }: MailEvent): string {
  const said = reply ? [reply.code, reply.enhanced, reply.text].filter((part) => part !== undefined).join(' ') : '';
  const reason = typeof event['reason'] === 'string' ? event['reason'] : '';
  return said === '' ? reason : said;
}

function Recipient({ history }: { readonly history: RecipientHistory }): JSX.Element {
  const events = history.history;
  return h(
    'li',
    { class: 'card' },
    h(
      'div',
      { class: 'subject' },
      h('strong', null, h(Foreign, { text: history.address, most: 160 })),
      h(State, { state: history.state }),
    ),
    h(
      'ol',
      null,
      events.map((event, index) => {
        const host =
          typeof event['host'] === 'string'
            ? event['host']
            : typeof event['next_hop'] === 'string'
              ? event['next_hop']
              : '';
        return h(
          'li',
          { key: event.id ?? index },
          h(Time, { at: event.at }),
          h(
            'div',
            null,
            h('strong', null, event.kind),
            host === '' ? null : h('span', { class: 'soft' }, ' by ', h(Foreign, { text: host, most: 120 })),
            h('p', { class: 'mono' }, h(Foreign, { text: wordsOf(event) })),
          ),
        );
      }),
    ),
  );
}

/** The tab. */
export function Delivery({ entry }: { readonly entry: JournalEntry }): JSX.Element {
  const [most, setMost] = useState(drawnAtOnce);
  const histories = entry.recipient_states ?? [];
  if (entry.outcome === 'refused')
    return h(
      Empty,
      { title: 'Nothing was sent', icon: 'queue' },
      'A refused message is never sent, to none of its recipients.',
    );
  if (histories.length === 0)
    return h(
      Empty,
      { title: 'Its events are gone', icon: 'queue' },
      'Events are kept for as long as the configuration says.',
    );
  return h(
    'div',
    null,
    h(
      'ul',
      { class: 'history' },
      histories.slice(0, most).map((history) => h(Recipient, { history, key: history.address })),
    ),
    histories.length > most
      ? h(
          'p',
          { class: 'list-end' },
          h(
            Button,
            { onPress: () => setMost(most + 200) },
            `Show more (${writeCounted(histories.length - most, 'recipient')} left)`,
          ),
        )
      : null,
  );
}
