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

type Attachment = PreviewPart['attachments'][number];

const columns: readonly Column<Attachment>[] = [
  wide('name', 'Name', ({ filename }) => foreign(filename ?? 'without a name', 200)),
  { key: 'type', title: 'Type', cell: ({ type }) => el('code', foreign(type, 100)) },
  numbers('size', 'Size', ({ size }) => writeOctets(size)),
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

function shown(
  { html, text, body_kept: isKept }: PreviewPart,
  form: 'html' | 'text',
  note: string | null,
): JSX.Element {
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
  const [side, setSide] = useState<'received' | 'sent'>();
  const [form, setForm] = useState<'html' | 'text'>();
  const note = entry.content_note;
  if (problem?.status === 404) return notKept('Its text was not kept', note);
  if (problem) return h(Fault, { problem, retry: reload });
  if (!value) return h(Progress, { what: 'Reading the message' });
  const shownSide = side ?? (value.sent ? 'sent' : 'received');
  const part = value[shownSide];
  if (!part) return notKept('This side was not kept', note);
  if ('unreadable' in part) return empty('It cannot be read', 'warning', foreign(part.unreadable));
  const shownForm = form ?? (part.html ? 'html' : 'text');
  const { attachments } = part;
  return el(
    'div',
    el(
      'div.panel-head',
      h(Switch<'html' | 'text'>, {
        label: 'Form',
        choices: [
          { key: 'html', label: 'HTML' },
          { key: 'text', label: 'Text' },
        ],
        chosen: shownForm,
        onChoose: setForm,
      }),
      value.sent && value.received
        ? h(Switch<'received' | 'sent'>, {
            label: 'Side',
            choices: [
              { key: 'received', label: 'As it came' },
              { key: 'sent', label: 'As it left' },
            ],
            chosen: shownSide,
            onChoose: setSide,
          })
        : null,
    ),
    shown(part, shownForm, note),
    part.truncated ? el('p.hint', 'It is long: only its beginning is shown.') : null,
    attachments.length === 0
      ? null
      : panel(
          'Attachments',
          h(Table<Attachment>, {
            label: 'Attachments',
            columns,
            rows: attachments,
            keyOf: (_, index) => String(index),
          }),
        ),
  );
}
