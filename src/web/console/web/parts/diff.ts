// Two texts beside each other, with what differs marked by colour and by a sign.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { writeCounted } from '../text/amounts.ts';
import { type DiffLine, diffLines, linesOf } from '../text/line-diff.ts';
import { el, Foreign, moreButton } from './element.ts';

/** Lines that stay the same are folded away from this many on, but for some beside each change. */
const foldFrom = 12;
const beside = 3;
const mostRowsDrawn = 400;

/** A row of the two columns: a line of both, a pair of changed lines, or one side alone. */
interface Row {
  readonly left?: DiffLine | undefined;
  readonly right?: DiffLine | undefined;
}

/** Pairs removed lines with the added ones that follow them. */
function rowsOf(lines: readonly DiffLine[]): readonly Row[] {
  const rows: Row[] = [];
  const next = { left: 0, right: 0 };
  for (const line of lines) {
    if (line.kind === 'same') {
      next.left = next.right = rows.push({ left: line, right: line });
      continue;
    }
    const side = line.kind === 'removed' ? 'left' : 'right';
    rows[next[side]] = { ...rows[next[side]], [side]: line };
    next[side] += 1;
  }
  return rows;
}

/** Rows, and stretches of equal rows that are folded away. */
type Piece =
  | { readonly kind: 'row'; readonly row: Row }
  | { readonly kind: 'fold'; readonly rows: readonly Row[]; readonly at: number; readonly what: string };

function isSame({ left }: Row): boolean {
  return left?.kind === 'same';
}

/** What a row can be folded away as; undefined: it is shown. @param before the same of the row before it */
function foldedAs(row: Row, before: string | undefined): string | undefined {
  if (isSame(row)) return 'equal line';
  const added = row.left ? '' : (row.right?.text ?? '');
  const goesOn = before === 'added signature line' && /^[ \t]/.test(added);
  return goesOn || /^DKIM-Signature:/i.test(added) ? 'added signature line' : undefined;
}

function fold(rows: readonly Row[]): readonly Piece[] {
  const kinds: (string | undefined)[] = [];
  for (const row of rows) kinds.push(foldedAs(row, kinds.at(-1)));
  const pieces: Piece[] = [];
  const show = (from: number, to: number): unknown =>
    rows.slice(from, to).map((row) => pieces.push({ kind: 'row', row }));
  for (let index = 0; index < rows.length; ) {
    const what = kinds[index];
    let end = index + 1;
    while (end < rows.length && kinds[end] === what) end += 1;
    const isEqual = what === 'equal line';
    if (what === undefined || (isEqual && end - index < foldFrom)) show(index, end);
    else {
      const from = index + (isEqual && index > 0 ? beside : 0);
      const to = end - (isEqual && end < rows.length ? beside : 0);
      show(index, from);
      pieces.push({ kind: 'fold', rows: rows.slice(from, to), at: index, what });
      show(to, end);
    }
    index = end;
  }
  return pieces;
}

const signs = { same: ' ', removed: '−', added: '+' } as const;
const spoken = { same: '', removed: 'as it came: ', added: 'as it left: ' } as const;

function Cell({ line, side }: { readonly line: DiffLine | undefined; readonly side: 'left' | 'right' }): JSX.Element {
  if (!line) return el('div.blank')();
  return el('div', { class: line.kind })(
    el('span.no', { 'aria-hidden': 'true' })(el('span.diff-sign')(signs[line.kind]), line[side]),
    el('span')(
      spoken[line.kind] === '' ? null : el('span.unseen')(spoken[line.kind]),
      h(Foreign, { text: line.text, lines: true, most: 1000 }),
    ),
  );
}

function DiffRow({ row }: { readonly row: Row }): JSX.Element {
  return el('div', { class: isSame(row) ? 'diff-row same' : 'diff-row' })(
    h(Cell, { line: row.left, side: 'left' }),
    h(Cell, { line: row.right, side: 'right' }),
  );
}

/** Two texts beside each other. */
export function Diff(props: {
  readonly left: string;
  readonly right: string;
  readonly leftTitle: string;
  readonly rightTitle: string;
}): JSX.Element {
  const [most, setMost] = useState(mostRowsDrawn);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const pieces = fold(rowsOf(diffLines(linesOf(props.left), linesOf(props.right))));
  return el('div.diff')(
    el('div.diff-head')(el('div')(props.leftTitle), el('div')(props.rightTitle)),
    pieces.slice(0, most).map((piece, index) => {
      if (piece.kind === 'row') return h(DiffRow, { row: piece.row, key: index });
      if (open.has(piece.at))
        return piece.rows.slice(0, 2000).map((row, at) => h(DiffRow, { row, key: `${index} ${at}` }));
      const show = (): void => setOpen(new Set([...open, piece.at]));
      const text = `Show ${writeCounted(piece.rows.length, piece.what)}`;
      return el('div.diff-gap', { key: index })(moreButton(text, show));
    }),
    pieces.length > most &&
      el('div.diff-gap')(
        moreButton(`Show more (${writeCounted(pieces.length - most, 'line')} left)`, () => setMost(most * 4)),
      ),
  );
}
