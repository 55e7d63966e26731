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

/** A line that one side alone has, by its index there, and the one before it. */
interface Edit {
  readonly kind: 'removed' | 'added';
  readonly at: number;
  readonly before: Edit | undefined;
}

/** How far a diagonal reaches on the left, and the last edit on the way there. */
interface Way {
  readonly x: number;
  readonly last: Edit | undefined;
}

/** Finds the fewest edits (Myers 1986): of each number of edits, how far each diagonal `k = x - y` reaches; undefined past the bound. */
function shortestEdits(left: readonly string[], right: readonly string[]): Way | undefined {
  const ways = new Map<number, Way>();
  for (let edits = 0, steps = 0; steps <= mostSteps; edits += 1) {
    for (let k = -edits; k <= edits; k += 2) {
      const [up, aside] = [ways.get(k + 1), ways.get(k - 1)];
      let [x, last]: [number, Edit | undefined] = [0, undefined];
      if (aside && (!up || up.x <= aside.x)) {
        x = aside.x + 1;
        last = { kind: 'removed', at: aside.x, before: aside.last };
      } else if (up) {
        x = up.x;
        last = { kind: 'added', at: x - k - 1, before: up.last };
      }
      for (; x < left.length && x - k < right.length && left[x] === right[x - k]; x += 1) steps += 1;
      const way = { x, last };
      if (x >= left.length && x - k >= right.length) return way;
      ways.set(k, way);
    }
    steps += 2 * edits + 1;
  }
  return undefined;
}

/** Compares two lists of lines. @returns the lines in order: of both sides, removed from the left, added on the right */
export function diffLines(left: readonly string[], right: readonly string[]): readonly DiffLine[] {
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
  let end = 0;
  while (end < left.length - start && end < right.length - start && left.at(-1 - end) === right.at(-1 - end)) end += 1;
  const middle = [left.slice(start, left.length - end), right.slice(start, right.length - end)] as const;
  const way = shortestEdits(...middle);
  // Past the bound all of the left middle is told as replaced by all of the right one.
  const [removed, added] = way ? [new Set<number>(), new Set<number>()] : middle.map((lines) => new Set(lines.keys()));
  for (let edit = way?.last; edit; edit = edit.before) (edit.kind === 'removed' ? removed : added)?.add(edit.at);
  const lines: DiffLine[] = [];
  for (let [x, y] = [0, 0]; x < left.length || y < right.length; ) {
    if (removed?.has(x - start)) lines.push({ kind: 'removed', text: left[x] ?? '', left: (x += 1) });
    else if (added?.has(y - start)) lines.push({ kind: 'added', text: right[y] ?? '', right: (y += 1) });
    else lines.push({ kind: 'same', text: left[x] ?? '', left: (x += 1), right: (y += 1) });
  }
  return lines;
}

/** Cuts a message into lines without their ends. A last line end makes no empty line. */
export function linesOf(text: string): readonly string[] {
  const lines = text.split(/\r\n|\n|\r/);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}
