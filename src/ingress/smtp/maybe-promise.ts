// Values that are there at once or come later, for questions that some stores answer at once and others late.

/** A value, or the promise of one. */
export type MaybePromise<Value> = Value | Promise<Value>;

/**
 * Goes on with a value once it is known: at once where it is there, so that an answer which waits for nothing costs no
 * turn of the microtask queue; else when the promise is fulfilled.
 * @returns what `proceed` gives, as a promise where the value was one
 */
export function whenKnown<Value, Result>(
  value: MaybePromise<Value>,
  proceed: (value: Value) => MaybePromise<Result>,
): MaybePromise<Result> {
  return value instanceof Promise ? value.then(proceed) : proceed(value);
}
