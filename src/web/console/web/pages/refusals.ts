// Refusals by their cause: what would cure each group, and what another configuration would let through.

import { type ComponentChildren, Fragment, h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button, Field } from '../parts/controls.ts';
import { FormDialog, useDialog } from '../parts/dialog.ts';
import { brief, el, foreign, Icon, State, Time } from '../parts/element.ts';
import { FilterSelect, SearchBox } from '../parts/list.ts';
import { awaited, ClearFilters, empty, Notes, nothingWrong, pageHead } from '../parts/surfaces.ts';
import { cureBox } from '../parts/verdicts.ts';
import { type Answer, ask, useEvery, useLoaded } from '../state/api.ts';
import { account, accountPath, isAdmin, isEveryAccount, linkTo, place, setFilters } from '../state/session.ts';
import type { MailerVerdicts, RefusalGroup, WouldPass } from '../state/shapes.ts';
import { writeCount, writeCounted } from '../text/amounts.ts';
import { changeFilters, readFilters, sinceOf, spanChoices } from '../text/filters.ts';
import { headerPath } from '../text/route-path.ts';

type Counts = Pick<WouldPass, 'refused' | 'would_pass' | 'accepted' | 'would_not'>;

function sentence({ refused, would_pass: pass, accepted, would_not: not }: Counts): string {
  return (
    `Of ${writeCounted(refused, 'refused message')} ${writeCount(pass)} would pass, ` +
    `of ${writeCounted(accepted, 'accepted message')} ${writeCount(not)} would not.`
  );
}

function mailer(one: MailerVerdicts): JSX.Element {
  const examples = one.examples.map((example) => {
    const [id = '', ...codes] = example.split(' ');
    return el('li')(
      el('a', { href: linkTo('/messages/:id', { id }) })(codes.length === 0 ? 'would pass' : codes.join(', ')),
    );
  });
  const name = `${one.account}/${one.credential}, ${one.mailer}`;
  return el('div', { key: name })(el('h3')(foreign(name, 200)), el('p')(sentence(one)), el('ul')(examples));
}

function verdict(found: WouldPass): JSX.Element {
  const { not_kept: notKept, cut, mailers } = found;
  return el('div')(
    el('p', { role: 'status' })(sentence(found)),
    cut ? el('p.soft')('There are more messages: the newest were judged.') : null,
    notKept > 0 ? el('p.soft')(`Of ${writeCounted(notKept, 'message')} too little is kept to judge again.`) : null,
    mailers.map(mailer),
  );
}

/** Asks for the text of a configuration, and tells what would change. @param since from when on mail is judged */
function WouldPassDialog({ since }: { readonly since: string | undefined }): JSX.Element {
  const [config, setConfig] = useState('');
  const [found, setFound] = useState<WouldPass>();
  const judge = async (): Promise<void> => {
    setFound(undefined);
    const body = { config, since, account: isEveryAccount.value ? undefined : account.value };
    setFound((await ask<WouldPass>('/client/v4/email/sending/would-pass', { method: 'POST', body })).result);
  };
  return el(FormDialog, {
    title: 'Would it pass with another configuration?',
    action: 'Judge again',
    onSubmit: judge,
    stays: true,
  })(
    h(Field, {
      ...{ label: 'Text of the configuration', value: config, onInput: setConfig, required: true, autofocus: true },
      ...{ rows: 12, hint: 'It is checked, and nothing of it is kept.' },
    }),
    found ? verdict(found) : null,
  );
}

/** How often a cause came in each part of the time, as bars. The number beside them says the same in words. */
function Bars({ times }: { readonly times: readonly number[] }): JSX.Element {
  const most = Math.max(1, ...times);
  const height = (count: number): number => (count === 0 ? 0 : Math.max(2, Math.round((20 * count) / most)));
  return el('svg.bars', { viewBox: `0 0 ${times.length * 4} 20`, 'aria-hidden': 'true', focusable: 'false' })(
    h('path', { d: times.map((count, at) => `M${at * 4} 20v-${height(count)}h3v${height(count)}z`).join('') }),
  );
}

function keyOf({ account, credential, mailer, field, code, message }: RefusalGroup): string {
  return [account, credential, mailer, field, code, message].join('\0');
}

function Opened({ group, span }: { readonly group: RefusalGroup; readonly span: string }): JSX.Element {
  const { credential, field, code, message, count, example, cured, cure, change } = group;
  const filters = { outcome: 'refused', code, span, field: field ?? undefined, credential };
  return el('div.group')(
    message === '' ? null : el('p.group-message')(foreign(message)),
    cured
      ? el('p.group-message')(
          h(State, { state: 'ok', words: { word: 'Cured', tone: 'good', icon: 'check' } }),
          ' The configuration in force has the cure: what comes now passes.',
        )
      : cureBox(cure, change),
    el('div.group-foot')(
      el('span')('Last ', h(Time, { at: group.last_at, style: 'ago' })),
      el('span')('First ', h(Time, { at: group.first_at })),
      el('a', { href: linkTo('/messages', {}, filters) })(count === 1 ? 'Show it' : `Show all ${writeCount(count)}`),
      example ? el('a', { href: linkTo('/messages/:id', { id: example }) })('Newest example') : null,
      field ? el('a', { href: headerPath(field), target: '_blank', rel: 'noopener' })('The rule of this header') : null,
    ),
  );
}

interface Heading {
  readonly title: string;
  /** What is compared. Numbers and times begin with the greatest. */
  readonly order: (group: RefusalGroup) => string | number;
}

const columns = {
  cause: { title: 'Header', order: ({ field, code }) => `${field ?? ''} ${code}`.toLowerCase() },
  count: { title: 'Messages', order: ({ count }) => -count },
  credential: { title: 'Credential', order: ({ account, credential }) => `${account} ${credential}`.toLowerCase() },
  mailer: { title: 'Program', order: ({ mailer }) => mailer.toLowerCase() },
  last: { title: 'Last', order: ({ last_at: last }) => -Date.parse(last ?? '') },
} as const satisfies Readonly<Record<string, Heading>>;

type ColumnName = keyof typeof columns;

function isColumn(name: string): name is ColumnName {
  return Object.hasOwn(columns, name);
}

function inOrder(groups: readonly RefusalGroup[], by: ColumnName): readonly RefusalGroup[] {
  const { order }: Heading = columns[by];
  return groups.toSorted((one, two) => {
    const [left, right] = [order(one), order(two)];
    return left < right ? -1 : left > right ? 1 : two.count - one.count;
  });
}

function isFound({ account, credential, mailer, field, code, message }: RefusalGroup, q: string): boolean {
  const text = [account, credential, mailer, field, code, message].join(' ').toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function heading(name: ColumnName, { title }: Heading, by: ColumnName): JSX.Element {
  const isBy = name === by;
  const sort = isBy ? (name === 'count' || name === 'last' ? 'descending' : 'ascending') : undefined;
  return el('th', { key: name, scope: 'col', class: name === 'count' ? 'number' : undefined, 'aria-sort': sort })(
    el('button.sort', { type: 'button', onClick: () => setFilters({ by: name === 'count' ? undefined : name }) })(
      title,
      isBy ? el('span', { 'aria-hidden': 'true' })(sort === 'descending' ? ' ↓' : ' ↑') : null,
    ),
  );
}

/** The row of a cause, which opens below it when it is pressed. */
function cause(group: RefusalGroup, { span, isOpen, onClick }: { span: string; isOpen: boolean; onClick: () => void }) {
  const { account, credential, mailer, field, code, count, times, last_at: last, cured } = group;
  return el(Fragment, { key: keyOf(group) })(
    el('tr')(
      el('td.wide')(
        el('button.opener', { type: 'button', 'aria-expanded': isOpen, onClick })(
          h(Icon, { name: 'right' }),
          brief(field ?? 'The message as a whole', 100),
        ),
        el('span.sub')(code, cured ? ', cured' : null),
      ),
      el('td.number', { 'data-title': columns.count.title })(h(Bars, { times }), writeCount(count)),
      el('td', { 'data-title': columns.credential.title })(
        isEveryAccount.value && el('bdi')(`${account} / `),
        el('bdi')(credential || '–'),
      ),
      el('td', { 'data-title': columns.mailer.title })(mailer ? brief(mailer, 60) : '–'),
      el('td.tight', { 'data-title': columns.last.title })(h(Time, { at: last, style: 'ago' })),
    ),
    isOpen && el('tr.opened')(el('td', { colSpan: 5 })(h(Opened, { group, span }))),
  );
}

function Causes(props: { readonly groups: readonly RefusalGroup[]; readonly span: string; readonly by: ColumnName }) {
  const { groups, span, by } = props;
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  return el('div.table-room')(
    el('table.list.causes')(
      el('caption.unseen')('Causes of refusals'),
      el('thead')(
        el('tr')(
          (['cause', 'count', 'credential', 'mailer', 'last'] as const).map((name) => heading(name, columns[name], by)),
        ),
      ),
      el('tbody')(
        inOrder(groups, by).map((group) => {
          const key = keyOf(group);
          const onClick = (): void => setOpen(open.symmetricDifference(new Set([key])));
          return cause(group, { span, isOpen: open.has(key), onClick });
        }),
      ),
    ),
  );
}

function groupList(
  groups: readonly RefusalGroup[],
  { q, span, by }: { readonly q: string | undefined; readonly span: string; readonly by: ColumnName },
): ComponentChildren {
  const found = groups.filter((group) => q === undefined || isFound(group, q));
  const all = groups.reduce((sum, { count }) => sum + count, 0);
  const counts = `${writeCounted(all, 'reason')} in ${writeCounted(groups.length, 'group')}`;
  return [
    el('div.filters')(h(SearchBox, { label: 'Search', value: q, placeholder: 'Header, code, credential or program' })),
    el('p.soft')(`${counts}. A message with several faults counts in several groups.`),
    found.length === 0
      ? empty('No cause fits the search', 'search')(h(ClearFilters, { names: ['q'] }))
      : h(Causes, { groups: found, span, by }),
  ];
}

/** The page. */
export function Page(): JSX.Element {
  const { span = '7d', q, by: named = '' } = readFilters(place.value.search, ['span', 'q', 'by']);
  const by = isColumn(named) ? named : 'count';
  const since = sinceOf(span, Math.floor(Date.now() / 60_000) * 60_000);
  // The time goes on and the key stays: with another one the causes would be gone for a moment, and those that are open be closed.
  const loaded = useLoaded<Answer<readonly RefusalGroup[]>>(
    accountPath(`/email/sending/refusals?span=${span}`),
    async (_, signal) => await ask(accountPath('/email/sending/refusals') + changeFilters('', { since }), { signal }),
  );
  const { show, dialog } = useDialog();
  useEvery(10_000, loaded.refresh);
  const compare = (): void => show(h(WouldPassDialog, { since }));
  return el('div')(
    pageHead(
      'Refusals',
      'What was refused, by cause, with what would cure it. A refused message was not sent to anybody.',
      h(FilterSelect, { label: 'Time', name: 'span', choices: spanChoices, usual: '7d' }),
    ),
    isAdmin.value && el(Button, { onPress: compare })('Would it pass with another configuration?'),
    dialog,
    awaited(loaded, 'Counting refusals', ({ result, notes }) => [
      h(Notes, { notes }),
      result.length === 0
        ? nothingWrong('Nothing was refused', 'Everything that was handed in during this time was accepted.')
        : groupList(result, { q, span, by }),
    ]),
  );
}
