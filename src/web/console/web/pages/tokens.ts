// The tokens of an account: the passwords that programs show.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button, Checkbox, Checks, Field, Select } from '../parts/controls.ts';
import { Confirm, FormDialog, ShownOnce, useDialog } from '../parts/dialog.ts';
import { brief, el, State, Time } from '../parts/element.ts';
import { type Column, column, PagedTable } from '../parts/list.ts';
import { empty, makeButton, pageHead } from '../parts/surfaces.ts';
import { ask } from '../state/api.ts';
import { tell } from '../state/notices.ts';
import { usePages } from '../state/paging.ts';
import { accountOnlyPath, isAdmin, place, setFilters } from '../state/session.ts';
import type { MadeToken, Token } from '../state/shapes.ts';
import { endAfter, spanChoices } from '../text/amounts.ts';
import { readFilters } from '../text/filters.ts';

const scopes: Readonly<Record<string, string>> = {
  'email:send': 'send mail',
  'email:suppressions': 'change suppressions',
  'email:events': 'read events',
  'email:webhooks': 'change webhooks',
  'console:read': 'look at the console',
  'console:edit': 'change things in the console',
  'proxy:read': 'read proxy applications',
  'proxy:edit': 'change proxy applications',
  'edge:edit': 'change error pages',
  'ip_prefixes:read': 'name static addresses',
  admin: 'everything, for every account',
};

const ends = spanChoices('Until it is revoked', 30, 90, 365);

function stateOf(token: Token): string {
  if (token.revoked_at !== null) return 'revoked';
  return token.live ? 'active' : 'expired';
}

function MakeDialog(props: { readonly credentials: readonly string[]; readonly onMade: (token: MadeToken) => void }) {
  const [credential, setCredential] = useState(props.credentials[0] ?? 'default');
  const [label, setLabel] = useState('');
  const [days, setDays] = useState('');
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const make = async (): Promise<void> => {
    const expires = endAfter(days, Date.now());
    const { result } = await ask<MadeToken>(accountOnlyPath('/tokens'), {
      method: 'POST',
      body: {
        ...{ credential: credential.trim(), expires_at: expires, label: label || undefined },
        scopes: chosen.length === 0 ? undefined : chosen,
      },
    });
    props.onMade(result);
  };
  return el(FormDialog, { title: 'Make a token', action: 'Make the token', onSubmit: make })(
    h(Field, {
      ...{ label: 'Credential', value: credential, onInput: setCredential, required: true, autofocus: true },
      hint: 'The entry of the configuration whose settings hold for whoever shows the token.',
    }),
    h(Field, { label: 'What it is for (optional)', value: label, onInput: setLabel }),
    h(Select, { label: 'How long', value: days, choices: ends, onChoose: setDays }),
    h(Checks, {
      ...{ legend: 'What it may do; nothing chosen: all that its credential may', chosen, onChoose: setChosen },
      choices: Object.entries(scopes).map(
        ([scope, meaning]) => [scope, [meaning, ' ', el('code.soft')(scope)]] as const,
      ),
    }),
  );
}

const columns: readonly Column<Token>[] = [
  column('wide', 'Token', ({ label, last_four: end, credential }) => [
    el('strong')(label === '' ? el('bdi')(credential) : brief(label, 80)),
    el('span.sub')('credential ', el('bdi')(credential), ', ends in ', el('code')(end)),
  ]),
  column('tight', 'State', (token) => h(State, { state: stateOf(token) })),
  {
    title: 'May',
    cell: ({ scopes: held }) =>
      el('span.chips')(held.map((scope) => el('span.chip', { key: scope, title: scopes[scope] })(scope))),
  },
  column('tight', 'Made', ({ created_at }) => h(Time, { at: created_at })),
  column('tight', 'Ends', ({ expires_at }) => (expires_at ? h(Time, { at: expires_at }) : el('span.soft')('never'))),
];

const none =
  'Make one for each program that sends mail, so that each can be revoked alone. Tokens that the configuration names are not shown here.';
const onceMade =
  'Copy it now: it is shown this once. Programs show it as password of SMTP (user name api_token) or as bearer token of HTTP.';

function Revoke({ token, onRevoked }: { readonly token: Token; readonly onRevoked: () => void }): JSX.Element {
  const onConfirm = async (): Promise<void> => {
    await ask(accountOnlyPath(`/tokens/${token.id}`), { method: 'DELETE' });
    tell('The token is revoked. Programs that show it are refused from now on.');
    onRevoked();
  };
  return el(Confirm, { title: 'Revoke 1 token?', action: 'Revoke 1 token', danger: true, onConfirm })(
    el('p')(
      'Programs that show the token of ',
      el('bdi')(token.credential),
      ' that ends in ',
      el('code')(token.last_four),
      ' are refused from then on. It cannot be taken back.',
    ),
  );
}

/** The page. */
export function Page(): JSX.Element {
  const { all } = readFilters(place.value.search, ['all']);
  const pages = usePages<Token>(accountOnlyPath(`/tokens?per_page=100${all === undefined ? '' : '&all=1'}`));
  const { show, dialog } = useDialog();
  const onMade = ({ token: text }: MadeToken): void => {
    const about = { title: 'The token is made', text, what: 'the token' };
    show(el(ShownOnce, about)(onceMade));
    pages.reload();
  };
  const make = (): void => {
    const credentials = [...new Set(pages.rows.map(({ credential }) => credential))];
    show(h(MakeDialog, { credentials, onMade }));
  };
  const revoke = (token: Token): void => show(h(Revoke, { token, onRevoked: pages.reload }));
  const actions = column<Token>('tight doing', 'Actions', (token) => {
    const label = `Revoke the token that ends in ${token.last_four}`;
    return token.live && el('div.row-actions')(el(Button, { onPress: () => revoke(token), label })('Revoke'));
  });
  return el('div')(
    pageHead(
      'Tokens',
      'The passwords that programs show. What a token may do, and what is done with its mail, is said by its credential.',
      makeButton(isAdmin.value, make, 'Make a token'),
    ),
    el('div.filters')(
      h(Checkbox, {
        ...{ label: 'Show those that have ended', checked: all !== undefined },
        onChange: (isOn) => setFilters({ all: isOn ? '1' : undefined }),
      }),
    ),
    h(PagedTable<Token>, {
      ...{ pages, what: 'tokens', label: 'Tokens', columns: isAdmin.value ? [...columns, actions] : columns },
      classOf: ({ live }) => (live ? undefined : 'gone'),
      none: empty('There is no token', 'tokens')(none),
    }),
    dialog,
  );
}
