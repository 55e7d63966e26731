// What a message contains: as it came beside as it left, and as mail programs show it.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Switch } from '../../parts/controls.ts';
import { Diff } from '../../parts/diff.ts';
import { box, el, foreign, Icon } from '../../parts/element.ts';
import { type Column, numbers, Table, wide } from '../../parts/list.ts';
import { PreviewFrame } from '../../parts/preview-frame.ts';
import { empty, Fault, Progress, panel } from '../../parts/surfaces.ts';
import { askText, Problem, useAnswer, useLoaded } from '../../state/api.ts';
import type { JournalEntry, Preview, PreviewPart } from '../../state/shapes.ts';
import { writeOctets } from '../../text/amounts.ts';
import { isTooDeep } from '../../text/visible-text.ts';

/** Octets of each side that are compared. The whole is in the file. */
const most = 262_144;

type Side = 'received' | 'sent';

type Text = { readonly text: string; readonly isCut: boolean } | undefined;

/** Loads a side; undefined where it was not kept. */
async function loadSide(path: string, signal: AbortSignal): Promise<Text> {
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

function downloads(path: string, sides: readonly Side[]): JSX.Element {
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

type Form = 'html' | 'text';

const forms = [
  { key: 'html', label: 'HTML' },
  { key: 'text', label: 'Text' },
] as const;

const sides = [
  { key: 'received', label: 'As it came' },
  { key: 'sent', label: 'As it left' },
] as const;

type Attachment = PreviewPart['attachments'][number];

const columns: readonly Column<Attachment>[] = [
  wide('Name', ({ filename }) => foreign(filename ?? 'without a name', 200)),
  { title: 'Type', cell: ({ type }) => el('code', foreign(type, 100)) },
  numbers('Size', ({ size }) => writeOctets(size)),
];

/** What is shown where HTML or text has nothing to show. */
function nothing(what: string, other: string | undefined): JSX.Element {
  const why =
    other === undefined ? 'Its parts are in its source: “As it came and left”.' : `Look at its ${other} instead.`;
  return empty(what, 'messages', why);
}

/** Says that the journal has not kept it, and why. */
function notKept(title: string, note: string | null): JSX.Element {
  const why = note ? `Why: ${note}.` : 'The journal keeps what messages contain only where journal.content is full.';
  return empty(title, 'messages', why);
}

function shown({ html, text, body_kept: isKept }: PreviewPart, form: Form, note: string | null): JSX.Element {
  if (!isKept) return notKept('Its body was not kept', note);
  if (form === 'text') return text ? box(text) : nothing('It has no text', html ? 'HTML' : undefined);
  const other = text ? 'text' : undefined;
  if (!html) return nothing('It has no HTML', other);
  if (isTooDeep(html)) return nothing('Its HTML is nested so deep that a browser would take long to show it', other);
  return el(
    'div',
    h(PreviewFrame, { html }),
    el('p.hint', 'Pictures, links and everything that would load or run are taken out.'),
  );
}

/** The tab. */
export function PreviewPanel({ entry, path }: { readonly entry: JournalEntry; readonly path: string }): JSX.Element {
  const { value, problem, reload } = useAnswer<Preview>(`${path}/preview`);
  const [side, setSide] = useState<Side>();
  const [form, setForm] = useState<Form>();
  const note = entry.content_note;
  if (problem?.status === 404) return notKept('Its text was not kept', note);
  if (problem) return h(Fault, { problem, retry: reload });
  if (!value) return h(Progress, { what: 'Reading the message' });
  const shownSide = side ?? (value.sent ? 'sent' : 'received');
  const part = value[shownSide];
  if (!part) return notKept('This side was not kept', note);
  if ('unreadable' in part) return empty('It cannot be read', 'warning', foreign(part.unreadable));
  const shownForm = form ?? (part.html ? 'html' : 'text');
  const { attachments: rows } = part;
  return el(
    'div',
    el(
      'div.panel-head',
      h(Switch<Form>, { label: 'Form', choices: forms, chosen: shownForm, onChoose: setForm }),
      value.sent &&
        value.received &&
        h(Switch<Side>, { label: 'Side', choices: sides, chosen: shownSide, onChoose: setSide }),
    ),
    shown(part, shownForm, note),
    part.truncated ? el('p.hint', 'It is long: only its beginning is shown.') : null,
    rows.length > 0 &&
      panel(
        'Attachments',
        h(Table<Attachment>, { label: 'Attachments', columns, rows, keyOf: (_, index) => String(index) }),
      ),
  );
}
