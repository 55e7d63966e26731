// Works with the labels of domain names. Names are text: A-labels in one case, without a trailing dot.

/** The name without its first label; '' for a name of one label. */
export function parentName(name: string): string {
  const dot = name.indexOf('.');
  return dot < 0 ? '' : name.slice(dot + 1);
}

/** The names that a name is or stands under, the longest first: `a.b.c`, `b.c`, `c`; one of them is its zone or its domain. */
export function* parentNames(name: string): Generator<string> {
  for (let rest = name; rest !== ''; rest = parentName(rest)) yield rest;
}

/** Tells whether `name` is `parent` or stands below it. */
export function isWithinDomain(name: string, parent: string): boolean {
  return (
    name === parent ||
    (name.length > parent.length && name.endsWith(parent) && name[name.length - parent.length - 1] === '.')
  );
}
