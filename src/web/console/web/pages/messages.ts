// Messages as they come, the newest first: accepted and refused, by the filters of the URL.

import { h, type JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Button } from '../parts/controls.ts';
import { brief, el, Icon, outcomeChoices, outcomeOf, State, stateWords, Time } from '../parts/element.ts';
import { type Column, column, FilterSelect, filterChips, PagedTable, SearchBox } from '../parts/list.ts';
import { buttonLink, ClearFilters, empty, Notes, pageHead } from '../parts/surfaces.ts';
import { useAnswer, useEvery } from '../state/api.ts';
import { type LiveState, mostLive, useLive } from '../state/live.ts';
import { type Pages, usePages } from '../state/paging.ts';
import { accountPath, isEveryAccount, linkTo, place, setFilters } from '../state/session.ts';
import type { JournalRow, Overview } from '../state/shapes.ts';
import { writeCount, writeCounted, writeTime } from '../text/amounts.ts';
import { journalFilters, journalQuery, readFilters, spanChoices, spans } from '../text/filters.ts';
import { fitsFilters, withRows } from '../text/row-order.ts';

const path = '/email/sending/journal';
const pageSize = 50;
const mostGlowing = 10;
/** Rows that wait at the most while the reader looks at older ones; the newest stay. */
const mostWaiting = 2000;

function people({ sender, recipients, recipient_count: count, damaged }: JournalRow): JSX.Element {
  if (damaged) return el('span.sub')('what was kept of it cannot be read');
  const others = count - 1;
  return el('span.sub')(
    sender ? brief(sender, 80) : 'no sender',
    ' → ',
    brief(recipients[0] ?? 'nobody', 80),
    others > 0 ? ` and ${others} more` : null,
  );
}

const columns: readonly Column<JournalRow>[] = [
  column('tight', 'Outcome', (row) => h(State, { state: outcomeOf(row) })),
  column('wide', 'Message', (row) => [
    el('a.row-link.one-line', { key: 'subject', href: linkTo('/messages/:id', { id: row.id }) })(
      row.subject
        ? brief(row.subject, 140)
        : el('span.soft')(row.damaged ? 'Damaged in the database' : 'No subject kept'),
    ),
    el('span')(people(row)),
  ]),
  column('why', 'Why', ({ codes, fields }) =>
    codes.length === 0
      ? null
      : el('span.chips')(
          fields.slice(0, 3).map((field) => el('span.chip', { key: field })(brief(field, 40))),
          el('span.sub')(codes[0], codes.length > 1 ? ` and ${codes.length - 1} more` : null),
        ),
  ),
  column('from', 'From', ({ credential, client, account, mailer }) => [
    el('span')(isEveryAccount.value ? el('bdi')(`${account} / `) : null, el('bdi')(credential ?? '–')),
    el('span.sub')(mailer ? brief(mailer, 40) : el('bdi')(client)),
  ]),
  column('tight when', 'Time', ({ at }) => h(Time, { at })),
];

type JournalFilters = Readonly<Partial<Record<(typeof journalFilters)[number], string>>>;

const labels = { credential: 'Credential', client: 'Client', code: 'Code', field: 'Header', until: 'Before' } as const;

function More({ filters }: { readonly filters: JournalFilters }): JSX.Element {
  return el('details.more-filters')(
    el('summary')('More filters'),
    el('div.filters')(
      (['credential', 'client', 'code', 'field'] as const).map((name) =>
        h(SearchBox, { key: name, class: 'field', label: labels[name], value: filters[name], name }),
      ),
    ),
  );
}

/** The outcomes, each with how often it came in the chosen time; one press shows its messages. */
function OutcomeChips({ outcome, span }: { readonly outcome: string | undefined; readonly span: string }): JSX.Element {
  // Figures are kept of a day: of any longer time the last day is counted.
  const { minutes, label } = spans[span === '1h' || span === '6h' ? span : '24h'];
  const { value, refresh } = useAnswer<Overview>(accountPath(`/email/sending/overview?minutes=${minutes}`));
  useEvery(30_000, refresh);
  const when = label.toLowerCase();
  return el('div.chips.outcome-chips', { role: 'group', 'aria-label': `Outcomes, with their number in the ${when}` })(
    outcomeChoices.map((one) => {
      const count = value && one !== 'dropped' ? value.totals[one] : undefined;
      const { word, icon, tone } = stateWords(one);
      return el('button', {
        ...{ key: one, type: 'button', class: 'outcome-chip', title: `${word} in the ${when}` },
        'aria-pressed': outcome === one,
        onClick: () => setFilters({ outcome: outcome === one ? undefined : one }),
      })(
        el('span', { class: `ink-${tone}` })(h(Icon, { name: icon })),
        word,
        count === undefined ? null : el('b')(writeCount(count)),
      );
    }),
  );
}

const liveWords: Readonly<Record<LiveState, string>> = {
  off: 'Not live',
  connecting: 'Connecting',
  on: 'Live',
  lost: 'Not live at the moment; it is tried again',
};

const shadowChoices = [
  { value: '', label: 'Sent and shadow' },
  { value: 'false', label: 'Without shadow' },
  { value: 'true', label: 'Shadow alone' },
];

function nothingThere(isFiltered: boolean, notes: readonly string[]): JSX.Element {
  if (notes.length > 0) return empty('No message is kept', 'messages')(h(Notes, { notes }));
  if (isFiltered) {
    return empty('No message fits these filters', 'search')(
      el('p')('A search looks for words in subjects and addresses, for a Message-ID, or for the id of a message.'),
      h(ClearFilters, { names: journalFilters }),
    );
  }
  return empty('No message has come yet', 'messages')(
    el('p')('Send one by SMTP or HTTP, and it appears here as soon as the answer is given. Refused ones too.'),
    buttonLink('/try', 'try', 'Try a message'),
  );
}

/** Where a list is looked at from its head, in CSS pixels; rows that come while the reader is further down wait. */
const headPixels = 200;

/** Puts rows that come live into a list, or has them wait while the reader looks at older ones. @param path undefined: not now */
function useLiveRows(path: string | undefined, pages: Pages<JournalRow>, filters: JournalFilters) {
  const [waiting, setWaiting] = useState<readonly JournalRow[]>([]);
  const fresh = useRef<readonly string[]>([]);
  /** Puts rows at the head of the list. Where more came than are kept, they are all that the list has room for. */
  const showAtHead = (rows: readonly JournalRow[]): void => {
    // Where many come, all of the list would glow, and the browser would draw it at each frame.
    const glowing = [...rows.map(({ id }) => id), ...fresh.current];
    fresh.current = rows.length > mostGlowing ? [] : glowing.slice(0, mostGlowing);
    pages.change((before) => withRows(before, rows, pages.hasMore), mostLive);
    setWaiting([]);
  };
  const take = (come: readonly JournalRow[]): void => {
    // One that fits no more leaves the list. What is listed was found by words or an id, which do not change.
    const listed = new Set(pages.rows.map(({ id }) => id));
    const { q: _, ...facts } = filters;
    const isGone = (row: JournalRow): boolean => !fitsFilters(row, listed.has(row.id) ? facts : filters);
    const gone = new Set(come.filter(isGone).map(({ id }) => id));
    const stays = ({ id }: JournalRow): boolean => !gone.has(id);
    const newest = pages.rows[0]?.id ?? '';
    const { added = [], changed = [] } = Object.groupBy(come.filter(stays), ({ id }) =>
      id > newest ? 'added' : 'changed',
    );
    pages.change((rows) => withRows(rows.filter(stays), changed, pages.hasMore));
    const all = withRows(waiting.filter(stays), added, false);
    if (scrollY <= headPixels) showAtHead(all);
    else setWaiting(all.slice(0, mostWaiting));
  };
  const state = useLive(path, take, pages.refresh);
  useEffect(() => setWaiting([]), [JSON.stringify(filters)]);
  const showWaiting = (): void => {
    showAtHead(waiting);
    scrollTo({ top: 0 });
  };
  return { state, waiting: waiting.length, showWaiting, isFresh: ({ id }: JournalRow) => fresh.current.includes(id) };
}

function liveMark(state: LiveState, text: string): JSX.Element {
  const dot = h('span', { class: 'dot', 'aria-hidden': 'true' });
  return el('span', { class: `live ${state}`, role: 'status' })(dot, text);
}

function filterFields({ q, span }: JournalFilters): JSX.Element {
  // A point of a plot leads to the messages of its time.
  const since =
    span === undefined || span in spans
      ? []
      : [{ value: span, label: `Since ${writeTime(Date.parse(span), Date.now())}` }];
  return el('div.filters')(
    h(SearchBox, { label: 'Search', value: q, placeholder: 'Subject, address or id' }),
    h(FilterSelect, {
      ...{ label: 'Time', name: 'span' },
      choices: [{ value: '', label: 'Any time' }, ...since, ...spanChoices],
    }),
    h(FilterSelect, { label: 'Shadow', name: 'shadow', choices: shadowChoices }),
  );
}

/** The page. */
export function Page(): JSX.Element {
  const filters = readFilters(place.value.search, journalFilters);
  const filterKey = JSON.stringify(filters);
  // The time of a span is fixed when the filters change, so that the list stays the same while it is looked at.
  const query = useMemo(() => journalQuery(filters, Date.now(), pageSize), [filterKey]);
  const pages = usePages<JournalRow>(accountPath(path + query));
  const { rows, notes } = pages;
  const [isPaused, setPaused] = useState(false);
  // The gateway has something to say only where the journal is off, and then no row comes.
  const mayCome = filters.until === undefined && notes.length === 0;
  const livePath = mayCome && !isPaused ? accountPath('/email/sending/live') : undefined;
  const { state, waiting, showWaiting, isFresh } = useLiveRows(livePath, pages, filters);
  const pause = { icon: isPaused ? 'play' : 'pause', pressed: isPaused, onPress: () => setPaused(!isPaused) } as const;
  const last = rows.at(-1);
  const olderPath = linkTo('/messages', {}, { ...filters, until: last?.at });
  return el('div')(
    pageHead(
      'Messages',
      'What was handed in, accepted or refused, the newest first.',
      liveMark(state, filters.until === undefined ? liveWords[state] : 'Looking at the past'),
      mayCome
        ? el(Button, pause)(isPaused ? 'Go on' : 'Pause')
        : el(Button, { icon: 'play', onPress: () => setFilters({ until: undefined }) })('To the newest'),
    ),
    filterFields(filters),
    h(OutcomeChips, { outcome: filters.outcome, span: filters.span ?? '24h' }),
    h(More, { filters }),
    filterChips(filters, labels, ['until']),
    waiting > 0 &&
      el('div.fresh-bar')(
        el(Button, { kind: 'main', icon: 'arrow', onPress: showWaiting })(
          writeCounted(waiting, 'new message'),
          waiting === mostWaiting ? ' or more' : null,
        ),
      ),
    (rows.length > 0 || pages.isLoading || pages.problem) && h(Notes, { notes }),
    h(PagedTable<JournalRow>, {
      ...{ pages, what: 'messages', label: 'Messages', columns },
      classOf: (row) => (isFresh(row) ? 'fresh' : undefined),
      none: nothingThere(filterKey !== '{}', notes),
      onward: last && el('a', { href: olderPath })('Go on with older ones'),
    }),
  );
}
