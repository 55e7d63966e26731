// The HTML of a message as its reader would see it, without anything in it that runs, loads or leads elsewhere. Three things
// hold that: the document is built anew from an allowlist of elements and attributes; its frame is sandboxed, so that no script
// runs in it; and the policy of the page, which the frame inherits, loads nothing.

import { h, type JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

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

declare global {
  interface Window {
    readonly trustedTypes?: {
      createPolicy(name: string, rules: { createHTML: (text: string) => string }): { createHTML(text: string): string };
    };
  }
}

let policy: { createHTML(text: string): string } | undefined;

/** Reads HTML into a document that is never shown: nothing of it runs or loads. */
function parse(html: string): Document {
  policy ??= window.trustedTypes?.createPolicy('postern-preview', { createHTML: (text) => text }) ?? {
    createHTML: (text) => text,
  };
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

/** Where a copy goes: below a level its content stands beside it. */
interface PageLocation {
  readonly target: Node;
  readonly level: number;
}

function copyInto(
  { target, level }: PageLocation,
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

/** The frame. */
export function PreviewFrame({ html }: { readonly html: string }): JSX.Element {
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
