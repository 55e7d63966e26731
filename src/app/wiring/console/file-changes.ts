// The changes of the configuration file that the console shows with cures, as `postern report` prints them.

import { ConfigurationError } from '../../../base/errors.ts';
import type { FileChange, FindFileChange } from '../../../web/admin/journal/refusal-endpoints.ts';
import { type ConfigSource, readConfigText } from '../../config/config.ts';
import { type ConfigProcess, openConfigProcess } from '../../config/config-process.ts';
import { longestText, type MergedCure } from '../../config/merged-cure.ts';
import type { CureWanted } from './merging-process.ts';

const mostKept = 1000;
/** Characters of the file that are gone through for one answer, about: a change that is not found now is found for a later one. */
const charactersAtOnce = 100_000;

/** How long a process waits for the next change, in milliseconds. */
const idleMs = 1000;

type Merging = ConfigProcess<CureWanted, MergedCure | undefined>;

interface Known {
  readonly text: string;
  readonly changes: Map<string, FileChange | undefined>;
}

/** Makes what makes the change of a text, in a process that ends once nobody has wanted a change for a while. */
function inProcess(place: ConfigSource): (text: string, wanted: CureWanted) => Promise<MergedCure | undefined> {
  let present: { readonly text: string; readonly asked: Merging } | undefined;
  let idle: NodeJS.Timeout | undefined;
  const end = async (): Promise<void> => {
    const ended = present;
    present = undefined;
    await ended?.asked.close();
  };
  return async (text, wanted) => {
    clearTimeout(idle);
    if (present?.text !== text) {
      await end();
      const asked: Merging = await openConfigProcess(new URL('./merging-process.ts', import.meta.url), place, text);
      present = { text, asked };
    }
    try {
      return await present.asked.ask(wanted);
    } catch (error) {
      await end();
      throw error;
    } finally {
      idle = setTimeout(() => void end(), idleMs).unref();
    }
  };
}

/** Reads the file and finds its changes, which are remembered as long as it stays: each reads a whole configuration, one at a time. */
export function fileChanges(place: ConfigSource, file: string): () => FindFileChange {
  let last: Known | undefined;
  let isMaking = false;
  const make = inProcess(place);
  const present = (): Known | undefined => {
    try {
      const text = readConfigText(place);
      if (last?.text !== text) last = { text, changes: new Map() };
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
      if (!known || known.text.length > longestText || Object.keys(proposal).length === 0) return undefined;
      const { text, changes } = known;
      const key = JSON.stringify([account, credential, proposal]);
      if (changes.has(key)) return changes.get(key);
      if (left <= 0 || isMaking) return undefined;
      left -= text.length;
      isMaking = true;
      try {
        const found = await make(text, { account, credential, lines: proposal });
        const change = found && { file, line: found.line, diff: found.diff };
        if (changes.size >= mostKept) changes.clear();
        changes.set(key, change);
        return change;
      } catch {
        // Without its process the refusals are shown without changes.
        return undefined;
      } finally {
        isMaking = false;
      }
    };
  };
}
