// A cure as the API shows it: lines for the configuration, or what to change in the program.

import type { Credential } from '../../../accounts/account.ts';
import type { Cure } from '../../../pipeline/report/cure.ts';
import { credentialLines, type Setting, settingKey } from '../../../pipeline/report/settings.ts';
import { setSentences, yamlLines } from '../../../pipeline/report/yaml-lines.ts';
import type { CureJson } from './schemas.ts';

/**
 * Shows a cure: the lines of the credential's entry, its present ones among them. They bring in all of `together`, since lines
 * for each reason alone would repeat their keys when somebody puts in those of several.
 * @param together the settings that cure this reason and the others that are shown beside it, of one credential
 * @param present the credential as it is configured now; absent: it is no longer there
 */
export function cureJson(
  cure: Cure,
  {
    name,
    together,
    present,
  }: { readonly name: string; readonly together: readonly Setting[]; readonly present: Credential | undefined },
): CureJson {
  if (cure.kind === 'program') return { kind: 'program', text: cure.text };
  const own = yamlLines(credentialLines(cure.settings)).join('; ');
  const settings = new Map([...together, ...cure.settings].map((setting) => [settingKey(setting), setting]));
  const lines = credentialLines([...settings.values()], present);
  const yaml = yamlLines(lines).join('\n');
  const sets = setSentences(lines)
    .map((sentence) => ` ${sentence}`)
    .join('');
  const place = name === '' ? 'the credential' : `credential "${name}"`;
  const others =
    settings.size > cure.settings.length ? ` The lines also cure the other reasons; this one needs ${own}.` : '';
  const text = `Put these lines into the configuration, at ${place}, and run postern reload.`;
  const instead = cure.instead === undefined ? '' : ` In place of that the program can be changed. ${cure.instead}`;
  return { kind: 'config', text: `${text}${instead}${others}${sets}`, yaml };
}
