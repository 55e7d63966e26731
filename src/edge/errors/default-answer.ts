// The answer an edge error gets where no rule and no page of the site's own applies: body, type and caching (D61, D62).

import { oncePer } from '../../base/once-per.ts';
import type { EdgeError, EdgeFormat, EdgeOccurrence, ErrorAnswer } from './edge-error.ts';
import { attribution, referenceUrlOf, retrySecondsOf, timestampOf, titleOf } from './occurrence.ts';
import { errorPageSecurityPolicy, renderHtml } from './render-html.ts';
import { renderMarkdown } from './render-markdown.ts';

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

function headersOf(type: string): ErrorAnswer['headers'] {
  return {
    'Content-Type': `${type}; charset=utf-8`,
    'Cache-Control': 'private, no-store',
    Vary: 'Accept',
    'X-Content-Type-Options': 'nosniff',
  };
}

const formats = {
  json: { render: renderJson, headers: headersOf('application/json') },
  problem: { render: renderJson, headers: headersOf('application/problem+json') },
  markdown: { render: renderMarkdown, headers: headersOf('text/markdown') },
  html: {
    render: renderHtml,
    headers: { ...headersOf('text/html'), 'Content-Security-Policy': errorPageSecurityPolicy },
  },
} as const satisfies Record<
  EdgeFormat,
  { readonly render: (occurrence: EdgeOccurrence) => string; readonly headers: ErrorAnswer['headers'] }
>;

/** Makes the answer in a format. Retry-After (RFC 9110 §10.2.3) equals `retry_after`, or neither is there. */
export function defaultAnswer(occurrence: EdgeOccurrence, format: EdgeFormat): ErrorAnswer & { readonly body: Buffer } {
  const { render, headers } = formats[format];
  const seconds = retrySecondsOf(occurrence);
  return {
    status: occurrence.error.status,
    headers: seconds === undefined ? headers : { ...headers, 'Retry-After': String(seconds) },
    body: Buffer.from(render(occurrence)),
  };
}
