// A cure as the API shows it: lines for the configuration, or what to change in the program.

import type { Credential } from '../../accounts/account.ts';
import type { Cure } from '../../report/cure.ts';
import { credentialLines } from '../../report/settings.ts';
import { yamlLines } from '../../report/yaml-lines.ts';

/** A cure in answers. */
export interface CureJson {
  readonly kind: 'config' | 'program';
  /** What to do, in words. */
  readonly text: string;
  /** The lines of the credential's entry, its present ones among them, with line feeds between. */
  readonly yaml?: string;
}

/** Shows a cure. @param present the credential as it is configured now; absent: it is no longer there */
export function cureJson(cure: Cure, name: string, present: Credential | undefined): CureJson {
  if (cure.kind === 'program') return { kind: 'program', text: cure.text };
  const yaml = yamlLines(credentialLines(cure.settings, present)).join('\n');
  const place = name === '' ? 'the credential' : `credential "${name}"`;
  const text = `Put these lines into the configuration, at ${place}, and run postern reload.`;
  const instead = cure.instead === undefined ? '' : ` In place of that the program can be changed. ${cure.instead}`;
  return { kind: 'config', text: `${text}${instead}`, yaml };
}
