// Values that are known at once or later, for questions that some stores answer at once and others do not.

/** A value, or the promise of one. */
export type MaybePromise<Value> = Value | Promise<Value>;

/** Continues with a value once it is known: at once where it is, without a turn of the microtask queue, else with a promise. */
export function whenKnown<Value, Result>(
  value: MaybePromise<Value>,
  proceed: (value: Value) => MaybePromise<Result>,
): MaybePromise<Result> {
  return value instanceof Promise ? value.then(proceed) : proceed(value);
}

/** Waits for a value, but not for ever. @returns undefined where it takes longer than so many milliseconds */
export async function within<Value>(waitMs: number, awaited: Promise<Value>): Promise<Value | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), waitMs);
  return await Promise.race([awaited, late.promise]).finally(() => clearTimeout(timer));
}
