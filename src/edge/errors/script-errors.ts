// The rows of the catalogue about what a site runs at the edge: scripts, rewrite rules and snippets (D63).

import type { CatalogueRows } from './categories.ts';

const tellOperator =
  'Do not retry unchanged: the operator of the site has to correct this. Tell the operator and quote the Ray ID.';

/** The rows, by category and code. */
export const scriptErrors = {
  worker: {
    1019: {
      name: 'script_loop',
      shortName: 'Script loop',
      detail:
        'The script of this site sends requests that start the same script again, until the edge stopped the chain. The script is at fault; the platform and the origin work.',
      guidance: tellOperator,
      ownerGuidance:
        'Let the script fetch from the origin, or from a hostname or path that its own route does not cover. Mark requests of its own and pass marked ones through.',
    },
    1042: {
      name: 'script_fetch_same_zone',
      shortName: 'Script fetched from a script of the same site',
      detail:
        'The script of this site tried to fetch from another script of the same site by its URL, which the edge does not allow. The script is at fault.',
      guidance: tellOperator,
      ownerGuidance: 'Call the other script by a direct binding instead of its URL, or join the two into one script.',
    },
    1100: {
      name: 'script_load_failed',
      shortName: 'Script could not be loaded',
      detail:
        'The edge could not start the script that answers for this site: its code does not load. The script is at fault; the origin did not see the request.',
      guidance: tellOperator,
      ownerGuidance:
        'Look for a syntax error, a missing module or an exception outside of the handlers in the last deployment, and go back to the one before it if need be.',
    },
    1101: {
      name: 'script_exception',
      shortName: 'Script threw an exception',
      detail:
        'The script that answers for this site threw an exception and produced no response. The script is at fault; the platform works.',
      guidance:
        'The same request is likely to fail again. Check its parameters and body for unusual values, then tell the operator of the site and quote the Ray ID.',
      ownerGuidance:
        'Find the exception by its Ray ID in the log of the script. Catch what can fail, and answer with an error of your own or pass the request to the origin.',
    },
    1102: {
      status: 503,
      name: 'script_cpu_limit',
      shortName: 'Script exceeded its CPU time',
      detail:
        'The script that answers for this site computed for longer than it may, and the edge stopped it. The script is at fault; the platform works.',
      guidance:
        'A smaller request may succeed: ask for less data at once. Otherwise tell the operator of the site and quote the Ray ID.',
      ownerGuidance:
        'Measure where the script spends its time. Work on streams instead of whole bodies, keep results that can be reused, or raise the CPU limit of the script.',
    },
    1103: {
      name: 'script_disabled',
      shortName: 'Script is disabled',
      detail:
        'The script that answers for this site has been disabled by the operators of the platform, so there is nothing to answer with. The owner of the script has to settle this with them.',
      guidance: tellOperator,
      ownerGuidance:
        'Write to the operators of the platform: they can tell why the script was disabled and what must change. Until then, remove its route so that requests reach the origin.',
    },
    1104: {
      name: 'script_not_found',
      shortName: 'Script not found',
      detail:
        'A route of this site names a script that does not exist, or no longer exists. The configuration of the site is at fault; the origin did not see the request.',
      guidance: tellOperator,
      ownerGuidance: 'Deploy the script under the name that the route gives, or change or remove the route.',
    },
    1105: {
      name: 'script_memory_limit',
      shortName: 'Script exceeded its memory',
      detail:
        'The script that answers for this site used more memory than it may, and the edge stopped it. The script is at fault; the platform works.',
      guidance:
        'A smaller request may succeed: send or ask for less data at once. Otherwise tell the operator of the site and quote the Ray ID.',
      ownerGuidance:
        'Do not hold whole bodies in memory, limit what is kept between requests, and split large work into parts.',
    },
  },
  rewrite: {
    1035: {
      name: 'rewrite_invalid_path',
      shortName: 'Rewrite gives an invalid path',
      detail:
        'A rewrite rule of this site turned the URL into one with an invalid path, so the edge could not pass the request on. The rule is at fault.',
      guidance: tellOperator,
      ownerGuidance:
        'The rewritten path must begin with a slash, stay inside the site and be correctly percent-encoded. Test the rule with the URL that failed.',
    },
    1036: {
      name: 'rewrite_too_long',
      shortName: 'Rewrite gives a URL that is too long',
      detail:
        'A rewrite rule of this site turned the URL into one that is longer than the edge allows, so the request was not passed on. The rule is at fault.',
      guidance:
        'A request with a shorter URL may succeed. Otherwise tell the operator of the site and quote the Ray ID.',
      ownerGuidance:
        'Look for a rule that appends to the path or query, or copies a part of it, each time it applies. Shorten what it writes.',
    },
    1037: {
      name: 'rewrite_expression_failed',
      shortName: 'Rewrite rule could not be evaluated',
      detail:
        'The expression of a rewrite rule of this site failed for this request, so the edge could not tell where to send it. The rule is at fault.',
      guidance: tellOperator,
      ownerGuidance:
        'Test the expression with the failing request: a function may have got a value of the wrong kind, or none at all. Guard optional headers and parameters.',
    },
    1040: {
      name: 'rewrite_header_not_allowed',
      shortName: 'Rewrite of this header not allowed',
      detail:
        'A rewrite rule of this site tries to change a header that the edge keeps for itself, so the request was not passed on. The rule is at fault.',
      guidance: tellOperator,
      ownerGuidance:
        'Remove that header from the rule. Headers which describe the connection, the client address or the edge itself cannot be rewritten.',
    },
    1041: {
      name: 'rewrite_invalid_header_value',
      shortName: 'Rewrite gives an invalid header value',
      detail:
        'A rewrite rule of this site gave a header a value that HTTP does not allow, so the request was not passed on. The rule is at fault.',
      guidance: tellOperator,
      ownerGuidance:
        'The value must not be empty and must hold no line breaks or other control characters. Encode parts of it that come from the request.',
    },
  },
  snippet: {
    1201: {
      name: 'snippet_load_failed',
      shortName: 'Snippet could not be loaded',
      detail:
        'The edge could not start a snippet of this site: its code does not load. The snippet is at fault; the platform works.',
      guidance: tellOperator,
      ownerGuidance: 'Look for a syntax error or an unsupported module in the last change of the snippet, and undo it.',
    },
    1202: {
      name: 'snippet_exception',
      shortName: 'Snippet threw an exception',
      detail:
        'A snippet of this site threw an exception while it handled the request and produced no response. The snippet is at fault; the platform works.',
      guidance: tellOperator,
      ownerGuidance: 'Catch what can fail inside the snippet, and let the request pass on unchanged in that case.',
    },
    1203: {
      name: 'snippet_cpu_limit',
      shortName: 'Snippet exceeded its CPU time',
      detail:
        'A snippet of this site computed for longer than it may, and the edge stopped it. The snippet is at fault; the platform works.',
      guidance: tellOperator,
      ownerGuidance: 'Make the snippet do less for each request, or move the work into a script with a larger limit.',
    },
    1204: {
      name: 'snippet_subrequest_limit',
      shortName: 'Snippet sent too many requests',
      detail:
        'A snippet of this site sent more requests of its own than it may for one request of a client, and the edge stopped it. The snippet is at fault.',
      guidance: tellOperator,
      ownerGuidance: 'Join the requests that the snippet sends, keep their answers, or move the work into a script.',
    },
    1205: {
      name: 'snippet_too_many_redirects',
      shortName: 'Too many redirects',
      retryAfterSeconds: 5,
      detail:
        'A request that a snippet of this site sent was redirected over and over, and the edge gave up. The snippet, or the server that it asks, is at fault.',
      guidance:
        'Try again after the waiting time given with this error. If it fails again, the redirects form a circle: tell the operator of the site and quote the Ray ID.',
      ownerGuidance:
        'Follow the redirects of the URL that the snippet fetches. Often http and https, or two spellings of the hostname, redirect to each other.',
    },
    1206: {
      name: 'snippet_memory_limit',
      shortName: 'Snippet exceeded its memory',
      detail:
        'A snippet of this site used more memory than it may, and the edge stopped it. The snippet is at fault; the platform works.',
      guidance: tellOperator,
      ownerGuidance: 'Do not read whole bodies in the snippet; change headers only, or move the work into a script.',
    },
  },
} as const satisfies CatalogueRows;
