// What another configuration would make of what the journal has kept.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Field } from '../parts/controls.ts';
import { FormDialog } from '../parts/dialog.ts';
import { el } from '../parts/element.ts';
import { foreign } from '../parts/text.ts';
import { ask } from '../state/api.ts';
import { linkTo } from '../state/location.ts';
import { account, isEveryAccount } from '../state/session.ts';
import type { MailerVerdicts, WouldPass } from '../state/shapes.ts';
import { writeCount, writeCounted } from '../text/amounts.ts';

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
    return el(
      'li',
      h('a', { href: linkTo('/messages/:id', { id }) }, codes.length === 0 ? 'would pass' : codes.join(', ')),
    );
  });
  const name = `${one.account}/${one.credential}, ${one.mailer}`;
  return h('div', { key: name }, el('h3', foreign(name, 200)), el('p', sentence(one)), el('ul', examples));
}

function verdict(found: WouldPass): JSX.Element {
  const { not_kept: notKept, cut, mailers } = found;
  return el(
    'div',
    h('p', { role: 'status' }, sentence(found)),
    cut ? el('p.soft', 'There are more messages: the newest were judged.') : null,
    notKept > 0 ? el('p.soft', `Of ${writeCounted(notKept, 'message')} too little is kept to judge again.`) : null,
    mailers.map(mailer),
  );
}

/** Asks for the text of a configuration, and tells what would change. @param since from when on mail is judged */
export function WouldPassDialog({
  since,
  onClose,
}: {
  readonly since: string | undefined;
  readonly onClose: () => void;
}): JSX.Element {
  const [config, setConfig] = useState('');
  const [found, setFound] = useState<WouldPass>();
  const judge = async (): Promise<void> => {
    setFound(undefined);
    const body = {
      config,
      ...(since === undefined ? {} : { since }),
      ...(isEveryAccount.value ? {} : { account: account.value }),
    };
    setFound((await ask<WouldPass>('/client/v4/email/sending/would-pass', { method: 'POST', body })).result);
  };
  return h(
    FormDialog,
    { title: 'Would it pass with another configuration?', action: 'Judge again', onSubmit: judge, onClose },
    h(Field, {
      ...{ label: 'Text of the configuration', value: config, onInput: setConfig, required: true, autofocus: true },
      ...{ rows: 12, hint: 'It is checked, and nothing of it is kept.' },
    }),
    found ? verdict(found) : null,
  );
}
