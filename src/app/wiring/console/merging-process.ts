// The process that makes changes of the configuration file.

import type { CredentialLines } from '../../../pipeline/report/settings.ts';
import { answerAboutConfig } from '../../config/config-process.ts';
import { cureMerger, isSound, type MergedCure } from '../../config/merged-cure.ts';

/** The lines that are wanted at a credential. */
export interface CureWanted {
  readonly account: string;
  readonly credential: string;
  readonly lines: CredentialLines;
}

answerAboutConfig(async (place) => {
  const merge = isSound(place, place.text ?? '') ? cureMerger(place) : undefined;
  return async ({ account, credential, lines }: CureWanted): Promise<MergedCure | undefined> =>
    merge?.({ account, credential }, lines);
});
