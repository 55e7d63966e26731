// The webhooks of an account, endpoints that are told what happens to its mail, and each of them with the log of its requests.

import { Fragment, h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button, Checks, Field } from '../parts/controls.ts';
import { Confirm, type ConfirmProps, FormDialog, ShownOnce, useDialog } from '../parts/dialog.ts';
import { brief, el, foreign, offeredKinds, State, stateWords, Time } from '../parts/element.ts';
import { type Column, column, PagedTable, Table } from '../parts/list.ts';
import { awaited, empty, facts, fault, makeButton, PageHead, Progress, pageHead, panel } from '../parts/surfaces.ts';
import { ask, useAnswer } from '../state/api.ts';
import { tell } from '../state/notices.ts';
import { type Pages, usePages } from '../state/paging.ts';
import { accountOnlyPath, goTo, linkTo, mayEdit, type PageProps } from '../state/session.ts';
import type { MadeWebhook, Webhook, WebhookDelivery } from '../state/shapes.ts';
import { writeDuration } from '../text/amounts.ts';

const webhooksPath = '/email/sending/webhooks';

function WebhookForm(props: {
  readonly title: string;
  readonly action: string;
  readonly webhook?: Webhook;
  readonly onSend: (body: { url: string; kinds: readonly string[]; note: string }) => Promise<void>;
}): JSX.Element {
  const { webhook } = props;
  const [url, setUrl] = useState(webhook?.url ?? '');
  const [note, setNote] = useState(webhook?.note ?? '');
  const [chosen, setChosen] = useState<readonly string[]>(webhook?.kinds ?? []);
  return el(FormDialog, {
    ...{ title: props.title, action: props.action },
    onSubmit: () => props.onSend({ url: url.trim(), kinds: chosen, note }),
  })(
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
function madeSecret({ secret }: MadeWebhook): JSX.Element {
  return el(ShownOnce, { title: 'Copy the secret', text: secret, what: 'the secret' })(
    'Its requests are signed with this secret, by which the endpoint knows that they are ours. It is shown this once.',
  );
}

function toldOf({ kinds }: Webhook): string {
  return kinds.length === 0 ? 'everything' : kinds.map((kind) => stateWords(kind).word).join(', ');
}

const columns: readonly Column<Webhook>[] = [
  column('wide', 'Endpoint', ({ id, url, note }) => [
    el('a.row-link', { key: 'url', href: linkTo('/webhooks/:id', { id }) })(brief(url, 200)),
    note === '' ? null : el('span.sub')(brief(note, 200)),
  ]),
  column('tight', 'State', ({ enabled }) => h(State, { state: enabled ? 'enabled' : 'disabled' })),
  { title: 'Told of', cell: toldOf },
  column('number', 'Failed in a row', ({ failures }) => failures),
  column('tight', 'Made', ({ created_at }) => h(Time, { at: created_at })),
];

function listed(rows: readonly Webhook[]): JSX.Element {
  const what = 'Make one to have a program of yours told of deliveries, bounces and refusals as they happen.';
  if (rows.length === 0) return empty('There is no webhook', 'webhooks')(what);
  return h(Table<Webhook>, { label: 'Webhooks', columns, rows, keyOf: ({ id }) => id });
}

/** The page. */
export function Page(): JSX.Element {
  const loaded = useAnswer<readonly Webhook[]>(accountOnlyPath(webhooksPath));
  const { show, dialog } = useDialog();
  const make = async (body: object): Promise<void> => {
    const { result: webhook } = await ask<MadeWebhook>(accountOnlyPath(webhooksPath), { method: 'POST', body });
    show(madeSecret(webhook));
    loaded.reload();
  };
  const begin = (): void => show(h(WebhookForm, { title: 'Make a webhook', action: 'Make the webhook', onSend: make }));
  return el('div')(
    pageHead(
      'Webhooks',
      'Endpoints of yours that are told what happens to mail, each event once it has happened.',
      makeButton(mayEdit.value, begin, 'Make a webhook'),
    ),
    awaited(loaded, 'Loading webhooks', listed),
    dialog,
  );
}

function Result({ delivery }: { readonly delivery: WebhookDelivery }): JSX.Element {
  const isDone = delivery.status !== null && delivery.status >= 200 && delivery.status < 300;
  const words = isDone ? stateWords('delivery') : { word: 'Failed', tone: 'bad' as const, icon: 'warning' as const };
  return h(State, { state: delivery.result, words });
}

const requestColumns: readonly Column<WebhookDelivery>[] = [
  column('tight when', 'Time', ({ at }) => h(Time, { at })),
  column('tight', 'Result', (delivery) => h(Result, { delivery })),
  {
    title: 'Event',
    cell: ({ kind, event }) => [stateWords(kind).word, ' ', el('span.soft')(event)],
  },
  column('wide', 'Answer', ({ status, error }) => [
    status === null ? null : `HTTP ${status} `,
    error ? foreign(error) : null,
  ]),
  column('number', 'Attempt', ({ attempt }) => attempt),
  column('number', 'Took', ({ duration_ms: ms }) => writeDuration(ms)),
];

const whatRotates = 'For a day requests are signed with both the old and the new secret.';
const whatGoes = 'Its endpoint is told nothing more, and its log goes with it.';

/** The buttons that change a webhook. @param onChanged is to look at it anew */
function Changes({ webhook, onChanged }: { readonly webhook: Webhook; readonly onChanged: () => void }): JSX.Element {
  const { show, dialog } = useDialog();
  const url = accountOnlyPath(`${webhooksPath}/${webhook.id}`);
  const turn = async (): Promise<void> => {
    await ask(url, { method: 'PATCH', body: { enabled: !webhook.enabled } });
    onChanged();
  };
  const onSend = async (body: object): Promise<void> => {
    await ask(url, { method: 'PATCH', body });
    tell('The webhook is changed.');
    onChanged();
  };
  const change = (): void => show(h(WebhookForm, { title: 'Change the webhook', action: 'Save', webhook, onSend }));
  const rotate = async (): Promise<void> => {
    const { result } = await ask<MadeWebhook>(`${url}/rotate`, { method: 'POST' });
    show(madeSecret(result));
  };
  const remove = async (): Promise<void> => {
    await ask(url, { method: 'DELETE' });
    tell('The webhook is removed.');
    goTo(linkTo('/webhooks'));
  };
  const confirmed = (about: Pick<ConfirmProps, 'action' | 'danger' | 'onConfirm'>, text: string) => (): void =>
    show(el(Confirm, { title: `${about.action}?`, ...about })(el('p')(text)));
  const onRotate = confirmed({ action: 'Replace the secret', onConfirm: rotate }, whatRotates);
  const onRemove = confirmed({ action: 'Remove 1 webhook', danger: true, onConfirm: remove }, whatGoes);
  return el(Fragment)(
    webhook.enabled
      ? el(Button, { icon: 'pause', onPress: turn })('Turn off')
      : el(Button, { icon: 'play', onPress: turn })('Turn on'),
    el(Button, { onPress: change })('Change'),
    el(Button, { onPress: onRotate })('Replace the secret'),
    el(Button, { onPress: onRemove })('Remove'),
    dialog,
  );
}

function requests(pages: Pages<WebhookDelivery>): JSX.Element {
  return panel({ title: 'Requests', actions: el(Button, { icon: 'reload', onPress: pages.reload })('Look again') })(
    h(PagedTable<WebhookDelivery>, {
      ...{ pages, what: 'requests', label: 'Requests', columns: requestColumns },
      none: empty(
        'It has not been told of anything',
        'webhooks',
      )('As soon as something happens to mail of this account, the request and its answer stand here.'),
    }),
  );
}

/** The page of one webhook: what it is, and the log of its requests. */
export function WebhookPage({ parameters }: PageProps): JSX.Element {
  const url = accountOnlyPath(`${webhooksPath}/${encodeURIComponent(parameters['id'] ?? '')}`);
  const { value: webhook, problem, reload } = useAnswer<Webhook>(url);
  const pages = usePages<WebhookDelivery>(`${url}/deliveries?per_page=100`);
  const back = { url: linkTo('/webhooks'), label: 'Webhooks' };
  if (problem) return el('div')(h(PageHead, { title: 'Webhook', back }), fault(problem, reload));
  if (!webhook) return el('div')(h(PageHead, { title: 'Webhook', back }), h(Progress, { what: 'Loading the webhook' }));
  return el('div')(
    el(PageHead, { title: brief(webhook.url, 200), name: 'Webhook', back, lead: webhook.note })(
      mayEdit.value && webhook.source === 'api' && h(Changes, { webhook, onChanged: reload }),
    ),
    facts([
      ['State', h(State, { state: webhook.enabled ? 'enabled' : 'disabled' })],
      ['Turned off because', webhook.disabled_reason],
      ['Told of', toldOf(webhook)],
      ['Made', h(Time, { at: webhook.created_at })],
      ['Changed in', webhook.source === 'file' ? 'the configuration file alone' : null],
      ['Now', webhook.replaying ? 'sending events once more' : null],
    ]),
    requests(pages),
  );
}
