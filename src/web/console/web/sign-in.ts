// The page that everybody sees who is not signed in, under whatever URL; afterwards that URL's own page appears.

import { h, type JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Brand } from './parts/brand.ts';
import { Button, Field } from './parts/controls.ts';
import { el } from './parts/element.ts';
import { Fault } from './parts/surfaces.ts';
import { box } from './parts/text.ts';
import { Problem } from './state/api.ts';
import { useSubmit } from './state/loading.ts';
import { place } from './state/location.ts';
import { signIn } from './state/session.ts';

const wrong: Readonly<Record<number, string>> = {
  401: 'No account has this token. Copy it whole, without a blank before or behind it; a revoked token stays revoked.',
  403: 'This token may not use the console. Take one of a credential with the scope console:read, console:edit or admin.',
  429: 'Too many wrong tokens came from this address. Wait a minute, then try again.',
};

function inWords(problem: Problem): Problem {
  return new Problem(problem.status, problem.errors, wrong[problem.status] ?? problem.message);
}

function noToken(): JSX.Element {
  return el(
    'details',
    el('summary', 'I have no token'),
    el('p', 'In development, the gateway prints a token and a link that signs in once when it starts.'),
    el('p', 'Elsewhere, whoever runs the gateway makes one:'),
    box('postern token create --account NAME --credential CREDENTIAL'),
  );
}

/** The page to sign in. @param hasEnded a session has ended while a page was open */
export function SignIn({ hasEnded }: { readonly hasEnded: boolean }): JSX.Element {
  const [token, setToken] = useState('');
  const { problem, isBusy, submit } = useSubmit(() => signIn(token.trim()));
  useEffect(() => {
    const before = document.title;
    document.title = 'Sign in · Postern';
    return () => {
      document.title = before;
    };
  }, []);
  const isOldLink = new URLSearchParams(place.value.search).get('notice') === 'link';
  return el(
    'main.gate',
    el(
      'div.gate-box',
      h(Brand, null),
      el('h1', 'Sign in to the console'),
      el(
        'p.soft',
        hasEnded
          ? 'The session has ended. Sign in again to go on where you were.'
          : isOldLink
            ? 'That link has been used already, or is too old. Sign in with a token instead.'
            : 'See every message that was handed in, sent or refused, and why.',
      ),
      h(
        'form',
        { onSubmit: submit },
        h(Field, {
          ...{ label: 'Token', value: token, onInput: setToken, required: true, autofocus: true },
          ...{ type: 'password', autocomplete: 'current-password' },
          hint: 'One with the scope console:read, console:edit or admin. It is sent to this gateway alone.',
        }),
        problem ? h(Fault, { problem: inWords(problem) }) : null,
        h(Button, { kind: 'main', type: 'submit', isBusy }, 'Sign in'),
      ),
      noToken(),
    ),
  );
}
