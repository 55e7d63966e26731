const shownCharacters = 2000;

/** A configuration as people may see it: sets and maps as lists, secrets and getters hidden. @param cut whether long texts are cut */
export function shownConfig(value: unknown, cut = false): unknown {
  if (typeof value === 'string' && cut && value.length > shownCharacters)
    return `${value.slice(0, shownCharacters)}...`;
  if (value instanceof Set || Array.isArray(value)) return [...value].map((each) => shownConfig(each, cut));
  if (value instanceof Map) return [...value.values()].map((each) => shownConfig(each, cut));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(Object.getOwnPropertyDescriptors(value)).map(
    ([key, descriptor]): [string, unknown] => {
      const isSecret = descriptor.get !== undefined || key === 'password' || key === 'hex';
      const held: unknown = descriptor.value;
      return [key, isSecret ? '[hidden]' : shownConfig(held, cut)];
    },
  );
  return Object.fromEntries(entries);
}
