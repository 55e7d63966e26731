// The console as a whole: the page to sign in while nobody is signed in, else the frame with the page of the URL.

import { type ComponentType, h, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Frame } from './frame.ts';
import { findPage } from './page-list.ts';
import { ButtonLink, Empty, Fault, PageHead, Progress } from './parts/surfaces.ts';
import { SignIn } from './sign-in.ts';
import { isSignedOut, type Problem } from './state/api.ts';
import { asProblem } from './state/loading.ts';
import { type PageProps, place } from './state/place.ts';
import { account, hasEnded, loadSession, session } from './state/session.ts';

function NotFound(): JSX.Element {
  return h(
    'div',
    null,
    h(PageHead, { title: 'There is no such page' }),
    h(
      Empty,
      { title: 'The address leads nowhere', icon: 'search' },
      h('p', null, 'It may be of another release, or have lost its end on the way to you.'),
      h(ButtonLink, { to: '/messages', icon: 'messages' }, 'Look at the messages'),
    ),
  );
}

/** A page whose module may still have to be loaded. */
function PageRoom(): JSX.Element {
  const found = findPage(place.value.path);
  const pattern = found?.page.pattern;
  const [loaded, setLoaded] = useState<{ pattern: string; Page: ComponentType<PageProps> }>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    if (!found || loaded?.pattern === pattern) return;
    setProblem(undefined);
    found.page
      .load()
      .then((Page) => setLoaded({ pattern: found.page.pattern, Page }))
      .catch((error: unknown) => setProblem(asProblem(error)));
  }, [pattern]);
  if (!found) return h(NotFound, {});
  if (problem) return h(Fault, { problem, retry: () => location.reload() });
  if (!loaded || loaded.pattern !== pattern) return h(Progress, { what: 'Loading the page' });
  // Another message, or another account, is another page: nothing of the one before stays.
  const key = `${JSON.stringify(found.parameters)} ${account.value}`;
  return h(loaded.Page, { key, parameters: found.parameters });
}

/** After a change of the page: scrolls to its beginning and moves the focus there, as a browser does. */
function useFreshPage(): void {
  const { path } = place.value;
  const before = useRef(path);
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    scrollTo(0, 0);
    // The page draws its title as soon as its module is there.
    const look = (left: number): void => {
      const title = document.querySelector('main h1');
      if (title instanceof HTMLElement) title.focus({ preventScroll: true });
      else if (left > 0) setTimeout(() => look(left - 1), 50);
    };
    setTimeout(() => look(20), 0);
  }, [path]);
}

/** The console. */
export function Console(): JSX.Element {
  const [problem, setProblem] = useState<Problem>();
  const load = (): void => {
    setProblem(undefined);
    loadSession().catch((error: unknown) => setProblem(asProblem(error)));
  };
  useEffect(load, []);
  useFreshPage();
  const who = session.value;
  const ended = isSignedOut.value && who;
  useEffect(() => {
    if (!ended) return;
    hasEnded.value = true;
    session.value = null;
  }, [ended]);
  if (problem) {
    return h('main', { class: 'gate' }, h(Fault, { problem, retry: load }));
  }
  if (who === undefined) return h('main', { class: 'gate' }, h(Progress, { what: 'Loading the console' }));
  if (who === null) return h(SignIn, {});
  return h(Frame, null, h(PageRoom, null));
}
