// Work that many ask for and that is done once for all of them.

/** Makes a function that does the work, unless it is under way: then whoever asks waits for its end. */
export function onceAtATime(work: () => Promise<void>): () => Promise<void> {
  let underWay: Promise<void> | undefined;
  return () => {
    underWay ??= work().finally(() => (underWay = undefined));
    return underWay;
  };
}
