// Chooses the smallest named sets of fields that cure refusals (D4a). A set is chosen only where the fields show that the system
// which it is made for wrote them; of several such sets, the one that removes the fewest other fields is chosen.

import { type StripSetName, stripSetNames, stripSets } from '../policy/strip-sets.ts';

/** Fields of a set that other programs write too: they do not show whose message it is. */
const commonFields: ReadonlySet<string> = new Set([
  'user-agent',
  'sender',
  'accept-language',
  'errors-to',
  'mail-followup-to',
  'autocrypt',
  'disposition-notification-to',
]);

/** With so many of its fields, a set stands for them, because more of its fields are likely to come. */
const worthASet = 3;

function covers(pattern: string, name: string): boolean {
  const [key, start] = [name.toLowerCase(), pattern.toLowerCase()];
  return start.endsWith('*') ? key.startsWith(start.slice(0, -1)) : key === start;
}

/** Whether a field, or a pattern, is one that a set removes. */
export function isOfSet(set: StripSetName, name: string): boolean {
  return stripSets[set].some(({ pattern }) => pattern.toLowerCase() === name.toLowerCase() || covers(pattern, name));
}

/** Whether a field is one that only the system of one set writes: it shows where the message was. */
function isDistinctive(set: StripSetName, name: string): boolean {
  if (commonFields.has(name.toLowerCase()) || !isOfSet(set, name)) return false;
  return stripSetNames.every((other) => other === set || !isOfSet(other, name));
}

/** Whether some set names a field that no other system writes. */
export function isSystemsOwn(name: string): boolean {
  return stripSetNames.some((set) => isDistinctive(set, name));
}

function patternsUsed(set: StripSetName, names: readonly string[]): number {
  return stripSets[set].filter(({ pattern }) => names.some((name) => covers(pattern, name))).length;
}

function fits(set: StripSetName, names: readonly string[]): boolean {
  if (!names.some((name) => isDistinctive(set, name))) return false;
  const covered = names.filter((name) => isOfSet(set, name)).length;
  return covered >= worthASet || patternsUsed(set, names) === stripSets[set].length;
}

/** Divides fields that are to be removed among named sets and names. @returns the sets, and the names that none of them has */
export function smallestSets(names: readonly string[]): {
  readonly sets: readonly StripSetName[];
  readonly rest: readonly string[];
} {
  const sets: StripSetName[] = [];
  let rest = [...names];
  for (;;) {
    const left = rest;
    const covered = (set: StripSetName): number => left.filter((name) => isOfSet(set, name)).length;
    const best = stripSetNames
      .filter((set) => !sets.includes(set) && fits(set, left))
      .toSorted((one, two) => covered(two) - covered(one) || stripSets[one].length - stripSets[two].length)[0];
    if (best === undefined) return { sets, rest };
    sets.push(best);
    rest = rest.filter((name) => !isOfSet(best, name));
  }
}
