// An edge error as Markdown: YAML front matter for programs, prose for who reads it (D62).

import type { EdgeError, EdgeOccurrence } from './edge-error.ts';
import { attribution, oncePerError, retrySecondsOf, timestampOf, titleOf } from './occurrence.ts';
import { yamlString } from './yaml-scalar.ts';

/** Escapes what Markdown (CommonMark §2.4) or HTML in it would read as more than text. */
function proseText(text: string): string {
  return text.replace(/[\\`*_[\]<>&#|~]/g, '\\$&');
}

const fixedParts = oncePerError((error: EdgeError) => ({
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
