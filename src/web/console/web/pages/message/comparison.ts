// A message as it came, beside it as it left.

import { h, type JSX } from 'preact';
import { Diff } from '../../parts/diff.ts';
import { el } from '../../parts/element.ts';
import { Icon } from '../../parts/icon.ts';
import { empty, Fault, Progress } from '../../parts/surfaces.ts';
import { box } from '../../parts/text.ts';
import { askText, Problem } from '../../state/api.ts';
import { useLoaded } from '../../state/loading.ts';
import type { JournalEntry } from '../../state/shapes.ts';
import { writeOctets } from '../../text/amounts.ts';

/** Octets of each side that are compared. The whole is in the file. */
const most = 262_144;

type Side = { readonly text: string; readonly isCut: boolean } | undefined;

/** Loads a side; undefined where it was not kept. */
async function loadSide(path: string, signal: AbortSignal): Promise<Side> {
  try {
    return await askText(path, most, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return undefined;
    throw error;
  }
}

async function loadSides(path: string, signal: AbortSignal) {
  const [received, sent] = await Promise.all([loadSide(`${path}/received`, signal), loadSide(`${path}/sent`, signal)]);
  return { received, sent };
}

/** Links that save each side as a file. */
function downloads(path: string, sides: readonly ('received' | 'sent')[]): JSX.Element {
  const words = { received: 'Save as it came', sent: 'Save as it left' } as const;
  return el(
    'p.actions',
    sides.map((side) =>
      h(
        'a',
        { key: side, class: 'button plain', href: `${path}/${side}`, download: `${side}.eml` },
        h(Icon, { name: 'arrow' }),
        words[side],
      ),
    ),
  );
}

/** The tab. */
export function Comparison({ entry, path }: { readonly entry: JournalEntry; readonly path: string }): JSX.Element {
  const { value, problem, reload } = useLoaded(path, loadSides);
  if (problem) return h(Fault, { problem, retry: reload });
  if (!value) return h(Progress, { what: 'Loading both sides' });
  const { received, sent } = value;
  if (!received && !sent) {
    return empty(
      'Its text was not kept',
      'messages',
      el('p', 'The journal keeps what messages contain only where the configuration says so:'),
      box('journal:\n  content: full   # none, headers, full'),
    );
  }
  const kept = (['received', 'sent'] as const).filter((side) => value[side] !== undefined);
  const isCut = received?.isCut === true || sent?.isCut === true;
  return el(
    'div',
    el(
      'div.panel-head',
      el(
        'p.soft',
        entry.outcome === 'refused'
          ? 'It was refused, so that nothing left.'
          : sent && received
            ? 'Removed lines have a −, added ones a +.'
            : 'Only this side was kept.',
      ),
      downloads(path, kept),
    ),
    isCut ? el('p.note', `Only the first ${writeOctets(most)} of each side are shown; the files are whole.`) : null,
    received && sent
      ? h(Diff, { left: received.text, right: sent.text, leftTitle: 'As it came', rightTitle: 'As it left' })
      : box((received ?? sent)?.text ?? ''),
  );
}
