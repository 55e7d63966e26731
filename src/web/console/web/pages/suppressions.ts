// Addresses that get no mail of this account.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button, Field, Select } from '../parts/controls.ts';
import { Confirm, FormDialog, useDialog } from '../parts/dialog.ts';
import { brief, el, foreign, Time } from '../parts/element.ts';
import { type Column, column, PagedTable, SearchBox } from '../parts/list.ts';
import { ClearFilters, empty, makeButton, pageHead } from '../parts/surfaces.ts';
import { ask } from '../state/api.ts';
import { tell } from '../state/notices.ts';
import { usePages } from '../state/paging.ts';
import { accountOnlyPath, mayEdit, place } from '../state/session.ts';
import type { Suppression } from '../state/shapes.ts';
import { endAfter, spanChoices } from '../text/amounts.ts';
import { changeFilters, readFilters } from '../text/filters.ts';

const path = '/email/sending/suppressions';

const reasons: Readonly<Record<string, string>> = {
  manual: 'Added by hand',
  hard_bounce: 'Bounced for good',
  complaint: 'Called mail unwanted',
  unsubscribe: 'Unsubscribed',
};

const times = spanChoices('Until it is removed', 7, 30, 365);

function AddDialog({ onAdded }: { readonly onAdded: () => void }): JSX.Element {
  const [address, setAddress] = useState('');
  const [reason, setReason] = useState('manual');
  const [note, setNote] = useState('');
  const [days, setDays] = useState('');
  const add = async (): Promise<void> => {
    const ends = endAfter(days, Date.now());
    await ask(accountOnlyPath(path), {
      method: 'POST',
      body: { address: address.trim(), reason, expires_at: ends, note: note || undefined },
    });
    tell(`${address.trim()} gets no more mail.`);
    onAdded();
  };
  return el(FormDialog, { title: 'Add an address', action: 'Add the address', onSubmit: add })(
    h(Field, {
      ...{ label: 'Address', value: address, onInput: setAddress, required: true, autofocus: true },
      hint: 'Mail to it is refused from now on, with a reply that says so.',
    }),
    h(Select, {
      label: 'Reason',
      value: reason,
      choices: Object.entries(reasons).map(([value, label]) => ({ value, label })),
      onChoose: setReason,
    }),
    h(Select, { label: 'How long', value: days, choices: times, onChoose: setDays }),
    h(Field, { label: 'Note (optional)', value: note, onInput: setNote, hint: 'For whoever looks at the list later.' }),
  );
}

const columns: readonly Column<Suppression>[] = [
  column('wide', 'Address', ({ address, note }) => [
    el('strong')(brief(address, 120)),
    note ? el('span.sub')(foreign(note)) : null,
  ]),
  { title: 'Reason', cell: ({ reason }) => reasons[reason] ?? reason },
  column('tight', 'Since', ({ created_at }) => h(Time, { at: created_at })),
  column('tight', 'Until', ({ expires_at }) => (expires_at ? h(Time, { at: expires_at }) : el('span.soft')('removed'))),
];

function nothingThere(q: string | undefined): JSX.Element {
  if (q !== undefined) return empty('No address fits', 'suppressions')(h(ClearFilters, { names: ['q'] }));
  const what =
    'Add an address that must not get mail, such as one of a test system or of somebody who has asked for it.';
  return empty('Nobody is suppressed', 'suppressions')(what);
}

/** The page. */
export function Page(): JSX.Element {
  const { q } = readFilters(place.value.search, ['q']);
  const { show, dialog } = useDialog();
  const pages = usePages<Suppression>(accountOnlyPath(path) + changeFilters('', { search: q, per_page: '100' }));
  const add = (): void => show(h(AddDialog, { onAdded: pages.reload }));
  const remove = ({ id, address }: Suppression): void => {
    const onConfirm = async (): Promise<void> => {
      await ask(accountOnlyPath(`${path}/${id}`), { method: 'DELETE' });
      pages.change((rows) => rows.filter((row) => row.id !== id));
      tell(`${address} may get mail again.`);
    };
    const what = el('p')(el('bdi')(address), ' may get mail again from now on.');
    show(el(Confirm, { title: 'Remove 1 address?', action: 'Remove 1 address', onConfirm })(what));
  };
  const actions = column<Suppression>('tight doing', 'Actions', (row) =>
    el('div.row-actions')(el(Button, { onPress: () => remove(row), label: `Remove ${row.address}` })('Remove')),
  );
  return el('div')(
    pageHead(
      'Suppressions',
      'Addresses that get no mail of this account. Bounces and complaints add to them.',
      makeButton(mayEdit.value, add, 'Add an address'),
    ),
    el('div.filters')(h(SearchBox, { label: 'Search addresses', value: q })),
    h(PagedTable<Suppression>, {
      ...{ pages, what: 'addresses', label: 'Suppressed addresses', none: nothingThere(q) },
      columns: mayEdit.value ? [...columns, actions] : columns,
    }),
    dialog,
  );
}
