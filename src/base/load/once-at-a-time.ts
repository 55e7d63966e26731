// Work that many ask for and that is done once for all of them.

/** Makes a function that does the work, unless it is under way: then whoever asks waits for its end, and gets the same. */
export function onceAtATime<Result>(work: () => Promise<Result>): () => Promise<Result> {
  let underWay: Promise<Result> | undefined;
  return () => {
    underWay ??= work().finally(() => (underWay = undefined));
    return underWay;
  };
}

/** Makes a function for work that never rejects: who asks during it shares the next one, which does as the first of them asked. */
export function onceAndAgain<Asked extends readonly unknown[], Result>(
  work: (...asked: Asked) => Promise<Result>,
): (...asked: Asked) => Promise<Result> {
  let underWay: Promise<Result> | undefined;
  let next: Promise<Result> | undefined;
  const begin = (asked: Asked): Promise<Result> => {
    next = undefined;
    underWay = work(...asked).finally(() => {
      if (!next) underWay = undefined;
    });
    return underWay;
  };
  return (...asked) => {
    if (!underWay) return begin(asked);
    next ??= underWay.then(() => begin(asked));
    return next;
  };
}
