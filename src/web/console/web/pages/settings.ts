// The configuration in force, without secrets, where it came from, and what was wrong with the last reload.

import { h, type JSX } from 'preact';
import { CopyButton } from '../parts/controls.ts';
import { el } from '../parts/element.ts';
import { Facts, Loading, pageHead, panel } from '../parts/surfaces.ts';
import { box, Foreign, State, Time } from '../parts/text.ts';
import type { StateWords } from '../parts/words.ts';
import { useAnswer, useEvery } from '../state/loading.ts';
import type { Settings } from '../state/shapes.ts';

const whys: Readonly<Record<string, string>> = {
  command: 'by the command postern reload',
  SIGHUP: 'by the signal SIGHUP',
};

function Reload({ reload }: { readonly reload: NonNullable<Settings['last_reload']> }): JSX.Element {
  const words: StateWords = reload.ok
    ? { word: 'Taken', tone: 'good', icon: 'check' }
    : { word: 'Refused', tone: 'bad', icon: 'box' };
  return el(
    'span',
    h(Time, { at: reload.at }),
    ' ',
    h(State, { state: '', words }),
    ' ',
    whys[reload.why] ?? el('bdi', reload.why),
  );
}

/** Lines of text under a heading; nothing where there are none. */
function Lines(props: {
  readonly title: string;
  readonly note: string;
  readonly lines: readonly string[];
}): JSX.Element | null {
  if (props.lines.length === 0) return null;
  return panel({ title: props.title, note: props.note }, box(props.lines.join('\n')));
}

/** The page. */
export function SettingsPage(): JSX.Element {
  const loaded = useAnswer<Settings>('/client/v4/settings');
  const { value } = loaded;
  // Whoever has just reloaded by command sees here what came of it.
  useEvery(5000, loaded.refresh);
  const text = value ? JSON.stringify(value.config, null, 2) : '';
  return el(
    'div',
    pageHead(
      'Settings',
      'What the gateway runs with now: the file, the environment and the defaults together. Secrets are left out.',
    ),
    h(Loading, { loaded, what: 'Loading the configuration' }),

    value
      ? h(Facts, {
          items: [
            ['File', el('code', h(Foreign, { text: value.file }))],
            ['Mode', value.mode],
            ['In force since', h(Time, { at: value.loaded_at })],
            ['Last reload', value.last_reload ? h(Reload, { reload: value.last_reload }) : 'none since the start'],
          ],
        })
      : null,
    value
      ? [
          h(Lines, {
            ...{ key: 'faults', title: 'Why the last reload was refused', lines: value.last_reload?.faults ?? [] },
            note: 'The gateway runs on with the configuration that it had. Mend the file, then reload again.',
          }),
          h(Lines, {
            ...{ key: 'changed', title: 'What the last reload changed', lines: value.last_reload?.changed ?? [] },
            note: 'Connections stayed open.',
          }),
          h(Lines, {
            key: 'warnings',
            title: 'Warnings',
            note: 'The configuration works, but look at these.',
            lines: value.warnings,
          }),
          panel(
            { key: 'text', title: 'Configuration in force', actions: h(CopyButton, { text }) },
            h(
              'pre',
              { class: 'box settings-text', tabIndex: 0, role: 'region', 'aria-label': 'Configuration in force' },
              h(Foreign, { text, lines: true, most: 60_000 }),
            ),
          ),
        ]
      : null,
  );
}
