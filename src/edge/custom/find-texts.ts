// Finds which of many texts a text holds, in one pass (Aho, Corasick 1975): one search each would cost the product of their number.

import { yieldToEventLoop } from '../../base/yield-to-event-loop.ts';

/** Tells of each text that was wanted, by its index, whether one of these texts holds it: 1, or 0 where none does. */
export type TextsFinder = (texts: readonly string[]) => Uint8Array;

/** The wanted texts as a tree. Nodes are numbered by levels, so that the children of a node stand together, ordered by unit. */
interface Tree {
  readonly nodes: number;
  /** The UTF-16 code unit that leads to a node. */
  readonly units: Uint16Array;
  /** The first child of a node; the last one stands before the first child of the next node. */
  readonly children: Uint32Array;
  /** The index of the wanted text that ends at a node, or -1. */
  readonly ends: Int32Array;
  /** The node of the longest end of what leads to a node that also begins a wanted text. */
  readonly fallbacks: Uint32Array;
  /** The next node at which a wanted text ends, by way of the fallbacks; 0 where there is none. */
  readonly alsoEnds: Uint32Array;
}

/** The child of a node to which a unit leads; 0, which is nobody's child, where there is none. */
function childOf({ units, children }: Pick<Tree, 'units' | 'children'>, node: number, unit: number): number {
  let low = children[node] ?? 0;
  let high = (children[node + 1] ?? 0) - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = units[middle] ?? 0;
    if (found === unit) return middle;
    if (found < unit) low = middle + 1;
    else high = middle - 1;
  }
  return 0;
}

/** The node that is reached from another one by a unit. */
function follow(tree: Pick<Tree, 'units' | 'children' | 'fallbacks'>, from: number, unit: number): number {
  for (let node = from; ; node = tree.fallbacks[node] ?? 0) {
    const child = childOf(tree, node, unit);
    if (child !== 0 || node === 0) return child;
  }
}

/** Nodes that are made between two looks at the time, which takes as long as some of them. */
const nodesAtOnce = 500;

async function plant(wanted: readonly string[]): Promise<Tree> {
  const most = wanted.reduce((sum, { length }) => sum + length, 1);
  const units = new Uint16Array(most);
  const children = new Uint32Array(most + 1);
  const ends = new Int32Array(most).fill(-1);
  const fallbacks = new Uint32Array(most);
  const alsoEnds = new Uint32Array(most);
  const growing = { units, children, fallbacks };
  // Texts that begin alike stand together once they are in order: those of a node are the ones from `first` to `behind`.
  const order = wanted
    .map((text, index) => ({ text, index }))
    .toSorted((one, other) => (one.text < other.text ? -1 : 1));
  const first = new Uint32Array(most);
  const behind = new Uint32Array(most);
  const depths = new Uint16Array(most);
  behind[0] = order.length;
  let nodes = 1;
  for (let node = 0; node < nodes; node += 1) {
    if (node % nodesAtOnce === 0) await yieldToEventLoop();
    children[node] = nodes;
    const depth = depths[node] ?? 0;
    const stop = behind[node] ?? 0;
    for (let at = first[node] ?? 0; at < stop; ) {
      const { text, index } = order[at] ?? { text: '', index: -1 };
      if (text.length === depth) {
        ends[node] = index;
        at += 1;
        continue;
      }
      const unit = text.charCodeAt(depth);
      let next = at + 1;
      while (next < stop && order[next]?.text.charCodeAt(depth) === unit) next += 1;
      units[nodes] = unit;
      first[nodes] = at;
      behind[nodes] = next;
      depths[nodes] = depth + 1;
      if (text.length === depth + 1) ends[nodes] = index;
      // A fallback is shorter than what leads to its node, so its own children are known by now.
      const fallback = node === 0 ? 0 : follow(growing, fallbacks[node] ?? 0, unit);
      fallbacks[nodes] = fallback;
      alsoEnds[nodes] = (ends[fallback] ?? -1) >= 0 ? fallback : (alsoEnds[fallback] ?? 0);
      nodes += 1;
      at = next;
    }
  }
  children[nodes] = nodes;
  return {
    nodes,
    units: units.slice(0, nodes),
    children: children.slice(0, nodes + 1),
    ends: ends.slice(0, nodes),
    fallbacks: fallbacks.slice(0, nodes),
    alsoEnds: alsoEnds.slice(0, nodes),
  };
}

/** Prepares a search for texts, in slices. @returns what finds them by UTF-16 code units, in time linear in what is searched */
export async function textsFinder(wanted: readonly string[]): Promise<TextsFinder> {
  const tree = await plant(wanted);
  const { ends, alsoEnds } = tree;
  return (texts) => {
    const found = new Uint8Array(wanted.length);
    const note = (at: number): void => {
      for (let node = (ends[at] ?? -1) >= 0 ? at : (alsoEnds[at] ?? 0); ; node = alsoEnds[node] ?? 0) {
        const index = ends[node] ?? -1;
        // What ends here was noted before, and with it all that ends at the fallbacks: so each is noted once in a search.
        if (index < 0 || found[index] === 1) return;
        found[index] = 1;
        if (node === 0) return;
      }
    };
    for (const text of texts) {
      note(0);
      for (let at = 0, node = 0; at < text.length; at += 1) {
        node = follow(tree, node, text.charCodeAt(at));
        if (node !== 0) note(node);
      }
    }
    return found;
  };
}
