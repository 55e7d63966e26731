// The configuration in force, without secrets, where it came from, and what was wrong with the last reload.

import { type ComponentChildren, h, type JSX } from 'preact';
import { CopyButton } from '../parts/controls.ts';
import type { StateWords } from '../parts/element.ts';
import { box, el, Foreign, foreign, State, Time } from '../parts/element.ts';
import { awaited, facts, pageHead, panel } from '../parts/surfaces.ts';
import { useAnswer, useEvery } from '../state/api.ts';
import type { Settings } from '../state/shapes.ts';

const whys: Readonly<Record<string, string>> = {
  command: 'by the command postern reload',
  SIGHUP: 'by the signal SIGHUP',
};

function told({ at, why, ok }: NonNullable<Settings['last_reload']>): JSX.Element {
  const words: StateWords = ok
    ? { word: 'Taken', tone: 'good', icon: 'check' }
    : { word: 'Refused', tone: 'bad', icon: 'box' };
  return el('span')(h(Time, { at }), ' ', h(State, { state: '', words }), ' ', whys[why] ?? el('bdi')(why));
}

/** Lines of text under a heading; nothing where there are none. */
function linesPanel(title: string, note: string, lines: readonly string[] = []): JSX.Element | null {
  return lines.length === 0 ? null : panel({ key: title, title, note })(box(lines.join('\n')));
}

function shown({ file, mode, loaded_at: at, last_reload: last, warnings, config }: Settings): ComponentChildren {
  const text = JSON.stringify(config, null, 2);
  return [
    facts([
      ['File', el('code')(foreign(file))],
      ['Mode', mode],
      ['In force since', h(Time, { at })],
      ['Last reload', last ? told(last) : 'none since the start'],
    ]),
    linesPanel(
      'Why the last reload was refused',
      'The gateway runs on with the configuration that it had. Mend the file, then reload again.',
      last?.faults,
    ),
    linesPanel('What the last reload changed', 'Connections stayed open.', last?.changed),
    linesPanel('Warnings', 'The configuration works, but look at these.', warnings),
    panel({ key: 'text', title: 'Configuration in force', actions: h(CopyButton, { text }) })(
      el('pre.box.settings-text', { tabIndex: 0, role: 'region', 'aria-label': 'Configuration in force' })(
        h(Foreign, { text, lines: true, most: 60_000 }),
      ),
    ),
  ];
}

/** The page. */
export function Page(): JSX.Element {
  const loaded = useAnswer<Settings>('/client/v4/settings');
  // Whoever has just reloaded by command sees here what came of it.
  useEvery(5000, loaded.refresh);
  return el('div')(
    pageHead(
      'Settings',
      'What the gateway runs with now: the file, the environment and the defaults together. Secrets are left out.',
    ),
    awaited(loaded, 'Loading the configuration', shown),
  );
}
