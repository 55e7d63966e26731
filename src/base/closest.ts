/** Steps (insert, delete, replace, swap two neighbours) from one text to another, given up beyond `limit`. */
function distance(from: string, to: string, limit: number): number {
  if (Math.abs(from.length - to.length) > limit) return limit + 1;
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const same = from[row - 1] === to[column - 1];
      let steps = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
      );
      if (row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]) {
        steps = Math.min(steps, (beforeLast[column - 2] ?? 0) + 1);
      }
      current.push(steps);
    }
    beforeLast = last;
    last = current;
  }
  return last[to.length] ?? limit + 1;
}

const wordOf = (name: string): string => name.toLowerCase().replaceAll(/[-_.]/g, '');

/** Finds what a misspelt name most likely stands for: but for case and punctuation equal, or up to three typing errors away. */
export function closest(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length > 64) return undefined;
  const word = wordOf(name);
  let best: string | undefined;
  let bestDistance = Math.min(3, Math.max(1, Math.floor(word.length / 3))) + 1;
  for (const candidate of candidates) {
    const steps = distance(word, wordOf(candidate), bestDistance);
    if (steps >= bestDistance) continue;
    best = candidate;
    bestDistance = steps;
  }
  return best;
}

/** What is said of a name that nothing has: which of the candidates was probably meant, or else the words given. */
export function didYouMean(name: string, candidates: Iterable<string>, otherwise: string): string {
  const near = closest(name, candidates);
  return near === undefined ? otherwise : `did you mean "${near}"?`;
}
