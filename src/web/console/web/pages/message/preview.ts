// A message as mail programs show it: its HTML, its text, its attachments, its source.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Switch } from '../../parts/controls.ts';
import { el } from '../../parts/element.ts';
import { type Column, numbers, Table, wide } from '../../parts/list.ts';
import { PreviewFrame } from '../../parts/preview-frame.ts';
import { empty, Fault, Progress, panel } from '../../parts/surfaces.ts';
import { box, foreign } from '../../parts/text.ts';
import { useAnswer } from '../../state/loading.ts';
import type { JournalEntry, Preview, PreviewPart } from '../../state/shapes.ts';
import { writeOctets } from '../../text/amounts.ts';
import { isTooDeep } from '../../text/html-depth.ts';

type Form = 'html' | 'text';
type Side = 'received' | 'sent';

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
