// One message: what became of it and why.

import { h, type JSX } from 'preact';
import { Button } from '../../parts/controls.ts';
import { Confirm, useDialog } from '../../parts/dialog.ts';
import type { IconName } from '../../parts/element.ts';
import { el, Foreign, outcomeOf, State, Time } from '../../parts/element.ts';
import { type Action, ActionConfirm, choicesFor } from '../../parts/queue-action.ts';
import { empty, facts, fault, openTab, PageHead, Progress, Tabs } from '../../parts/surfaces.ts';
import { reasonsPanel, VerdictTable } from '../../parts/verdicts.ts';
import type { Problem } from '../../state/api.ts';
import { ask, useAnswer, useEvery } from '../../state/api.ts';
import { tell } from '../../state/notices.ts';
import { accountPath, goTo, linkTo, mayEdit, type PageProps, pathOfAccount } from '../../state/session.ts';
import type { JournalEntry, QueuedMessage } from '../../state/shapes.ts';
import { writeCounted, writeOctets } from '../../text/amounts.ts';
import { Comparison, PreviewPanel } from './content.ts';
import { Delivery, Dialogue, Dkim, Timings } from './delivery.ts';

const icons: Readonly<Record<Action, IconName>> = { retry: 'clock', hold: 'pause', release: 'play', drop: 'minus' };

/** Why a message cannot be sent again; undefined where it can. */
function whyNotAgain({ content, content_note: note, damaged, shadow }: JournalEntry): string | undefined {
  if (shadow) return 'It is a copy that came to a shadow listener, and is never sent.';
  if (content === 'full' && !damaged) return undefined;
  const why = note ?? 'the journal keeps no whole messages (journal.content)';
  return `It cannot be sent again from here, because ${why}.`;
}

function Actions(props: {
  readonly entry: JournalEntry;
  /** What of it waits; undefined: nothing, or it is not known yet. */
  readonly waiting: QueuedMessage | undefined;
  readonly onChanged: () => void;
}): JSX.Element | null {
  const { entry, waiting, onChanged } = props;
  const { id, account } = entry;
  const { show, dialog } = useDialog();
  const onConfirm = async (): Promise<void> => {
    // It is sent again for the account that it was of, also where all accounts are looked at.
    const path = pathOfAccount(account, `/email/sending/journal/${encodeURIComponent(id)}/resend`);
    const { result } = await ask<{ readonly id: string }>(path, { method: 'POST', body: {} });
    tell('It is sent again, as a message of its own.');
    goTo(linkTo('/messages/:id', { id: result.id }));
    onChanged();
  };
  const resend = (): void =>
    show(
      el(Confirm, { title: 'Send it again?', action: 'Send 1 message', onConfirm })(
        el('p')(
          'A new message is made of it as it came, with a Message-ID of its own, and judged as if it were handed in now. All its recipients get it.',
        ),
      ),
    );
  const act = (action: Action, state: object | undefined): void => {
    const target = { action, count: 1, noun: 'message', account, body: { ids: [id], ...state } } as const;
    show(h(ActionConfirm, { target, onDone: onChanged }));
  };
  if (!mayEdit.value) return null;
  const whyNot = whyNotAgain(entry);
  return el('div.actions')(
    whyNot === undefined ? el(Button, { icon: 'reload', onPress: resend })('Send again') : el('p.hint')(whyNot),
    waiting &&
      choicesFor([waiting]).map(({ action, label, state }) =>
        el(Button, { key: label, icon: icons[action], onPress: () => act(action, state) })(label),
      ),
    dialog,
  );
}

const vias: Readonly<Record<string, string>> = {
  smtp: 'SMTP',
  rest: 'HTTP (send)',
  raw: 'HTTP (send_raw)',
  dsn: 'a report of Postern itself',
};

function entryPath({ id }: { readonly id: string }): string {
  return accountPath(`/email/sending/journal/${encodeURIComponent(id)}`);
}

function foreign(text: string | null | undefined): JSX.Element | null {
  return text ? h(Foreign, { text, most: 160 }) : null;
}

function SideFacts({ entry }: { readonly entry: JournalEntry }): JSX.Element {
  return el('aside.message-side', { 'aria-label': 'About the message' })(
    el('div.card')(
      facts([
        ['Came', h(Time, { at: entry.at })],
        ['By', entry.via ? (vias[entry.via] ?? entry.via) : null],
        ['Account', foreign(entry.account)],
        ['Credential', foreign(entry.credential)],
        ['Client', entry.client ? el('code')(entry.client) : null],
        ['HELO', foreign(entry.helo)],
        ['TLS', entry.tls ? `${entry.tls.version}, ${entry.tls.cipher}` : entry.via === 'smtp' ? 'none' : null],
        ['Mailer', foreign(entry.mailer)],
        ['Size', entry.size ? writeOctets(entry.size) : null],
        ['Sender', foreign(entry.sender)],
        ['Recipients', writeCounted(entry.recipient_count, 'recipient')],
        ['Message-ID', foreign(entry.message_id)],
        ['Journal id', el('code')(entry.id)],
      ]),
    ),
  );
}

const tabs = [
  { key: 'verdicts', label: 'Verdicts' },
  { key: 'compare', label: 'As it came and left' },
  { key: 'preview', label: 'Preview' },
  { key: 'delivery', label: 'Delivery' },
  { key: 'dialogue', label: 'Dialogue' },
  { key: 'dkim', label: 'DKIM' },
] as const;

function Body({ entry }: { readonly entry: JournalEntry }): JSX.Element {
  const path = entryPath(entry);
  switch (openTab(tabs)) {
    case 'compare':
      return h(Comparison, { entry, path });
    case 'preview':
      return h(PreviewPanel, { entry, path });
    case 'delivery':
      return h(Delivery, { entry });
    case 'dialogue':
      return el('div')(h(Dialogue, { entry }), h(Timings, { entry }));
    case 'dkim':
      return h(Dkim, { entry, path });
    default:
      return entry.verdicts.length > 0
        ? h(VerdictTable, { verdicts: entry.verdicts })
        : empty('No header was judged', 'messages')('It was refused before its headers came, or its entry keeps none.');
  }
}

/** An entry with what of its message waits, as they change. */
function useMessage(id: string) {
  const { value: entry, problem, reload, refresh } = useAnswer<JournalEntry>(entryPath({ id }));
  const mayWait = entry !== undefined && !entry.shadow && entry.outcome !== 'refused' && entry.outcome !== 'delivered';
  // The queue of its own account, also where all accounts are looked at.
  const queuePath = `/email/sending/queue/messages?id=${encodeURIComponent(id)}`;
  const queue = useAnswer<readonly QueuedMessage[]>(mayWait ? pathOfAccount(entry.account, queuePath) : undefined);
  useEvery(4000, () => {
    if (mayWait && entry.outcome !== 'failed' && entry.outcome !== 'dropped') refresh();
    if (mayWait) queue.refresh();
  });
  const changed = (): void => {
    reload();
    queue.reload();
  };
  return { entry, waiting: queue.value?.[0], problem, reload, changed };
}

function notShown(problem: Problem, retry: () => void): JSX.Element {
  if (problem.status !== 404) return fault(problem, retry);
  return empty('There is no such message', 'search')(
    el('bdi')(`${problem.message.replace(/\.$/, '')}.`),
    el('p')('The journal keeps entries for as long as journal.keepDays says.'),
  );
}

function title(entry: JournalEntry, waiting: QueuedMessage | undefined): JSX.Element {
  const unnamed = entry.damaged ? 'Message with a damaged entry' : 'Message without a kept subject';
  return el('span.subject')(
    el('span')(foreign(entry.subject) ?? unnamed),
    h(State, { state: outcomeOf(entry) }),
    waiting?.state === 'held' && h(State, { state: 'held' }),
  );
}

/** The page. */
export function Page({ parameters }: PageProps): JSX.Element {
  const { entry, waiting, problem, reload, changed } = useMessage(parameters['id'] ?? '');
  const back = { url: linkTo('/messages'), label: 'Messages' };
  if (!entry) {
    const what = problem ? notShown(problem, reload) : h(Progress, { what: 'Loading the message' });
    return el('div')(h(PageHead, { title: 'Message', back }), what);
  }
  return el('div')(
    el(PageHead, { title: title(entry, waiting), name: entry.subject?.slice(0, 80) ?? 'Message', back })(
      h(Actions, { entry, waiting, onChanged: changed }),
    ),
    el('div.message-grid')(
      el('div')(
        reasonsPanel(
          entry.reasons,
          entry.outcome === 'refused' ? 'Why it was refused' : 'What would be refused once the policy is enforced',
          entry.reason_count,
        ),
        h(Tabs, { tabs, label: 'Parts of the message' }),
        h(Body, { entry }),
      ),
      h(SideFacts, { entry }),
    ),
  );
}
