// What differs between two texts, line by line: a message as it came and as it left.

/** A line of both, or of one side alone. `left` and `right` count from 1. */
export interface DiffLine {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
  readonly left?: number;
  readonly right?: number;
}

/** The most steps of the search, which grows with lines times differences; past it the middle is told as replaced. */
const mostSteps = 2_000_000;

/** Whether the way to diagonal `k` with so many edits goes down, by an added line, and not to the right, by a removed one. */
function goesDown(k: number, edits: number, reach: (diagonal: number) => number): boolean {
  return k === -edits || (k !== edits && reach(k - 1) < reach(k + 1));
}

/** How far each diagonal `k` reaches with each number of edits, at `k + edits` (Myers 1986); undefined past the bound. */
function shortestEdits(left: readonly string[], right: readonly string[]): readonly Int32Array[] | undefined {
  const trace: Int32Array[] = [];
  for (let edits = 0, steps = 0; steps <= mostSteps; edits += 1) {
    const before = trace[edits - 1];
    const reach = (diagonal: number): number => before?.[diagonal + edits - 1] ?? 0;
    const next = new Int32Array(2 * edits + 1);
    trace.push(next);
    for (let k = -edits; k <= edits; k += 2) {
      let x = edits === 0 ? 0 : goesDown(k, edits, reach) ? reach(k + 1) : reach(k - 1) + 1;
      while (x < left.length && x - k < right.length && left[x] === right[x - k]) {
        x += 1;
        steps += 1;
      }
      next[k + edits] = x;
      if (x >= left.length && x - k >= right.length) return trace;
    }
    steps += 2 * edits + 1;
  }
  return undefined;
}

/** Walks the edits back from the end and tells them from the beginning. */
function followEdits(trace: readonly Int32Array[], left: readonly string[], right: readonly string[]): DiffLine[] {
  const lines: DiffLine[] = [];
  let x = left.length;
  let y = right.length;
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reach = (diagonal: number): number => trace[edits - 1]?.[diagonal + edits - 1] ?? 0;
    const isDown = goesDown(x - y, edits, reach);
    const startX = edits === 0 ? 0 : reach(isDown ? x - y + 1 : x - y - 1);
    const startY = edits === 0 ? 0 : startX - (isDown ? x - y + 1 : x - y - 1);
    while (x > (edits > 0 && !isDown ? startX + 1 : startX) && y > (isDown && edits > 0 ? startY + 1 : startY)) {
      lines.push({ kind: 'same', text: left[x - 1] ?? '', left: x, right: y });
      x -= 1;
      y -= 1;
    }
    if (edits === 0) break;
    if (isDown) lines.push({ kind: 'added', text: right[y - 1] ?? '', right: y });
    else lines.push({ kind: 'removed', text: left[x - 1] ?? '', left: x });
    x = startX;
    y = startY;
  }
  return lines.toReversed();
}

/** Tells a middle as replaced: all of the left side, then all of the right. */
function replaced(left: readonly string[], right: readonly string[]): DiffLine[] {
  return [
    ...left.map((text, index) => ({ kind: 'removed', text, left: index + 1 }) as const),
    ...right.map((text, index) => ({ kind: 'added', text, right: index + 1 }) as const),
  ];
}

/** A line of both sides. @param index on the left, from 0 @param offset of the number on the right */
function same(text: string, index: number, offset: number): DiffLine {
  return { kind: 'same', text, left: index + 1, right: index + 1 + offset };
}

/** Compares two lists of lines. @returns the lines in order: of both sides, removed from the left, added on the right */
export function diffLines(left: readonly string[], right: readonly string[]): readonly DiffLine[] {
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
  let end = 0;
  while (end < left.length - start && end < right.length - start && left.at(-1 - end) === right.at(-1 - end)) end += 1;
  const middle = { left: left.slice(start, left.length - end), right: right.slice(start, right.length - end) };
  const trace = shortestEdits(middle.left, middle.right);
  const edits = trace ? followEdits(trace, middle.left, middle.right) : replaced(middle.left, middle.right);
  const moved = edits.map((line) => ({
    ...line,
    ...(line.left === undefined ? {} : { left: line.left + start }),
    ...(line.right === undefined ? {} : { right: line.right + start }),
  }));
  return [
    ...left.slice(0, start).map((text, index) => same(text, index, 0)),
    ...moved,
    ...left
      .slice(left.length - end)
      .map((text, index) => same(text, left.length - end + index, right.length - left.length)),
  ];
}

/** Cuts a message into lines without their ends. A last line end makes no empty line. */
export function linesOf(text: string): readonly string[] {
  const lines = text.split(/\r\n|\n|\r/);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}
