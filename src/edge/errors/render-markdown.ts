// An edge error as Markdown: YAML front matter for programs, prose for who reads it (D62).

import { oncePer } from '../../base/once-per.ts';
import type { EdgeError, EdgeOccurrence } from './edge-error.ts';
import { attribution, retrySecondsOf, timestampOf, titleOf } from './occurrence.ts';

const plainCharacters = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
/** Digits with what a number or a date may have between them, and numbers of other bases, as YAML 1.1 knows them. */
const numberLike = /^(?:[0-9._eE-]+$|[0-9][xXoObB])/;
/** YAML 1.1 booleans and nulls, in any case. */
const words = new Set(['y', 'n', 'yes', 'no', 'true', 'false', 'on', 'off', 'null', 'nan', 'inf']);

function escapeCharacter(character: string): string {
  if (character === '"' || character === '\\') return `\\${character}`;
  const codePoint = character.codePointAt(0) ?? 0;
  const hex = codePoint.toString(16).toUpperCase();
  if (codePoint < 0x100) return `\\x${hex.padStart(2, '0')}`;
  return codePoint < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** True where a plain scalar of these characters is a string. */
function isPlainString(text: string): boolean {
  return plainCharacters.test(text) && !numberLike.test(text) && !words.has(text.toLowerCase());
}

/** Writes a string on one line: plain where that is safe, else double-quoted; lone surrogates become U+FFFD. */
export function yamlString(text: string): string {
  if (isPlainString(text)) return text;
  return `"${text.toWellFormed().replace(/["\\]|[^ -~]/gu, escapeCharacter)}"`;
}

/** Escapes what Markdown (CommonMark §2.4) or HTML in it would read as more than text. */
function proseText(text: string): string {
  return text.replace(/[\\`*_[\]<>&#|~]/g, '\\$&');
}

// The part of a body that no occurrence changes is made once.
const fixedParts = oncePer((error: EdgeError) => ({
  classified: `---
status: ${error.status}
error_code: ${error.code}
error_name: ${yamlString(error.name)}
error_category: ${yamlString(error.category)}
`,
  retryable: `platform_error: true
retryable: ${error.retryAfterSeconds !== undefined}
`,
  prose: `owner_action_required: ${error.ownerAction}
---

# ${proseText(titleOf(error))}

## What Happened

${proseText(error.detail)}

## What You Should Do

${proseText(error.guidance)}

---

${proseText(attribution)}
`,
}));

/** Renders the body; what comes from the request stands in the front matter alone, where it cannot become markup. */
export function renderMarkdown(occurrence: EdgeOccurrence): string {
  const { classified, retryable, prose } = fixedParts(occurrence.error);
  const seconds = retrySecondsOf(occurrence);
  const retryAfter = seconds === undefined ? '' : `retry_after: ${seconds}\n`;
  // Quoted whatever it is: YAML 1.1 reads a bare one as a date.
  const timestamp = `"${timestampOf(occurrence)}"`;
  return `${classified}ray_id: ${yamlString(occurrence.rayId)}
timestamp: ${timestamp}
zone: ${yamlString(occurrence.zone)}
${retryable}${retryAfter}${prose}`;
}
