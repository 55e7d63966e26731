// What can be done with a message: send it again, try, hold, release or drop what of it waits.

import { h, type JSX } from 'preact';
import { Button } from '../../parts/controls.ts';
import { Confirm, useDialog } from '../../parts/dialog.ts';
import { el } from '../../parts/element.ts';
import type { IconName } from '../../parts/icon.ts';
import { type Action, ActionConfirm, choicesFor } from '../../parts/queue-action.ts';
import { ask } from '../../state/api.ts';
import { goTo, linkTo } from '../../state/location.ts';
import { tell } from '../../state/notices.ts';
import { mayEdit, pathOfAccount } from '../../state/session.ts';
import type { JournalEntry, QueuedMessage } from '../../state/shapes.ts';

const icons: Readonly<Record<Action, IconName>> = { retry: 'clock', hold: 'pause', release: 'play', drop: 'minus' };

/** Why a message cannot be sent again; undefined where it can. */
function whyNotAgain({ content, content_note: note, damaged, shadow }: JournalEntry): string | undefined {
  if (shadow) return 'It is a copy that came to a shadow listener, and is never sent.';
  if (content === 'full' && !damaged) return undefined;
  const why = note ?? 'the journal keeps no whole messages (journal.content)';
  return `It cannot be sent again from here, because ${why}.`;
}

/** The buttons of a message. */
export function Actions(props: {
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
    show((onClose) =>
      h(
        Confirm,
        { title: 'Send it again?', action: 'Send 1 message', onConfirm, onClose },
        el(
          'p',
          'A new message is made of it as it came, with a Message-ID of its own, and judged as if it were handed in now. All its recipients get it.',
        ),
      ),
    );
  const act = (action: Action, state: object | undefined): void => {
    const target = { action, count: 1, noun: 'message', account, body: { messages: [id], ...state } } as const;
    show((onClose) => h(ActionConfirm, { target, onClose, onDone: onChanged }));
  };
  if (!mayEdit.value) return null;
  const whyNot = whyNotAgain(entry);
  return el(
    'div.actions',
    whyNot === undefined ? h(Button, { icon: 'reload', onPress: resend }, 'Send again') : el('p.hint', whyNot),
    waiting &&
      choicesFor([waiting]).map(({ action, label, state }) =>
        h(Button, { key: label, icon: icons[action], onPress: () => act(action, state) }, label),
      ),
    dialog,
  );
}
