// The webhooks of an account: endpoints that are told what happens to its mail.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button, Checks, Field } from '../parts/controls.ts';
import { FormDialog, ShownOnce, useDialog } from '../parts/dialog.ts';
import { el } from '../parts/element.ts';
import { type Column, numbers, Table, tight, wide } from '../parts/list.ts';
import { awaited, empty, pageHead } from '../parts/surfaces.ts';
import { brief, State, Time } from '../parts/text.ts';
import { offeredKinds, stateWords } from '../parts/words.ts';
import { ask } from '../state/api.ts';
import { useAnswer } from '../state/loading.ts';
import { linkTo } from '../state/location.ts';
import { accountOnlyPath, mayEdit } from '../state/session.ts';
import type { MadeWebhook, Webhook } from '../state/shapes.ts';

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
      ...{ title: props.title, action: props.action, onClose: props.onClose },
      onSubmit: () => props.onSend({ url: url.trim(), kinds: chosen, note }),
    },
    h(Field, {
      ...{ label: 'URL', value: url, onInput: setUrl, required: true, autofocus: true },
      placeholder: 'https://hooks.example.com/postern',
      hint: 'It gets a signed POST for each event, and answers with a status of 200 to 299.',
    }),
    h(Field, { label: 'What it is for (optional)', value: note, onInput: setNote }),
    h(Checks, {
      ...{ legend: 'What it is told of; nothing chosen: everything', chosen, onChoose: setChosen },
      choices: offeredKinds.map((kind) => [kind, stateWords(kind).word] as const),
    }),
  );
}

/** The secret of a webhook that was just made, which is shown this once. */
export function MadeSecret(props: { readonly webhook: MadeWebhook; readonly onClose: () => void }): JSX.Element {
  const { webhook, onClose } = props;
  return h(
    ShownOnce,
    { title: 'Copy the secret', text: webhook.secret, what: 'the secret', onClose },
    'Its requests are signed with this secret, by which the endpoint knows that they are ours. It is shown this once.',
  );
}

/** Of what a webhook is told, in words. */
export function toldOf({ kinds }: Webhook): string {
  return kinds.length === 0 ? 'everything' : kinds.map((kind) => stateWords(kind).word).join(', ');
}

const columns: readonly Column<Webhook>[] = [
  wide('Endpoint', ({ id, url, note }) => [
    h('a', { key: 'url', class: 'row-link', href: linkTo('/webhooks/:id', { id }) }, brief(url, 200)),
    note === '' ? null : el('span.sub', brief(note, 200)),
  ]),
  tight('State', ({ enabled }) => h(State, { state: enabled ? 'enabled' : 'disabled' })),
  { title: 'Told of', cell: toldOf },
  numbers('Failed in a row', ({ failures }) => failures),
  tight('Made', ({ created_at }) => h(Time, { at: created_at })),
];

function listed(rows: readonly Webhook[]): JSX.Element {
  const what = 'Make one to have a program of yours told of deliveries, bounces and refusals as they happen.';
  if (rows.length === 0) return empty('There is no webhook', 'webhooks', what);
  return h(Table<Webhook>, { label: 'Webhooks', columns, rows, keyOf: ({ id }) => id });
}

/** The page. */
export function Page(): JSX.Element {
  const loaded = useAnswer<readonly Webhook[]>(accountOnlyPath(webhooksPath));
  const { show, dialog } = useDialog();
  const make = async (body: object): Promise<void> => {
    const { result: webhook } = await ask<MadeWebhook>(accountOnlyPath(webhooksPath), { method: 'POST', body });
    show((onClose) => h(MadeSecret, { webhook, onClose }));
    loaded.reload();
  };
  const begin = (): void =>
    show((onClose) => h(WebhookForm, { title: 'Make a webhook', action: 'Make the webhook', onSend: make, onClose }));
  return el(
    'div',
    pageHead(
      'Webhooks',
      'Endpoints of yours that are told what happens to mail, each event once it has happened.',
      mayEdit.value && h(Button, { kind: 'main', icon: 'plus', onPress: begin }, 'Make a webhook'),
    ),
    awaited(loaded, 'Loading webhooks', listed),
    dialog,
  );
}
