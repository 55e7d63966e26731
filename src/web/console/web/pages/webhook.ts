// One webhook: what it is, and the log of its requests.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../parts/controls.ts';
import { Confirm } from '../parts/dialog.ts';
import { el } from '../parts/element.ts';
import { type Column, numbers, PagedTable, tight, wide } from '../parts/list.ts';
import { empty, Facts, Fault, PageHead, Progress, panel } from '../parts/surfaces.ts';
import { brief, foreign, State, Time } from '../parts/text.ts';
import { stateWords } from '../parts/words.ts';
import { ask } from '../state/api.ts';
import { useAnswer } from '../state/loading.ts';
import { goTo, linkTo, type PageProps } from '../state/location.ts';
import { tell } from '../state/notices.ts';
import { usePages } from '../state/paging.ts';
import { accountOnlyPath, mayEdit } from '../state/session.ts';
import type { MadeWebhook, Webhook, WebhookDelivery } from '../state/shapes.ts';
import { writeDuration } from '../text/amounts.ts';
import { MadeSecret, toldOf, WebhookForm, webhooksPath } from './webhooks.ts';

function Result({ delivery }: { readonly delivery: WebhookDelivery }): JSX.Element {
  const isDone = delivery.status !== null && delivery.status >= 200 && delivery.status < 300;
  const words = isDone ? stateWords('delivery') : { word: 'Failed', tone: 'bad' as const, icon: 'warning' as const };
  return h(State, { state: delivery.result, words });
}

const columns: readonly Column<WebhookDelivery>[] = [
  { key: 'at', title: 'Time', kind: 'tight when', cell: ({ at }) => h(Time, { at }) },
  tight('result', 'Result', (delivery) => h(Result, { delivery })),
  {
    key: 'kind',
    title: 'Event',
    cell: ({ kind, event }) => [stateWords(kind).word, ' ', el('span.soft', event)],
  },
  wide('answer', 'Answer', ({ status, error }) => [
    status === null ? null : `HTTP ${status} `,
    error ? foreign(error) : null,
  ]),
  numbers('attempt', 'Attempt', ({ attempt }) => attempt),
  numbers('took', 'Took', ({ duration_ms: ms }) => writeDuration(ms)),
];

type Open = 'change' | 'remove' | 'rotate' | undefined;

function Dialogs(props: {
  readonly webhook: Webhook;
  readonly open: Open;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}): JSX.Element | null {
  const { webhook, open, onClose, onChanged } = props;
  const [made, setMade] = useState<MadeWebhook>();
  const url = accountOnlyPath(`${webhooksPath}/${webhook.id}`);
  if (made) return h(MadeSecret, { webhook: made, onClose: () => setMade(undefined) });
  if (open === 'change') {
    const change = async (body: object): Promise<void> => {
      await ask(url, { method: 'PATCH', body });
      tell('The webhook is changed.');
      onChanged();
      onClose();
    };
    return h(WebhookForm, { title: 'Change the webhook', action: 'Save', webhook, onSend: change, onClose });
  }
  if (open === 'remove') {
    const remove = async (): Promise<void> => {
      await ask(url, { method: 'DELETE' });
      tell('The webhook is removed.');
      goTo(linkTo('/webhooks'));
    };
    return h(
      Confirm,
      { title: 'Remove 1 webhook?', action: 'Remove 1 webhook', danger: true, onConfirm: remove, onClose },
      el('p', 'Its endpoint is told nothing more, and its log goes with it.'),
    );
  }
  if (open === 'rotate') {
    const rotate = async (): Promise<void> =>
      setMade((await ask<MadeWebhook>(`${url}/rotate`, { method: 'POST' })).result);
    return h(
      Confirm,
      { title: 'Replace the secret?', action: 'Replace the secret', onConfirm: rotate, onClose },
      el('p', 'For a day requests are signed with both the old and the new secret.'),
    );
  }
  return null;
}

/** The page. */
export function WebhookPage({ parameters }: PageProps): JSX.Element {
  const url = accountOnlyPath(`${webhooksPath}/${encodeURIComponent(parameters['id'] ?? '')}`);
  const { value: webhook, problem, reload } = useAnswer<Webhook>(url);
  const pages = usePages<WebhookDelivery>(`${url}/deliveries?per_page=100`);
  const [open, setOpen] = useState<Open>();
  const turn = async (): Promise<void> => {
    await ask(url, { method: 'PATCH', body: { enabled: webhook?.enabled === false } });
    reload();
  };
  const back = { url: linkTo('/webhooks'), label: 'Webhooks' };
  if (problem) return el('div', h(PageHead, { title: 'Webhook', back }), h(Fault, { problem, retry: reload }));
  if (!webhook) return el('div', h(PageHead, { title: 'Webhook', back }), h(Progress, { what: 'Loading the webhook' }));
  const isChangeable = mayEdit.value && webhook.source === 'api';
  return el(
    'div',
    h(
      PageHead,
      { title: brief(webhook.url, 200), name: 'Webhook', back, lead: webhook.note },
      isChangeable
        ? [
            webhook.enabled
              ? h(Button, { icon: 'pause', onPress: turn }, 'Turn off')
              : h(Button, { icon: 'play', onPress: turn }, 'Turn on'),
            h(Button, { onPress: () => setOpen('change') }, 'Change'),
            h(Button, { onPress: () => setOpen('rotate') }, 'Replace the secret'),
            h(Button, { onPress: () => setOpen('remove') }, 'Remove'),
          ]
        : null,
    ),
    h(Facts, {
      items: [
        ['State', h(State, { state: webhook.enabled ? 'enabled' : 'disabled' })],
        ['Turned off because', webhook.disabled_reason],
        ['Told of', toldOf(webhook)],
        ['Made', h(Time, { at: webhook.created_at })],
        ['Changed in', webhook.source === 'file' ? 'the configuration file alone' : null],
        ['Now', webhook.replaying ? 'sending events once more' : null],
      ],
    }),
    panel(
      { title: 'Requests', actions: h(Button, { icon: 'reload', onPress: pages.reload }, 'Look again') },
      h(PagedTable<WebhookDelivery>, {
        ...{ pages, what: 'requests', label: 'Requests', columns },
        none: empty(
          'It has not been told of anything',
          'webhooks',
          'As soon as something happens to mail of this account, the request and its answer stand here.',
        ),
      }),
    ),
    h(Dialogs, { webhook, open, onClose: () => setOpen(undefined), onChanged: reload }),
  );
}
