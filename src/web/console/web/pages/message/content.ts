// What a message contains: as it came beside as it left, and as mail programs show it.

import { h, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Switch } from '../../parts/controls.ts';
import { Diff } from '../../parts/diff.ts';
import { box, el, foreign, Icon } from '../../parts/element.ts';
import { type Column, column, Table } from '../../parts/list.ts';
import { empty, fault, Progress, panel } from '../../parts/surfaces.ts';
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
  return el('p.actions')(
    sides.map((side) =>
      el('a.button.plain', { key: side, href: `${path}/${side}`, download: `${side}.eml` })(
        h(Icon, { name: 'arrow' }),
        words[side],
      ),
    ),
  );
}

/** The tab. */
export function Comparison({ entry, path }: { readonly entry: JournalEntry; readonly path: string }): JSX.Element {
  const { value, problem, reload } = useLoaded(path, loadSides);
  if (problem) return fault(problem, reload);
  if (!value) return h(Progress, { what: 'Loading both sides' });
  const { received, sent } = value;
  if (!received && !sent) {
    return empty('Its text was not kept', 'messages')(
      el('p')('The journal keeps what messages contain only where the configuration says so:'),
      box('journal:\n  content: full   # none, headers, full'),
    );
  }
  const kept = (['received', 'sent'] as const).filter((side) => value[side] !== undefined);
  const isCut = received?.isCut === true || sent?.isCut === true;
  return el('div')(
    el('div.panel-head')(
      el('p.soft')(
        entry.outcome === 'refused'
          ? 'It was refused, so that nothing left.'
          : sent && received
            ? 'Removed lines have a −, added ones a +.'
            : 'Only this side was kept.',
      ),
      downloads(path, kept),
    ),
    isCut ? el('p.note')(`Only the first ${writeOctets(most)} of each side are shown; the files are whole.`) : null,
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
  column('wide', 'Name', ({ filename }) => foreign(filename ?? 'without a name', 200)),
  { title: 'Type', cell: ({ type }) => el('code')(foreign(type, 100)) },
  column('number', 'Size', ({ size }) => writeOctets(size)),
];

/** What is shown where HTML or text has nothing to show. */
function nothing(what: string, other: string | undefined): JSX.Element {
  const why =
    other === undefined ? 'Its parts are in its source: “As it came and left”.' : `Look at its ${other} instead.`;
  return empty(what, 'messages')(why);
}

function notKept(title: string, note: string | null): JSX.Element {
  const why = note ? `Why: ${note}.` : 'The journal keeps what messages contain only where journal.content is full.';
  return empty(title, 'messages')(why);
}

function shown({ html, text, body_kept: isKept }: PreviewPart, form: Form, note: string | null): JSX.Element {
  if (!isKept) return notKept('Its body was not kept', note);
  if (form === 'text') return text ? box(text) : nothing('It has no text', html ? 'HTML' : undefined);
  const other = text ? 'text' : undefined;
  if (!html) return nothing('It has no HTML', other);
  if (isTooDeep(html)) return nothing('Its HTML is nested so deep that a browser would take long to show it', other);
  return el('div')(
    h(PreviewFrame, { html }),
    el('p.hint')('Pictures, links and everything that would load or run are taken out.'),
  );
}

/** The tab. */
export function PreviewPanel({ entry, path }: { readonly entry: JournalEntry; readonly path: string }): JSX.Element {
  const { value, problem, reload } = useAnswer<Preview>(`${path}/preview`);
  const [side, setSide] = useState<Side>();
  const [form, setForm] = useState<Form>();
  const note = entry.content_note;
  if (problem?.status === 404) return notKept('Its text was not kept', note);
  if (problem) return fault(problem, reload);
  if (!value) return h(Progress, { what: 'Reading the message' });
  const shownSide = side ?? (value.sent ? 'sent' : 'received');
  const part = value[shownSide];
  if (!part) return notKept('This side was not kept', note);
  if ('unreadable' in part) return empty('It cannot be read', 'warning')(foreign(part.unreadable));
  const shownForm = form ?? (part.html ? 'html' : 'text');
  const { attachments: rows } = part;
  return el('div')(
    el('div.panel-head')(
      h(Switch<Form>, { label: 'Form', choices: forms, chosen: shownForm, onChoose: setForm }),
      value.sent &&
        value.received &&
        h(Switch<Side>, { label: 'Side', choices: sides, chosen: shownSide, onChoose: setSide }),
    ),
    shown(part, shownForm, note),
    part.truncated ? el('p.hint')('It is long: only its beginning is shown.') : null,
    rows.length > 0 &&
      panel('Attachments')(
        h(Table<Attachment>, { label: 'Attachments', columns, rows, keyOf: (_, index) => String(index) }),
      ),
  );
}

// The HTML of a message is shown without anything in it that runs, loads or leads elsewhere. Three things hold that: the document is built
// anew from an allowlist of elements and attributes; its frame is sandboxed, so that no script runs in it; and the policy of the page,
// which the frame inherits, loads nothing.

/** Elements that are kept. The content of others is kept too, but for those of `dropped`. */
const kept = new Set(
  (
    'a abbr address article b bdi bdo blockquote body br caption center cite code col colgroup dd del details dfn div dl dt em ' +
    'figcaption figure font footer h1 h2 h3 h4 h5 h6 header hr i ins kbd li main mark nav ol p pre q s samp section small span ' +
    'strike strong sub summary sup table tbody td tfoot th thead time tr tt u ul var wbr'
  ).split(' '),
);

/** Elements that are left out with all that they hold. */
const dropped = new Set(
  (
    'script style template noscript iframe frame frameset object embed applet link meta base title head svg math form input ' +
    'button select textarea option audio video source track canvas map area picture portal dialog'
  ).split(' '),
);

/** Attributes that are kept, where their value is plain. */
const keptAttributes = new Set(
  'align valign width height bgcolor color face size border cellpadding cellspacing colspan rowspan dir lang start type nowrap'.split(
    ' ',
  ),
);

/** The most elements of a preview, and how deep they lie: a browser takes seconds to lay out many that lie hundreds deep. */
const mostElements = 20_000;
const mostLevels = 60;

/** Declarations that are left out: what could load something, and what could lie over the rest of the text. */
const unwanted = /url\s*\(|image|@|expression|\\|position|z-index/i;

interface HtmlPolicy {
  readonly createHTML: (text: string) => string;
}

declare global {
  interface Window {
    readonly trustedTypes?: { createPolicy(name: string, rules: HtmlPolicy): HtmlPolicy };
  }
}

const plainPolicy: HtmlPolicy = { createHTML: (text) => text };
let policy: HtmlPolicy | undefined;

/** Reads HTML into a document that is never shown: nothing of it runs or loads. */
function parse(html: string): Document {
  policy ??= window.trustedTypes?.createPolicy('postern-preview', plainPolicy) ?? plainPolicy;
  return new DOMParser().parseFromString(policy.createHTML(html), 'text/html');
}

/** Copies the style of an element, declaration by declaration, but for what could load anything or hide the rest. */
function copyStyle(from: Element, to: HTMLElement): void {
  const text = from.getAttribute('style');
  if (text === null || text.length > 5000) return;
  const declarations = text.split(';').filter((declaration) => !unwanted.test(declaration));
  to.style.cssText = declarations.join(';');
}

function pictureText(picture: Element): string {
  const alt = picture.getAttribute('alt')?.slice(0, 200) ?? '';
  return alt === '' ? '[picture]' : `[picture: ${alt}]`;
}

function copyInto(
  { target, level }: { readonly target: Node; readonly level: number },
  nodes: Iterable<Node>,
  counter: { left: number },
  document: Document,
): void {
  for (const node of nodes) {
    if (counter.left <= 0) return;
    if (node.nodeType === Node.TEXT_NODE) {
      target.appendChild(document.createTextNode(node.nodeValue ?? ''));
      continue;
    }
    if (!(node instanceof Element)) continue;
    counter.left -= 1;
    const name = node.localName;
    if (name === 'img') {
      const stand = document.createElement('span');
      stand.style.cssText = 'border:1px solid #bbb;color:#666;font-size:12px;padding:0 4px';
      stand.textContent = pictureText(node);
      target.appendChild(stand);
    } else if (kept.has(name) && node.namespaceURI === 'http://www.w3.org/1999/xhtml') {
      const copy = document.createElement(name === 'body' ? 'div' : name);
      for (const { name: attribute, value } of node.attributes) {
        if (keptAttributes.has(attribute) && value.length <= 200) copy.setAttribute(attribute, value);
      }
      copyStyle(node, copy);
      const href = name === 'a' ? node.getAttribute('href') : null;
      // Links are no links here. Where they would have led is told by hovering.
      if (href !== null) copy.title = `Would lead to ${href.slice(0, 300)}`;
      if (href !== null) copy.style.textDecoration = 'underline';
      target.appendChild(copy);
      copyInto(
        level < mostLevels ? { target: copy, level: level + 1 } : { target, level },
        node.childNodes,
        counter,
        document,
      );
    } else if (!dropped.has(name)) copyInto({ target, level }, node.childNodes, counter, document);
  }
}

function fill(frame: HTMLIFrameElement, html: string): void {
  const document = frame.contentDocument;
  if (!document) return;
  document.body.replaceChildren();
  document.body.style.cssText =
    'margin:16px;background:#fff;color:#1b2127;font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere;color-scheme:light';
  copyInto({ target: document.body, level: 0 }, [parse(html).body], { left: mostElements }, document);
}

function PreviewFrame({ html }: { readonly html: string }): JSX.Element {
  const frame = useRef<HTMLIFrameElement>(null);
  useEffect(() => {
    if (frame.current) fill(frame.current, html);
  }, [html]);
  return h('iframe', {
    ...{ ref: frame, class: 'preview', title: 'The message as HTML', referrerpolicy: 'no-referrer' },
    // No allow-scripts: nothing in it runs. allow-same-origin lets this page build its nodes.
    sandbox: 'allow-same-origin',
  });
}
