// An edge error as JSON: RFC 9457 problem details with the extension members (D62). Compact, and the same text for
// application/json and application/problem+json.

import { oncePer } from '../../base/once-per.ts';
import type { EdgeError, EdgeOccurrence } from './edge-error.ts';
import { attribution, referenceUrlOf, retrySecondsOf, timestampOf, titleOf } from './occurrence.ts';

/** Members as text, without the braces around them. */
function membersText(members: Readonly<Record<string, string | number | boolean>>): string {
  return JSON.stringify(members).slice(1, -1);
}

// The part of a body that no occurrence changes is made once.
const fixedParts = oncePer((error: EdgeError) => ({
  told: membersText({ title: titleOf(error), status: error.status, detail: error.detail }),
  classified: membersText({ error_code: error.code, error_name: error.name, error_category: error.category }),
  retryable: membersText({ platform_error: true, retryable: error.retryAfterSeconds !== undefined }),
  advice: membersText({
    owner_action_required: error.ownerAction,
    what_you_should_do: error.guidance,
    footer: attribution,
  }),
}));

/** Renders the body: the members of RFC 9457 first, then the extension members; one line without an end. */
export function renderJson(occurrence: EdgeOccurrence): string {
  const { told, classified, retryable, advice } = fixedParts(occurrence.error);
  // RFC 8259 §8.1, I-JSON: no lone surrogates.
  // RFC 9457 §4.2.1: about:blank says that there is no page about the error; `error_code` tells which one it is all the same.
  const type = JSON.stringify((referenceUrlOf(occurrence) ?? 'about:blank').toWellFormed());
  const rayId = JSON.stringify(occurrence.rayId.toWellFormed());
  const zone = JSON.stringify(occurrence.zone.toWellFormed());
  const seconds = retrySecondsOf(occurrence);
  const retryAfter = seconds === undefined ? '' : `,"retry_after":${seconds}`;
  return `{"type":${type},${told},"instance":${rayId},${classified},"ray_id":${rayId},"timestamp":"${timestampOf(occurrence)}","zone":${zone},${retryable}${retryAfter},${advice}}`;
}
