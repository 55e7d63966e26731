// One webhook: what it is, and the log of its requests.

import { Fragment, h, type JSX } from 'preact';
import { Button } from '../parts/controls.ts';
import { Confirm, type ConfirmProps, useDialog } from '../parts/dialog.ts';
import { el } from '../parts/element.ts';
import { type Column, column, numbers, PagedTable, tight, wide } from '../parts/list.ts';
import { empty, Facts, Fault, PageHead, Progress, panel } from '../parts/surfaces.ts';
import { brief, foreign, State, Time } from '../parts/text.ts';
import { stateWords } from '../parts/words.ts';
import { ask } from '../state/api.ts';
import { useAnswer } from '../state/loading.ts';
import { goTo, linkTo, type PageProps } from '../state/location.ts';
import { tell } from '../state/notices.ts';
import { type Pages, usePages } from '../state/paging.ts';
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
  column('tight when', 'Time', ({ at }) => h(Time, { at })),
  tight('Result', (delivery) => h(Result, { delivery })),
  {
    title: 'Event',
    cell: ({ kind, event }) => [stateWords(kind).word, ' ', el('span.soft', event)],
  },
  wide('Answer', ({ status, error }) => [status === null ? null : `HTTP ${status} `, error ? foreign(error) : null]),
  numbers('Attempt', ({ attempt }) => attempt),
  numbers('Took', ({ duration_ms: ms }) => writeDuration(ms)),
];

/** The buttons that change a webhook. @param onChanged is to look at it anew */
function Changes({ webhook, onChanged }: { readonly webhook: Webhook; readonly onChanged: () => void }): JSX.Element {
  const { show, dialog } = useDialog();
  const url = accountOnlyPath(`${webhooksPath}/${webhook.id}`);
  const turn = async (): Promise<void> => {
    await ask(url, { method: 'PATCH', body: { enabled: !webhook.enabled } });
    onChanged();
  };
  const change = (): void =>
    show((onClose) => {
      const onSend = async (body: object): Promise<void> => {
        await ask(url, { method: 'PATCH', body });
        tell('The webhook is changed.');
        onChanged();
        onClose();
      };
      return h(WebhookForm, { title: 'Change the webhook', action: 'Save', webhook, onSend, onClose });
    });
  const rotate = async (): Promise<void> => {
    const { result } = await ask<MadeWebhook>(`${url}/rotate`, { method: 'POST' });
    show((onClose) => h(MadeSecret, { webhook: result, onClose }));
  };
  const remove = async (): Promise<void> => {
    await ask(url, { method: 'DELETE' });
    tell('The webhook is removed.');
    goTo(linkTo('/webhooks'));
  };
  const confirmed = (about: Omit<ConfirmProps, 'onClose' | 'children'>, text: string) => (): void =>
    show((onClose) => h(Confirm, { ...about, onClose }, el('p', text)));
  return h(
    Fragment,
    null,
    webhook.enabled
      ? h(Button, { icon: 'pause', onPress: turn }, 'Turn off')
      : h(Button, { icon: 'play', onPress: turn }, 'Turn on'),
    h(Button, { onPress: change }, 'Change'),
    h(
      Button,
      {
        onPress: confirmed(
          { title: 'Replace the secret?', action: 'Replace the secret', onConfirm: rotate },
          'For a day requests are signed with both the old and the new secret.',
        ),
      },
      'Replace the secret',
    ),
    h(
      Button,
      {
        onPress: confirmed(
          { title: 'Remove 1 webhook?', action: 'Remove 1 webhook', danger: true, onConfirm: remove },
          'Its endpoint is told nothing more, and its log goes with it.',
        ),
      },
      'Remove',
    ),
    dialog,
  );
}

function requests(pages: Pages<WebhookDelivery>): JSX.Element {
  return panel(
    { title: 'Requests', actions: h(Button, { icon: 'reload', onPress: pages.reload }, 'Look again') },
    h(PagedTable<WebhookDelivery>, {
      ...{ pages, what: 'requests', label: 'Requests', columns },
      none: empty(
        'It has not been told of anything',
        'webhooks',
        'As soon as something happens to mail of this account, the request and its answer stand here.',
      ),
    }),
  );
}

/** The page. */
export function Page({ parameters }: PageProps): JSX.Element {
  const url = accountOnlyPath(`${webhooksPath}/${encodeURIComponent(parameters['id'] ?? '')}`);
  const { value: webhook, problem, reload } = useAnswer<Webhook>(url);
  const pages = usePages<WebhookDelivery>(`${url}/deliveries?per_page=100`);
  const back = { url: linkTo('/webhooks'), label: 'Webhooks' };
  if (problem) return el('div', h(PageHead, { title: 'Webhook', back }), h(Fault, { problem, retry: reload }));
  if (!webhook) return el('div', h(PageHead, { title: 'Webhook', back }), h(Progress, { what: 'Loading the webhook' }));
  return el(
    'div',
    h(
      PageHead,
      { title: brief(webhook.url, 200), name: 'Webhook', back, lead: webhook.note },
      mayEdit.value && webhook.source === 'api' && h(Changes, { webhook, onChanged: reload }),
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
    requests(pages),
  );
}
