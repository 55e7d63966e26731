// The console as a whole: the page to sign in while nobody is signed in, else the frame with the page of the URL.

import { type ComponentChildren, type ComponentType, h, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Frame } from './frame.ts';
import { findPage, type Page } from './page-list.ts';
import { Button, Field } from './parts/controls.ts';
import { box, el } from './parts/element.ts';
import { Brand, buttonLink, empty, fault, PageHead, Progress } from './parts/surfaces.ts';
import { asProblem, isSignedOut, Problem, useLoaded, useSubmit } from './state/api.ts';
import { account, loadSession, type PageProps, place, session, signIn } from './state/session.ts';

const wrong: Readonly<Record<number, string>> = {
  401: 'No account has this token. Copy it whole, without a blank before or behind it; a revoked token stays revoked.',
  403: 'This token may not use the console. Take one of a credential with the scope console:read, console:edit or admin.',
  429: 'Too many wrong tokens came from this address. Wait a minute, then try again.',
};

function noToken(): JSX.Element {
  return el('details')(
    el('summary')('I have no token'),
    el('p')('In development, the gateway prints a token and a link that signs in once when it starts.'),
    el('p')('Elsewhere, whoever runs the gateway makes one:'),
    box('postern token create --account NAME --credential CREDENTIAL'),
  );
}

function SignIn({ hasEnded }: { readonly hasEnded: boolean }): JSX.Element {
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
  return el('main.gate')(
    el('div.gate-box')(
      h(Brand, null),
      el('h1')('Sign in to the console'),
      el('p.soft')(
        hasEnded
          ? 'The session has ended. Sign in again to go on where you were.'
          : isOldLink
            ? 'That link has been used already, or is too old. Sign in with a token instead.'
            : 'See every message that was handed in, sent or refused, and why.',
      ),
      el('form', { onSubmit: submit })(
        h(Field, {
          ...{ label: 'Token', value: token, onInput: setToken, required: true, autofocus: true },
          ...{ type: 'password', autocomplete: 'current-password' },
          hint: 'One with the scope console:read, console:edit or admin. It is sent to this gateway alone.',
        }),
        problem && fault(new Problem(problem.status, problem.errors, wrong[problem.status] ?? problem.message)),
        el(Button, { kind: 'main', type: 'submit', isBusy })('Sign in'),
      ),
      noToken(),
    ),
  );
}

function NotFound(): JSX.Element {
  return el('div')(
    h(PageHead, { title: 'There is no such page' }),
    empty('The address leads nowhere', 'search')(
      el('p')('It may be of another release, or have lost its end on the way to you.'),
      buttonLink('/messages', 'messages', 'Look at the messages'),
    ),
  );
}

const pagePatienceMs = 30_000;

const noPage = new Problem(0, [], 'This page could not be loaded. Look whether the gateway runs, then try again.');

/** Loads the module of a page. @throws Problem where it does not come in time, or not at all */
async function loadPage({ load }: Page): Promise<ComponentType<PageProps>> {
  const late = new Promise<never>((_, reject) => setTimeout(reject, pagePatienceMs));
  try {
    return (await Promise.race([load(), late])).Page;
  } catch {
    throw noPage;
  }
}

/** A page whose module may still have to be loaded. */
function PageRoom(): JSX.Element {
  const found = findPage(place.value.path);
  const { value: Shown, problem } = useLoaded(found?.page.pattern, async () => found && (await loadPage(found.page)));
  if (!found) return h(NotFound, {});
  if (problem) return fault(problem, () => location.reload());
  if (!Shown) return h(Progress, { what: 'Loading the page' });
  // Another message, or another account, is another page: nothing of the one before stays.
  const key = `${JSON.stringify(found.parameters)} ${account.value}`;
  return h(Shown, { key, parameters: found.parameters });
}

/** A page that has not grown for so long, in milliseconds, does not become as long as it was. */
const growthPatienceMs = 10_000;

/** Scrolls to where a page was left as soon as it is long enough, unless the reader scrolls first. @returns what gives it up */
function scrollBack(y: number): () => void {
  const given = new AbortController();
  const giveUp = (): void => given.abort();
  for (const kind of ['wheel', 'touchstart', 'keydown', 'pointerdown'] as const)
    addEventListener(kind, giveUp, { passive: true, signal: given.signal });
  let [height, until] = [0, 0];
  const look = (): void => {
    if (given.signal.aborted) return;
    scrollTo(0, y);
    const { scrollHeight } = document.documentElement;
    if (scrollHeight !== height) [height, until] = [scrollHeight, performance.now() + growthPatienceMs];
    if (Math.abs(scrollY - y) > 1 && performance.now() < until) requestAnimationFrame(look);
    else giveUp();
  };
  look();
  return giveUp;
}

/** After a change of the page: scrolls to its beginning, or to where it was left. */
function useFreshPage(): void {
  const { path, entry, scrolled } = place.value;
  const before = useRef(path);
  useEffect(() => (scrolled === undefined ? undefined : scrollBack(scrolled)), [entry]);
  useEffect(() => {
    if (before.current !== path && scrolled === undefined) scrollTo(0, 0);
    before.current = path;
  }, [path]);
}

/** The console. */
export function Console(): ComponentChildren {
  const [problem, setProblem] = useState<Problem>();
  const load = (): void => {
    setProblem(undefined);
    loadSession().catch((error: unknown) => setProblem(asProblem(error)));
  };
  useEffect(load, []);
  useFreshPage();
  const who = session.value;
  if (problem) return el('main.gate')(fault(problem, load));
  if (who === undefined) return el('main.gate')(h(Progress, { what: 'Loading the console' }));
  if (who === null) return h(SignIn, { hasEnded: false });
  // A session that has ended hides what is open, and what was typed is there again after signing in; another session begins anew.
  const isEnded = isSignedOut.value;
  return [
    el('div', { key: `${who.account.id} ${who.scopes.join(' ')}`, hidden: isEnded })(el(Frame)(h(PageRoom, null))),
    isEnded ? h(SignIn, { key: 'sign in', hasEnded: true }) : null,
  ];
}
