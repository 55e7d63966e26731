// Keeps what was made of an object for as long as the object is there.

/** Makes a function that calls `make` once for each object and gives that again. Where `make` throws, it is called the next time. */
export function oncePer<Key extends object, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const made = new WeakMap<Key, Value>();
  return (key) => {
    const known = made.get(key);
    if (known !== undefined) return known;
    const value = make(key);
    made.set(key, value);
    return value;
  };
}
