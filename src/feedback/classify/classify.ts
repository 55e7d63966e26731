// Classifies a failure by the table of rules.

import type { BounceClass } from '../../events/mail-event.ts';
import { type BounceRule, type BounceRuleName, bounceRules, type DeliveryFailure } from './bounce-rules.ts';

/** What a failure means, and which rule says so. */
export interface Classified {
  readonly class: BounceClass;
  readonly rule: BounceRuleName;
}

/** Characters of the words that are looked at. */
const mostCharacters = 1000;

/** Addresses, and the server that a relay quotes: a name such as spam@example.com says nothing of the failure. */
const names = /[^\s<>()[\]"',;:=]{1,64}@[^\s<>()[\]"',;:]{1,255}|\bhost \S{1,300} said:/g;
/** Codes that say no more than later or never (RFC 3463 §3.1). */
const saysNothing = /^[45]\.(?:0\.0|5\.0|3\.0|1\.0|2\.0|4\.0)$/;
const inWords = /(?<![\d.])([45]\.\d{1,2}\.\d{1,3})(?![\d.]*\d)/;

function* rows(): Generator<readonly [BounceRuleName, BounceRule]> {
  let name: keyof typeof bounceRules;
  for (name in bounceRules) yield [name, bounceRules[name]];
}

/** The code that counts: the given one, or that in the words where the given one says nothing. */
function statusOf(status: string | undefined, words: string): string | undefined {
  if (status !== undefined && !saysNothing.test(status)) return status;
  const told = inWords.exec(words)?.[1];
  if (told !== undefined && !saysNothing.test(told)) return told;
  // A server that gives up after days says 4 in the code of the last attempt.
  return status?.startsWith('4') === true ? status : undefined;
}

/** Classifies a failure. Where no rule fits it is soft: what is not understood suppresses nobody. */
export function classify({ status, words }: DeliveryFailure): Classified {
  const text = words.slice(0, mostCharacters).replaceAll(names, '@');
  const code = statusOf(status, text);
  for (const [rule, row] of rows()) {
    if (row.status && (code === undefined || !row.status.test(code))) continue;
    if (row.words && !row.words.test(text)) continue;
    return { class: row.class, rule };
  }
  return { class: 'soft', rule: 'undecided' };
}

/** Whether a rule suppresses only when it decides again a day later. @param name as an event has it; one of another release is none */
export function needsSecond(name: string): boolean {
  for (const [rule, row] of rows()) if (rule === name) return row.needsSecond === true;
  return false;
}
