// Lists: a table on a wide screen, cards on a narrow one, loaded page by page; and searching and filtering, which go into the URL.

import { Component, type ComponentChildren, Fragment, h, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Pages } from '../state/paging.ts';
import { place, setFilters } from '../state/session.ts';
import { writeCount } from '../text/amounts.ts';
import { readFilters, spans } from '../text/filters.ts';
import { Button, Field, Select } from './controls.ts';
import { el, Icon, Time } from './element.ts';
import { fault, Progress } from './surfaces.ts';

/**
 * `number` stands at the right, `tight` is narrow, `tight when` the time of the row itself, `tight doing` what can be done with it,
 * whose title is for screen readers alone; `name` and `rule` are of the table of verdicts, `why` has codes, `from` names a sender,
 * `wide` takes the room that is left.
 */
type Kind = 'number' | 'wide' | 'tight' | 'tight when' | 'tight doing' | 'name' | 'rule' | 'why' | 'from';

/** A column of a table. */
export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly kind?: Kind;
}

/** A column of a kind. */
export function column<Row>(kind: Kind, title: string, cell: Column<Row>['cell']): Column<Row> {
  return { title, kind, cell };
}

interface RowProps<Row> {
  readonly row: Row;
  readonly columns: readonly Column<Row>[];
  readonly class: string | undefined;
}

/** Draws a row only where it has changed. Elements are not kept for that: each holds the list that it was drawn in. */
class TableRow<Row> extends Component<RowProps<Row>> {
  override shouldComponentUpdate(next: RowProps<Row>, state: object): boolean {
    const { row, columns, class: name } = this.props;
    // Another state is what a signal makes that a cell reads.
    return state !== this.state || next.row !== row || next.columns !== columns || next.class !== name;
  }

  override render({ row, columns, class: name }: RowProps<Row>): JSX.Element {
    return el('tr', { class: name })(
      columns.map(({ title, cell, kind }) =>
        el('td', { key: title, class: kind, 'data-title': kind === 'tight doing' ? undefined : title })(cell(row)),
      ),
    );
  }
}

interface TableProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row, index: number) => string;
  readonly classOf?: (row: Row) => string | undefined;
}

/** A table. On a phone each row becomes a card, each cell with the title of its column. */
export function Table<Row>(props: TableProps<Row>): JSX.Element {
  const { columns, rows, keyOf, classOf } = props;
  return el('div.table-room')(
    el('table.list')(
      el('caption.unseen')(props.label),
      el('thead')(
        el('tr')(
          columns.map(({ title, kind }) =>
            el('th', { key: title, scope: 'col', class: kind })(
              kind === 'tight doing' ? el('span.unseen')(title) : title,
            ),
          ),
        ),
      ),
      el('tbody')(
        rows.map((row, index) => h(TableRow<Row>, { key: keyOf(row, index), row, columns, class: classOf?.(row) })),
      ),
    ),
  );
}

function Sight({ onSeen }: { readonly onSeen: () => void }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef(onSeen);
  latest.current = onSeen;
  useEffect(() => {
    if (!box.current) return undefined;
    const watch = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) latest.current();
      },
      { rootMargin: '600px' },
    );
    watch.observe(box.current);
    return () => watch.disconnect();
  });
  return h('div', { ref: box, 'aria-hidden': 'true' });
}

interface PagedProps<Row> extends Omit<TableProps<Row>, 'rows' | 'keyOf'> {
  readonly pages: Pages<Row>;
  readonly what: string;
  /** What stands there where there is nothing in it. */
  readonly none: JSX.Element;
  /** Where the list can be gone on with once it is as long as it may become. */
  readonly onward?: JSX.Element | undefined;
}

/** A list that is loaded page by page, as a table. */
export function PagedTable<Row extends { readonly id: string }>(props: PagedProps<Row>): JSX.Element {
  const { pages, none, what, onward, ...table } = props;
  const { rows, isLoading, problem, hasMore } = pages;
  return el(Fragment)(
    rows.length === 0 && !isLoading && !problem && !hasMore
      ? none
      : h(Table<Row>, { ...table, rows, keyOf: ({ id }) => id }),
    listEnd(pages, what, onward),
  );
}

/** The end of a list that is loaded page by page: loads on, by scrolling or by its button. */
function listEnd<Row>(pages: Pages<Row>, what: string, onward: JSX.Element | undefined): JSX.Element | null {
  if (pages.problem) return fault(pages.problem, pages.rows.length > 0 ? pages.loadMore : pages.reload);
  if (pages.isLoading) return h(Progress, { what: `Loading ${what}` });
  const count = writeCount(pages.rows.length);
  if (!pages.hasMore) return pages.rows.length > 20 ? el('p.list-end')(`All ${count} ${what}`) : null;
  if (pages.isFull) return el('p.list-end')(`The first ${count} ${what}. `, onward ?? 'Filter to see others.');
  return el('div.list-end')(
    h(Sight, { onSeen: pages.loadMore }),
    el(Button, { onPress: pages.loadMore })(`Load more ${what}`),
  );
}

const pauseMs = 300;

/** A field that searches while one types: its text is a filter of the page. */
export function SearchBox(props: {
  readonly label: string;
  readonly value: string | undefined;
  /** Of the filter; absent: `q`. */
  readonly name?: string;
  readonly placeholder?: string;
  readonly class?: string;
}): JSX.Element {
  const { label, value = '', name = 'q' } = props;
  const [text, setText] = useState(value);
  const told = useRef(value);
  useEffect(() => {
    // The URL has changed by another way: a link, or the back button.
    if (value === told.current) return;
    told.current = value;
    setText(value);
  }, [value]);
  useEffect(() => {
    if (text.trim() === told.current) return undefined;
    const timer = setTimeout(() => {
      told.current = text.trim();
      setFilters({ [name]: text.trim() === '' ? undefined : text.trim() });
    }, pauseMs);
    return () => clearTimeout(timer);
  }, [text]);
  return el('div', { class: props.class ?? 'search' })(
    h(Field, {
      ...{ label, value: text, onInput: setText, type: 'search', placeholder: props.placeholder },
    }),
  );
}

/** The choice of a filter of the page. @param usual the choice where the URL names none; absent: the one without a value */
export function FilterSelect(
  props: Pick<Parameters<typeof Select>[0], 'label' | 'choices'> & { readonly name: string; readonly usual?: string },
): JSX.Element {
  const { name, usual = '', ...shown } = props;
  const value = readFilters(place.value.search, [name])[name] ?? usual;
  const onChoose = (chosen: string): void => setFilters({ [name]: chosen === usual ? undefined : chosen });
  return h(Select, { ...shown, value, onChoose });
}

/** How many minutes of figures are shown, as the URL names them. */
export function shownMinutes(): string {
  return readFilters(place.value.search, ['minutes']).minutes ?? '60';
}

const minuteChoices = [spans['1h'], spans['6h'], spans['24h']].map(({ label, minutes }) => ({
  value: `${minutes}`,
  label,
}));

/** The choice of the time whose figures are shown. */
export function MinutesSelect(): JSX.Element {
  return h(FilterSelect, { label: 'Time', name: 'minutes', choices: minuteChoices, usual: '60' });
}

/** The filters in force, each with a button against it. @param labels by name @param times those that are times in RFC 3339 */
export function filterChips(
  filters: Readonly<Record<string, string | undefined>>,
  labels: Readonly<Record<string, string>>,
  times: readonly string[] = [],
): JSX.Element | null {
  const inForce = Object.entries(filters).filter(([name, value]) => value !== undefined && name in labels);
  if (inForce.length === 0) return null;
  return el('div.chips.in-force')(
    inForce.map(([name, value]) =>
      el('span.filter-chip', { key: name })(
        el('span')(`${labels[name]}: `, times.includes(name) ? h(Time, { at: value }) : el('bdi')(value)),
        el('button', {
          ...{ type: 'button', title: 'Take this filter away', onClick: () => setFilters({ [name]: undefined }) },
          'aria-label': `Take the filter ${labels[name]} away`,
        })(h(Icon, { name: 'close' })),
      ),
    ),
  );
}
