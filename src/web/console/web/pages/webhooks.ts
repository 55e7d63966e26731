// The webhooks of an account: endpoints that are told what happens to its mail.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button, Checkbox, Field } from '../parts/controls.ts';
import { FormDialog, ShownOnce } from '../parts/dialog.ts';
import { el } from '../parts/element.ts';
import { type Column, numbers, Table, tight } from '../parts/list.ts';
import { Empty, Loading, listed, PageHead } from '../parts/surfaces.ts';
import { Foreign, State, Time } from '../parts/text.ts';
import { offeredKinds, stateWords } from '../parts/words.ts';
import { ask } from '../state/api.ts';
import { useAnswer } from '../state/loading.ts';
import { linkTo } from '../state/location.ts';
import { accountOnlyPath, mayEdit } from '../state/session.ts';
import type { Webhook } from '../state/shapes.ts';

/** The path of their endpoint. */
export const webhooksPath = '/email/sending/webhooks';

/** Fills in what a webhook is: where it is told, and of what. */
export function WebhookForm(props: {
  readonly title: string;
  readonly action: string;
  readonly webhook?: Webhook;
  readonly onSend: (body: { url: string; kinds: readonly string[]; note: string }) => Promise<void>;
  readonly onClose: () => void;
}): JSX.Element {
  const { webhook } = props;
  const [url, setUrl] = useState(webhook?.url ?? '');
  const [note, setNote] = useState(webhook?.note ?? '');
  const [chosen, setChosen] = useState<readonly string[]>(webhook?.kinds ?? []);
  return h(
    FormDialog,
    {
      title: props.title,
      action: props.action,
      onClose: props.onClose,
      onSubmit: () => props.onSend({ url: url.trim(), kinds: chosen, note }),
    },
    h(Field, {
      label: 'URL',
      value: url,
      onInput: setUrl,
      required: true,
      autofocus: true,
      placeholder: 'https://hooks.example.com/postern',
      hint: 'It gets a signed POST for each event, and answers with a status of 200 to 299.',
    }),
    h(Field, { label: 'What it is for (optional)', value: note, onInput: setNote }),
    el(
      'fieldset',
      el('legend', 'What it is told of; nothing chosen: everything'),
      el(
        'div.checks',
        offeredKinds.map((kind) =>
          h(Checkbox, {
            ...{ key: kind, label: stateWords(kind).word, checked: chosen.includes(kind) },
            onChange: (isOn) =>
              setChosen((before) => (isOn ? [...before, kind] : before.filter((one) => one !== kind))),
          }),
        ),
      ),
    ),
  );
}

/** The secret of a webhook that was just made, which is shown this once. */
export function MadeSecret(props: { readonly webhook: Webhook; readonly onClose: () => void }): JSX.Element {
  const { webhook, onClose } = props;
  return h(
    ShownOnce,
    { title: 'Copy the secret', text: webhook.secret ?? '', what: 'the secret', onClose },
    'Its requests are signed with this secret, by which the endpoint knows that they are ours. It is shown this once.',
  );
}

const columns: readonly Column<Webhook>[] = [
  {
    key: 'url',
    title: 'Endpoint',
    kind: 'wide',
    cell: ({ id, url, note }) => [
      h(
        'a',
        { key: 'url', class: 'row-link', href: linkTo('/webhooks/:id', { id }) },
        h(Foreign, { text: url, most: 200, brief: true }),
      ),
      note === '' ? null : h('span', { class: 'sub', key: 'note' }, h(Foreign, { text: note, most: 200, brief: true })),
    ],
  },
  tight('state', 'State', ({ enabled }) => h(State, { state: enabled ? 'enabled' : 'disabled' })),
  {
    key: 'kinds',
    title: 'Told of',
    cell: ({ kinds: told }) =>
      told.length === 0 ? 'everything' : told.map((kind) => stateWords(kind).word).join(', '),
  },
  numbers('failures', 'Failed in a row', ({ failures }) => failures),
  tight('made', 'Made', ({ created_at }) => h(Time, { at: created_at })),
];

/** The page. */
export function WebhooksPage(): JSX.Element {
  const loaded = useAnswer<readonly Webhook[]>(accountOnlyPath(webhooksPath));
  const { value, reload } = loaded;
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<Webhook>();
  const make = async (body: object): Promise<void> => {
    const { result } = await ask<Webhook>(accountOnlyPath(webhooksPath), { method: 'POST', body });
    setMaking(false);
    setMade(result);
    reload();
  };
  return el(
    'div',
    h(
      PageHead,
      {
        title: 'Webhooks',
        lead: 'Endpoints of yours that are told what happens to mail, each event once it has happened.',
      },
      mayEdit.value
        ? h(Button, { kind: 'main', icon: 'plus', onPress: () => setMaking(true) }, 'Make a webhook')
        : null,
    ),
    h(Loading, { loaded, what: 'Loading webhooks' }),

    listed(
      value,
      h(
        Empty,
        { title: 'There is no webhook', icon: 'webhooks' },
        'Make one to have a program of yours told of deliveries, bounces and refusals as they happen.',
      ),
      (rows) => h(Table<Webhook>, { label: 'Webhooks', columns, rows, keyOf: ({ id }) => id }),
    ),
    isMaking
      ? h(WebhookForm, {
          title: 'Make a webhook',
          action: 'Make the webhook',
          onSend: make,
          onClose: () => setMaking(false),
        })
      : null,
    made ? h(MadeSecret, { webhook: made, onClose: () => setMade(undefined) }) : null,
  );
}
