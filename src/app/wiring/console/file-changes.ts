// The changes of the configuration file that the console shows with cures, as `postern report` prints them.

import { ConfigurationError } from '../../../base/errors.ts';
import { yieldToEventLoop } from '../../../base/yield-to-event-loop.ts';
import type { FileChange, FindFileChange } from '../../../web/admin/journal/refusal-endpoints.ts';
import { type ConfigSource, readConfigText } from '../../config/config.ts';
import { cureMerger, isSound, type MergeCure } from '../../config/merged-cure.ts';

/** Changes that are remembered at most. */
const mostKept = 1000;
/** Characters of the file that are gone through for one answer, about: a change that is not found now is found for a later one. */
const charactersAtOnce = 100_000;

interface Known {
  readonly text: string;
  /** Makes changes of it; undefined where it is no valid configuration. */
  readonly merge: MergeCure | undefined;
  readonly changes: Map<string, FileChange | undefined>;
}

/**
 * Makes the function that reads the file as it is now, and gives what finds its changes. A page asks for the same ones every few
 * seconds, and each is checked by reading a whole configuration: so they are remembered for as long as the file stays as it is.
 * @param file the path as it is told
 */
export function fileChanges(place: ConfigSource, file: string): () => FindFileChange {
  let last: Known | undefined;
  const present = (): Known | undefined => {
    try {
      const text = readConfigText(place);
      if (last?.text !== text)
        last = { text, merge: isSound(place, text) ? cureMerger({ ...place, text }) : undefined, changes: new Map() };
      return last;
    } catch (error) {
      if (error instanceof ConfigurationError) return undefined;
      throw error;
    }
  };
  return () => {
    const known = present();
    let left = charactersAtOnce;
    return async ({ account, credential, proposal }) => {
      if (!known?.merge || Object.keys(proposal).length === 0) return undefined;
      const { text, merge, changes } = known;
      const key = JSON.stringify([account, credential, proposal]);
      if (changes.has(key)) return changes.get(key);
      if (left <= 0) return undefined;
      left -= text.length;
      await yieldToEventLoop();
      const found = merge({ account, credential }, proposal);
      const change = found && { file, line: found.line, diff: found.diff };
      if (changes.size >= mostKept) changes.clear();
      changes.set(key, change);
      return change;
    };
  };
}
