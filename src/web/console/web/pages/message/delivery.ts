// What became of each recipient, in the order in which it happened.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../../parts/controls.ts';
import { el } from '../../parts/element.ts';
import { empty } from '../../parts/surfaces.ts';
import { foreign, State, Time } from '../../parts/text.ts';
import type { JournalEntry, MailEvent, RecipientHistory } from '../../state/shapes.ts';
import { writeCounted } from '../../text/amounts.ts';
import { eventWords } from '../../text/event-words.ts';

const drawnAtOnce = 50;

function Event({ event }: { readonly event: MailEvent }): JSX.Element {
  const { title, by, said, notes, nextAt } = eventWords(event);
  return el(
    'li',
    h(Time, { at: event.at }),
    el(
      'div',
      el('strong', title),
      by === '' ? null : el('span.soft', ' by ', foreign(by, 120)),
      said === '' ? null : el('p.mono', foreign(said)),
      notes.map((note) => h('p', { key: note, class: 'soft' }, foreign(note, 200))),
      nextAt === undefined ? null : el('p.soft', 'Next try: ', h(Time, { at: nextAt })),
    ),
  );
}

function Recipient({ history }: { readonly history: RecipientHistory }): JSX.Element {
  return el(
    'li.card',
    el('div.subject', el('strong', foreign(history.address, 160)), h(State, { state: history.state })),
    history.history.length === 0
      ? el('p.soft', 'Nothing has happened yet: it waits for its first attempt.')
      : el(
          'ol',
          history.history.map((event) => h(Event, { event, key: event.id })),
        ),
  );
}

/** The tab. */
export function Delivery({ entry }: { readonly entry: JournalEntry }): JSX.Element {
  const [most, setMost] = useState(drawnAtOnce);
  const histories = entry.recipient_states;
  if (entry.outcome === 'refused' || entry.shadow)
    return empty(
      'Nothing was sent',
      'queue',
      entry.shadow
        ? 'It is a copy that came to a shadow listener, and is never sent.'
        : 'A refused message is never sent, to none of its recipients.',
    );
  if (histories.length === 0)
    return empty('Its events are gone', 'queue', 'Events are kept for as long as the configuration says.');
  const more = `Show more (${writeCounted(histories.length - most, 'recipient')} left)`;
  return el(
    'div',
    el(
      'ul.history',
      histories.slice(0, most).map((history) => h(Recipient, { history, key: history.address })),
    ),
    histories.length > most && el('p.list-end', h(Button, { onPress: () => setMost(most + 200) }, more)),
  );
}
