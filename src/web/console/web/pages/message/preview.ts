// A message as mail programs show it: its HTML, its text, its attachments, its source.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { el } from '../../parts/element.ts';
import { type Column, numbers, Table } from '../../parts/list.ts';
import { PreviewFrame } from '../../parts/preview-frame.ts';
import { Empty, Fault, Panel, Progress } from '../../parts/surfaces.ts';
import { Foreign } from '../../parts/text.ts';
import { useAnswer } from '../../state/loading.ts';
import type { JournalEntry, Preview, PreviewPart } from '../../state/shapes.ts';
import { writeOctets } from '../../text/amounts.ts';
import { isTooDeep } from '../../text/html-depth.ts';

type Attachment = NonNullable<PreviewPart['attachments']>[number];

const columns: readonly Column<Attachment>[] = [
  {
    key: 'name',
    title: 'Name',
    kind: 'wide',
    cell: ({ filename }) => h(Foreign, { text: filename ?? 'without a name', most: 200 }),
  },
  { key: 'type', title: 'Type', cell: ({ type }) => el('code', h(Foreign, { text: type, most: 100 })) },
  numbers('size', 'Size', ({ size }) => writeOctets(size)),
];

function Switch<Key extends string>(props: {
  readonly label: string;
  readonly choices: readonly { readonly key: Key; readonly text: string }[];
  readonly chosen: Key;
  readonly onChoose: (key: Key) => void;
}): JSX.Element {
  return h(
    'div',
    { class: 'segments', role: 'group', 'aria-label': props.label },
    props.choices.map(({ key, text }) =>
      h(
        'button',
        { key, type: 'button', 'aria-pressed': props.chosen === key, onClick: () => props.onChoose(key) },
        text,
      ),
    ),
  );
}

/** What is shown where HTML or text has nothing to show. */
function Nothing({ what, other }: { readonly what: string; readonly other: string | undefined }): JSX.Element {
  return h(
    Empty,
    { title: what, icon: 'messages' },
    other === undefined ? 'Its parts are in its source: “As it came and left”.' : `Look at its ${other} instead.`,
  );
}

/** Says that the journal has not kept it, and why. */
function NotKept({ title, note }: { readonly title: string; readonly note: string | null | undefined }): JSX.Element {
  const why = note ? `Why: ${note}.` : 'The journal keeps what messages contain only where journal.content is full.';
  return h(Empty, { title }, why);
}

interface PartProps {
  readonly part: PreviewPart;
  readonly form: 'html' | 'text';
  readonly note: string | null | undefined;
}

function Part({ part, form, note }: PartProps): JSX.Element {
  if (part.body_kept === false) return h(NotKept, { title: 'Its body was not kept', note });
  if (form === 'html') {
    if (!part.html) return h(Nothing, { what: 'It has no HTML', other: part.text ? 'text' : undefined });
    if (isTooDeep(part.html)) {
      const what = 'Its HTML is nested so deep that a browser would take long to show it';
      return h(Nothing, { what, other: part.text ? 'text' : undefined });
    }
    return el(
      'div',
      h(PreviewFrame, { html: part.html }),
      el('p.hint', 'Pictures, links and everything that would load or run are taken out.'),
    );
  }
  return part.text
    ? h('pre', { class: 'box', tabIndex: 0 }, h(Foreign, { text: part.text, lines: true, most: 8000 }))
    : h(Nothing, { what: 'It has no text', other: part.html ? 'HTML' : undefined });
}

/** The tab. */
export function PreviewPanel({ entry, path }: { readonly entry: JournalEntry; readonly path: string }): JSX.Element {
  const { value, problem, reload } = useAnswer<Preview>(`${path}/preview`);
  const [side, setSide] = useState<'received' | 'sent'>();
  const [form, setForm] = useState<'html' | 'text'>();
  const note = entry.content_note;
  if (problem?.status === 404) return h(NotKept, { title: 'Its text was not kept', note });
  if (problem) return h(Fault, { problem, retry: reload });
  if (!value) return h(Progress, { what: 'Reading the message' });
  const shownSide = side ?? (value.sent ? 'sent' : 'received');
  const part = value[shownSide];
  if (!part) return h(NotKept, { title: 'This side was not kept', note });
  if (part.unreadable !== undefined)
    return h(Empty, { title: 'It cannot be read', icon: 'warning' }, h(Foreign, { text: part.unreadable }));
  const shownForm = form ?? (part.html ? 'html' : 'text');
  const attachments = part.attachments ?? [];
  return el(
    'div',
    el(
      'div.panel-head',
      h(Switch<'html' | 'text'>, {
        label: 'Form',
        choices: [
          { key: 'html', text: 'HTML' },
          { key: 'text', text: 'Text' },
        ],
        chosen: shownForm,
        onChoose: setForm,
      }),
      value.sent && value.received
        ? h(Switch<'received' | 'sent'>, {
            label: 'Side',
            choices: [
              { key: 'received', text: 'As it came' },
              { key: 'sent', text: 'As it left' },
            ],
            chosen: shownSide,
            onChoose: setSide,
          })
        : null,
    ),
    h(Part, { part, form: shownForm, note }),
    part.truncated === true ? el('p.hint', 'It is long: only its beginning is shown.') : null,
    attachments.length === 0
      ? null
      : h(
          Panel,
          { title: 'Attachments' },
          h(Table<Attachment>, {
            label: 'Attachments',
            columns,
            rows: attachments,
            keyOf: (_, index) => String(index),
          }),
        ),
  );
}
