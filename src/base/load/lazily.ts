/**
 * Gives a value that is made at the first call; the calls after it get the same one. Where making it fails, every call that
 * waits fails, and the next call tries again.
 */
export function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
