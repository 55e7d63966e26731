// What became of each recipient, in order; the dialogue, the times of the stages, and the verdicts on signatures.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../../parts/controls.ts';
import { el, foreign, State, stateWords, Time } from '../../parts/element.ts';
import { empty, fault, Progress, panel } from '../../parts/surfaces.ts';
import { useAnswer } from '../../state/api.ts';
import type { DkimVerdict, JournalEntry, MailEvent, RecipientHistory } from '../../state/shapes.ts';
import { writeCounted, writeDuration } from '../../text/amounts.ts';
import { eventWords } from '../../text/event-words.ts';

const drawnAtOnce = 50;

function Event({ event }: { readonly event: MailEvent }): JSX.Element {
  const { by, said, notes, nextAt } = eventWords(event);
  return el('li')(
    h(Time, { at: event.at }),
    el('div')(
      el('strong')(stateWords(event.kind).word),
      by === '' ? null : el('span.soft')(' by ', foreign(by, 120)),
      said === '' ? null : el('p.mono')(foreign(said)),
      notes.map((note) => el('p.soft', { key: note })(foreign(note, 200))),
      nextAt === undefined ? null : el('p.soft')('Next try: ', h(Time, { at: nextAt })),
    ),
  );
}

function Recipient({ history }: { readonly history: RecipientHistory }): JSX.Element {
  return el('li.card')(
    el('div.subject')(el('strong')(foreign(history.address, 160)), h(State, { state: history.state })),
    history.history.length === 0
      ? el('p.soft')('Nothing has happened yet: it waits for its first attempt.')
      : el('ol')(history.history.map((event) => h(Event, { event, key: event.id }))),
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
    )(
      entry.shadow
        ? 'It is a copy that came to a shadow listener, and is never sent.'
        : 'A refused message is never sent, to none of its recipients.',
    );
  if (histories.length === 0)
    return empty('Its events are gone', 'queue')('Events are kept for as long as the configuration says.');
  const more = `Show more (${writeCounted(histories.length - most, 'recipient')} left)`;
  return el('div')(
    el('ul.history')(histories.slice(0, most).map((history) => h(Recipient, { history, key: history.address }))),
    histories.length > most && el('p.list-end')(el(Button, { onPress: () => setMost(most + 200) })(more)),
  );
}

const speakers = { client: 'Client', server: 'Postern', note: 'Note' } as const;

/** The SMTP dialogue of the message. */
export function Dialogue({ entry }: { readonly entry: JournalEntry }): JSX.Element {
  if (entry.dialogue.length === 0) {
    return empty(
      'There was no SMTP dialogue',
      'messages',
    )(entry.via === 'smtp' ? 'Its entry keeps none.' : 'The message came by HTTP.');
  }
  return el('ol.dialogue.card')(
    entry.dialogue.map(({ from, line, at_ms: at }, index) =>
      el('li', { key: index, class: `${from}${from === 'server' && /^[45]/.test(line) ? ' refusal' : ''}` })(
        el('span.at.soft')(`+${at} ms`),
        el('span.who')(speakers[from]),
        el('span.line')(foreign(line, 600)),
      ),
    ),
  );
}

/** What the stages are called. The last two count from the acceptance on. */
const stageWords: Readonly<Record<string, string>> = {
  read: 'Reading it',
  check: 'Judging it',
  compose: 'Writing it anew',
  sign: 'Signing it',
  'first attempt': 'Until the first attempt',
  delivered: 'Until it was delivered',
};

/** How long each stage took. */
export function Timings({ entry }: { readonly entry: JournalEntry }): JSX.Element | null {
  const { timings } = entry;
  if (timings.length === 0) return null;
  const longest = timings.reduce((most, { ms }) => Math.max(most, ms), 0.1);
  return panel('How long it took')(
    el('ul.stages')(
      timings.map(({ stage, ms }) =>
        el('li', { key: stage })(
          el('span')(stageWords[stage] ?? stage),
          h('meter', {
            min: 0,
            max: longest,
            value: ms,
            'aria-label': `${stageWords[stage] ?? stage}: ${writeDuration(ms)}`,
          }),
          el('span.soft')(ms < 10 ? `${ms.toFixed(1)} ms` : writeDuration(ms)),
        ),
      ),
    ),
  );
}

/** What verification says of each signature. */
export function Dkim({ entry, path }: { readonly entry: JournalEntry; readonly path: string }): JSX.Element {
  const isAsked = entry.outcome !== 'refused' && !entry.shadow;
  const { value, problem, reload } = useAnswer<readonly DkimVerdict[]>(isAsked ? `${path}/dkim` : undefined);
  if (!isAsked) return empty('It was not signed', 'tokens')('A refused message is never signed.');
  if (problem?.status === 404)
    return empty(
      'It cannot be verified',
      'messages',
    )('That needs the whole message, which the journal keeps where journal.content is full.');
  if (problem) return fault(problem, reload);
  if (!value) return h(Progress, { what: 'Verifying the signatures' });
  return el('ul.records')(
    value.map(({ domain, selector, algorithm, result, reason }) =>
      el('li.record.signature', { key: `${domain} ${selector}` })(
        el('div')(
          el('strong')(el('bdi')(domain)),
          el('p')('Selector ', el('code')(selector), algorithm ? `, ${algorithm}` : null),
          reason ? el('p.soft')(foreign(reason)) : null,
        ),
        h(State, { state: result }),
      ),
    ),
  );
}
