// The answer an edge error gets where no rule and no page of the site's own applies: body, type and caching (D61, D62).

import type { EdgeFormat, EdgeOccurrence, ErrorAnswer } from './edge-error.ts';
import { retrySecondsOf } from './occurrence.ts';
import { errorPageSecurityPolicy, renderHtml } from './render-html.ts';
import { renderJson } from './render-json.ts';
import { renderMarkdown } from './render-markdown.ts';

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
