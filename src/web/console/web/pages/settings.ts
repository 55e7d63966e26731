// The configuration in force, without secrets, where it came from, and what was wrong with the last reload.

import { h, type JSX } from 'preact';
import { CopyButton } from '../parts/controls.ts';
import { el } from '../parts/element.ts';
import { Facts, Loading, pageHead, panel } from '../parts/surfaces.ts';
import { box, Foreign, foreign, State, Time } from '../parts/text.ts';
import type { StateWords } from '../parts/words.ts';
import { useAnswer, useEvery } from '../state/loading.ts';
import type { Settings } from '../state/shapes.ts';

const whys: Readonly<Record<string, string>> = {
  command: 'by the command postern reload',
  SIGHUP: 'by the signal SIGHUP',
};

function told({ at, why, ok }: NonNullable<Settings['last_reload']>): JSX.Element {
  const words: StateWords = ok
    ? { word: 'Taken', tone: 'good', icon: 'check' }
    : { word: 'Refused', tone: 'bad', icon: 'box' };
  return el('span', h(Time, { at }), ' ', h(State, { state: '', words }), ' ', whys[why] ?? el('bdi', why));
}

/** Lines of text under a heading; nothing where there are none. */
function linesPanel(title: string, note: string, lines: readonly string[] = []): JSX.Element | null {
  return lines.length === 0 ? null : panel({ key: title, title, note }, box(lines.join('\n')));
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
            ['File', el('code', foreign(value.file))],
            ['Mode', value.mode],
            ['In force since', h(Time, { at: value.loaded_at })],
            ['Last reload', value.last_reload ? told(value.last_reload) : 'none since the start'],
          ],
        })
      : null,
    value
      ? [
          linesPanel(
            'Why the last reload was refused',
            'The gateway runs on with the configuration that it had. Mend the file, then reload again.',
            value.last_reload?.faults,
          ),
          linesPanel('What the last reload changed', 'Connections stayed open.', value.last_reload?.changed),
          linesPanel('Warnings', 'The configuration works, but look at these.', value.warnings),
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
