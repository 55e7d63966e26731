// Refusals by their cause: what would cure each group, and how much it would let through.

import { h, type JSX } from 'preact';
import { Select } from '../parts/controls.ts';
import { CureBox } from '../parts/cure.ts';
import { el } from '../parts/element.ts';
import { ButtonLink, Empty, Loading, Notes, PageHead } from '../parts/surfaces.ts';
import { Foreign, State, Time } from '../parts/text.ts';
import { type Answer, ask } from '../state/api.ts';
import { useEvery, useLoaded } from '../state/loading.ts';
import { linkTo, place, setFilters } from '../state/location.ts';
import { accountPath, isEveryAccount } from '../state/session.ts';
import type { RefusalGroup } from '../state/shapes.ts';
import { writeCount, writeCounted } from '../text/amounts.ts';
import { readFilters, sinceOf, spans } from '../text/filters.ts';

function Group({ group, span }: { readonly group: RefusalGroup; readonly span: string }): JSX.Element {
  const { account, credential, mailer, field, code, count, first_at: first, last_at: last, example, cure } = group;
  const messages = linkTo(
    '/messages',
    {},
    {
      ...{ outcome: 'refused', code, span },
      field: field ?? undefined,
      credential: credential ?? undefined,
    },
  );
  return el(
    'article.group',
    el(
      'div.group-head',
      el(
        'div',
        el('h2', h(Foreign, { text: field ?? 'The message as a whole', most: 100 }), el('code.soft', code)),
        el(
          'p.soft',
          isEveryAccount.value && account ? [h('bdi', { key: 'account' }, account), ' / '] : null,
          el('bdi', credential ?? 'without a credential'),
          mailer ? [', ', h(Foreign, { key: 'mailer', text: mailer, most: 80 })] : null,
        ),
      ),
      el('p.group-count', el('b', writeCount(count)), el('span.soft', count === 1 ? 'message' : 'messages')),
    ),
    group.message ? el('p.group-message', h(Foreign, { text: group.message })) : null,
    group.cured === true
      ? el(
          'p.group-message',
          h(State, { state: 'ok', words: { word: 'Cured', tone: 'good', icon: 'check' } }),
          ' The configuration in force has the cure: what comes now passes.',
        )
      : cure
        ? h(CureBox, { cure })
        : null,
    el(
      'div.group-foot',
      el('span', 'Last ', h(Time, { at: last, style: 'ago' })),
      el('span', 'First ', h(Time, { at: first })),
      h('a', { href: messages }, count === 1 ? 'Show it' : `Show all ${writeCount(count)}`),
      example ? h('a', { href: linkTo('/messages/:id', { id: example }) }, 'Newest example') : null,
    ),
  );
}

/** The page. */
export function RefusalsPage(): JSX.Element {
  const { span = '7d' } = readFilters(place.value.search, ['span']);
  const since = sinceOf(span, Math.floor(Date.now() / 60_000) * 60_000);
  const loaded = useLoaded<Answer<readonly RefusalGroup[]>>(
    accountPath(`/email/sending/refusals${since === undefined ? '' : `?since=${encodeURIComponent(since)}`}`),
    async (path, signal) => await ask(path, { signal }),
  );
  const { value: answer, refresh } = loaded;
  const value = answer?.result;
  useEvery(10_000, refresh);
  const all = value?.reduce((sum, { count }) => sum + count, 0) ?? 0;
  return el(
    'div',
    h(
      PageHead,
      {
        title: 'Refusals',
        lead: 'What was refused, by cause, with what would cure it. A refused message was not sent to anybody.',
      },
      h(Select, {
        label: 'Time',
        value: span,
        choices: Object.entries(spans).map(([key, { label }]) => ({ value: key, label })),
        onChoose: (chosen) => setFilters({ span: chosen === '7d' ? undefined : chosen }),
      }),
    ),
    h(Loading, { loaded, what: 'Counting refusals' }),
    h(Notes, { notes: answer?.notes ?? [] }),

    value?.length === 0
      ? h(
          Empty,
          { title: 'Nothing was refused', icon: 'check' },
          el('p', 'Everything that was handed in during this time was accepted.'),
          h(ButtonLink, { to: '/messages', icon: 'messages' }, 'Look at the messages'),
        )
      : null,
    value && value.length > 0
      ? el(
          'p.soft',
          `${writeCounted(all, 'reason')} in ${writeCounted(value.length, 'group')}, the most frequent first. A message with several faults counts in several groups.`,
        )
      : null,
    value?.map((group) =>
      h(Group, {
        group,
        span,
        key: [group.account, group.credential, group.mailer, group.field, group.code].join('\0'),
      }),
    ),
  );
}
