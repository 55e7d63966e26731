// The Markdown pages of the project, read as a reader's program shows them: headings with their anchors, links, and fenced
// blocks. Only what our pages use is understood.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** Folders that hold no pages of ours, or pages that a test writes. */
const passedOver = new Set(['node_modules', 'golden', 'dist', 'data', 'coverage']);

/** Every Markdown page below a folder of the project, by its path from the root, in alphabetical order. */
export function markdownPages(folder = ''): readonly string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .flatMap((entry) => {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) return passedOver.has(entry.name) || entry.name === '.git' ? [] : markdownPages(path);
      return entry.name.endsWith('.md') ? [path] : [];
    })
    .toSorted();
}

/** The text of a page, by its path from the root of the project. */
export function readPage(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** One heading. */
export interface Heading {
  /** 1 for the title of the page, 2 for a section, and so on. */
  readonly level: number;
  readonly text: string;
  /** What a link to it has behind the `#`. */
  readonly anchor: string;
}

/** One fenced block. */
export interface FencedBlock {
  /** Line of the page where the block begins, from 1. */
  readonly line: number;
  /** The word behind the fence; empty where there is none. */
  readonly language: string;
  /** The lines inside, without the indentation of the fence. */
  readonly text: string;
}

const fence = /^([ ]*)```(\w*)\n([\s\S]*?)^\1```$/gm;

/** The fenced blocks of a page in order, those inside list items too. */
export function fencedBlocks(markdown: string): readonly FencedBlock[] {
  return [...markdown.matchAll(fence)].map(({ index, 1: indent = '', 2: language = '', 3: text = '' }) => ({
    line: markdown.slice(0, index).split('\n').length,
    language,
    text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }));
}

/** The page without its fenced blocks, each replaced by as many empty lines. */
function prose(markdown: string): string {
  return markdown.replaceAll(fence, (block) => block.replaceAll(/[^\n]+/g, ''));
}

/** A heading's anchor as the common renderers make it: lower case, blanks to hyphens, other characters left out. */
function anchorOf(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\- _]/gu, '')
    .replaceAll(' ', '-');
}

/** The headings of a page in order. The second heading of one text gets `-1` behind its anchor, the third `-2`. */
export function headings(markdown: string): readonly Heading[] {
  const seen = new Map<string, number>();
  return [...prose(markdown).matchAll(/^(#{1,6}) (.+)$/gm)].map(([, marks = '', text = '']) => {
    const anchor = anchorOf(text);
    const times = seen.get(anchor) ?? 0;
    seen.set(anchor, times + 1);
    return { level: marks.length, text, anchor: times === 0 ? anchor : `${anchor}-${times}` };
  });
}

/** Where the links and images of a page lead, as they are written: `[text](target)`, and `src` of an image. */
export function linkTargets(markdown: string): readonly string[] {
  const text = prose(markdown).replaceAll(/`[^`\n]*`/g, '');
  const written = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
  const images = [...text.matchAll(/<img [^>]*src="([^"]+)"/g)].map(([, target = '']) => target);
  return [...written, ...images];
}
