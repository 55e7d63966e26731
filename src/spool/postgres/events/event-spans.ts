// The ranges of ids in which a page looks for its events, one after another: first those of one partition, then of two, of four ...
// A page that is soon full touches one partition, whatever their number; one that finds little touches all with few questions.

/** A range of ids, both included. */
export interface IdSpan {
  readonly low: number;
  readonly high: number;
}

/** Parts a range at the first ids of partitions. @param starts these ids, in order; without any the range stays whole */
export function* spansOf(
  { low, high }: IdSpan,
  { starts, isOldest }: { readonly starts: readonly number[]; readonly isOldest: boolean },
): Generator<IdSpan> {
  let [bottom, top] = [low, high];
  for (let count = 1; bottom <= top; count *= 2) {
    if (isOldest) {
      const end = starts[starts.findLastIndex((start) => start <= bottom) + count];
      const until = end === undefined ? top : Math.min(top, end - 1);
      yield { low: bottom, high: until };
      bottom = until + 1;
    } else {
      const begin = starts[starts.findLastIndex((start) => start <= top) - count + 1];
      const since = begin === undefined ? bottom : Math.max(bottom, begin);
      yield { low: since, high: top };
      top = since - 1;
    }
  }
}
