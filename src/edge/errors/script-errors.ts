// The rows of the catalogue about what a site runs at the edge: scripts, rewrite rules and snippets (D63).

import type { CatalogueRows } from './categories.ts';

const tellOperator =
  'Do not retry unchanged: the operator of the site has to correct this. Tell the operator and quote the Ray ID.';

/** The rows, by category and code. */
export const scriptErrors = {
  worker: {
    1019: [
      'script_loop',
      'Script loop',
      'The script of this site sends requests that start the same script again, until the edge stopped the chain. The script is at fault; the platform and the origin work.',
      tellOperator,
      'Let the script fetch from the origin, or from a hostname or path that its own route does not cover. Mark requests of its own and pass marked ones through.',
    ],
    1042: [
      'script_fetch_same_zone',
      'Script fetched from a script of the same site',
      'The script of this site tried to fetch from another script of the same site by its URL, which the edge does not allow. The script is at fault.',
      tellOperator,
      'Call the other script by a direct binding instead of its URL, or join the two into one script.',
    ],
    1100: [
      'script_load_failed',
      'Script could not be loaded',
      'The edge could not start the script that answers for this site: its code does not load. The script is at fault; the origin did not see the request.',
      tellOperator,
      'Look for a syntax error, a missing module or an exception outside of the handlers in the last deployment, and go back to the one before it if need be.',
    ],
    1101: [
      'script_exception',
      'Script threw an exception',
      'The script that answers for this site threw an exception and produced no response. The script is at fault; the platform works.',
      'The same request is likely to fail again. Check its parameters and body for unusual values, then tell the operator of the site and quote the Ray ID.',
      'Find the exception by its Ray ID in the log of the script. Catch what can fail, and answer with an error of your own or pass the request to the origin.',
    ],
    1102: [
      'script_cpu_limit',
      'Script exceeded its CPU time',
      'The script that answers for this site computed for longer than it may, and the edge stopped it. The script is at fault; the platform works.',
      'A smaller request may succeed: ask for less data at once. Otherwise tell the operator of the site and quote the Ray ID.',
      'Measure where the script spends its time. Work on streams instead of whole bodies, keep results that can be reused, or raise the CPU limit of the script.',
      { status: 503 },
    ],
    1103: [
      'script_disabled',
      'Script is disabled',
      'The script that answers for this site has been disabled by the operators of the platform, so there is nothing to answer with. The owner of the script has to settle this with them.',
      tellOperator,
      'Write to the operators of the platform: they can tell why the script was disabled and what must change. Until then, remove its route so that requests reach the origin.',
    ],
    1104: [
      'script_not_found',
      'Script not found',
      'A route of this site names a script that does not exist, or no longer exists. The configuration of the site is at fault; the origin did not see the request.',
      tellOperator,
      'Deploy the script under the name that the route gives, or change or remove the route.',
    ],
    1105: [
      'script_memory_limit',
      'Script exceeded its memory',
      'The script that answers for this site used more memory than it may, and the edge stopped it. The script is at fault; the platform works.',
      'A smaller request may succeed: send or ask for less data at once. Otherwise tell the operator of the site and quote the Ray ID.',
      'Do not hold whole bodies in memory, limit what is kept between requests, and split large work into parts.',
    ],
  },
  rewrite: {
    1035: [
      'rewrite_invalid_path',
      'Rewrite gives an invalid path',
      'A rewrite rule of this site turned the URL into one with an invalid path, so the edge could not pass the request on. The rule is at fault.',
      tellOperator,
      'The rewritten path must begin with a slash, stay inside the site and be correctly percent-encoded. Test the rule with the URL that failed.',
    ],
    1036: [
      'rewrite_too_long',
      'Rewrite gives a URL that is too long',
      'A rewrite rule of this site turned the URL into one that is longer than the edge allows, so the request was not passed on. The rule is at fault.',
      'A request with a shorter URL may succeed. Otherwise tell the operator of the site and quote the Ray ID.',
      'Look for a rule that appends to the path or query, or copies a part of it, each time it applies. Shorten what it writes.',
    ],
    1037: [
      'rewrite_expression_failed',
      'Rewrite rule could not be evaluated',
      'The expression of a rewrite rule of this site failed for this request, so the edge could not tell where to send it. The rule is at fault.',
      tellOperator,
      'Test the expression with the failing request: a function may have got a value of the wrong kind, or none at all. Guard optional headers and parameters.',
    ],
    1040: [
      'rewrite_header_not_allowed',
      'Rewrite of this header not allowed',
      'A rewrite rule of this site tries to change a header that the edge keeps for itself, so the request was not passed on. The rule is at fault.',
      tellOperator,
      'Remove that header from the rule. Headers which describe the connection, the client address or the edge itself cannot be rewritten.',
    ],
    1041: [
      'rewrite_invalid_header_value',
      'Rewrite gives an invalid header value',
      'A rewrite rule of this site gave a header a value that HTTP does not allow, so the request was not passed on. The rule is at fault.',
      tellOperator,
      'The value must not be empty and must hold no line breaks or other control characters. Encode parts of it that come from the request.',
    ],
  },
  snippet: {
    1201: [
      'snippet_load_failed',
      'Snippet could not be loaded',
      'The edge could not start a snippet of this site: its code does not load. The snippet is at fault; the platform works.',
      tellOperator,
      'Look for a syntax error or an unsupported module in the last change of the snippet, and undo it.',
    ],
    1202: [
      'snippet_exception',
      'Snippet threw an exception',
      'A snippet of this site threw an exception while it handled the request and produced no response. The snippet is at fault; the platform works.',
      tellOperator,
      'Catch what can fail inside the snippet, and let the request pass on unchanged in that case.',
    ],
    1203: [
      'snippet_cpu_limit',
      'Snippet exceeded its CPU time',
      'A snippet of this site computed for longer than it may, and the edge stopped it. The snippet is at fault; the platform works.',
      tellOperator,
      'Make the snippet do less for each request, or move the work into a script with a larger limit.',
    ],
    1204: [
      'snippet_subrequest_limit',
      'Snippet sent too many requests',
      'A snippet of this site sent more requests of its own than it may for one request of a client, and the edge stopped it. The snippet is at fault.',
      tellOperator,
      'Join the requests that the snippet sends, keep their answers, or move the work into a script.',
    ],
    1205: [
      'snippet_too_many_redirects',
      'Too many redirects',
      'A request that a snippet of this site sent was redirected over and over, and the edge gave up. The snippet, or the server that it asks, is at fault.',
      'Try again after the waiting time given with this error. If it fails again, the redirects form a circle: tell the operator of the site and quote the Ray ID.',
      'Follow the redirects of the URL that the snippet fetches. Often http and https, or two spellings of the hostname, redirect to each other.',
      { retryAfterSeconds: 5 },
    ],
    1206: [
      'snippet_memory_limit',
      'Snippet exceeded its memory',
      'A snippet of this site used more memory than it may, and the edge stopped it. The snippet is at fault; the platform works.',
      tellOperator,
      'Do not read whole bodies in the snippet; change headers only, or move the work into a script.',
    ],
  },
} as const satisfies CatalogueRows;
