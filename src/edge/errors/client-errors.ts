// The rows of the catalogue that turn a client away for request limits, TLS, law, or what is not supported (D63).

import type { CatalogueRows } from './categories.ts';

/** The rows, by category and code. */
export const clientErrors = {
  rate_limit: {
    1015: [
      'rate_limited',
      'Rate limited',
      'This client has sent more requests than the operator of the site allows in the time. The edge enforced that limit; the origin did not see the request.',
      'Send nothing for as long as this error says, then continue at a lower rate. Spread requests out, keep answers that you can reuse, and wait longer after each refusal.',
      'If ordinary visitors meet this, the rate limit of the zone is too tight, or many of them share an address: raise the number of requests or lengthen the period.',
      { retryAfterSeconds: 30 },
    ],
    1025: [
      'site_request_limit_reached',
      'Request limit of the site reached',
      'All clients together have used up the requests that the site may receive in the current period. The limit of the site is the cause; the origin did not see the request.',
      'Come back later: the limit is lifted when the next period begins. Retrying before that does not help.',
      'The traffic of the site exceeds what its plan covers. Wait for the next period, serve more from cache, or move to a larger plan.',
    ],
    1027: [
      'script_daily_limit_reached',
      'Daily request limit of the script reached',
      'The script that answers for this site has used up the requests that its plan allows in a day. The plan of the operator of the site is the cause.',
      'Come back after midnight UTC, when the count starts again, or tell the operator of the site. Retrying before that does not help.',
      'Move to a plan without the daily limit, narrow the routes of the script to the paths that need it, or let requests pass to the origin once the limit is reached.',
      { ownerAction: true },
    ],
    1200: [
      'cache_connection_limit',
      'Cache connection limit',
      'Too many requests are open at the edge at the same time, and it cannot take another one now. The platform limits them to stay responsive; the origin did not see the request.',
      'Wait as long as this error says and try again with fewer requests at once. The request had no effect and can be repeated safely.',
      'A slow origin keeps requests open. Speed up or cache the responses that take longest; if the load is genuine, ask the operators of the platform for more capacity.',
      { status: 503, retryAfterSeconds: 60 },
    ],
  },
  tls: {
    1017: [
      'tls_version_unsupported',
      'TLS version not supported',
      'The client speaks only versions of TLS that this site does not accept, usually because they are out of date. The client must change; the origin did not see the request.',
      'Update the browser, program or TLS library, and enable TLS 1.2 or TLS 1.3.',
      'The minimum TLS version of the site turned the client away. Lower it only if you must serve old clients and accept the risk.',
    ],
    1028: [
      'tls_cipher_unsupported',
      'TLS cipher not supported',
      'The client offers no cipher that this site accepts. The TLS settings of the client are the cause; the origin did not see the request.',
      'Update the browser, program or TLS library, and remove settings that restrict it to old ciphers. TLS 1.3 with its standard ciphers always fits.',
      'If you have narrowed the ciphers of the site, check that current clients still share one with it, including those with RSA or ECDSA certificates only.',
    ],
    1029: [
      'client_certificate_required',
      'Client certificate required',
      'This site admits only clients that present a certificate, and the client presented none. The client must change; the origin did not see the request.',
      'Configure the client certificate and its private key that the operator of the site issued to you, then connect again. Programs must send it in the TLS handshake.',
      'Issue a certificate to the client, or limit the rule that demands one to the hostnames and paths that need it.',
    ],
    1044: [
      'client_certificate_rejected',
      'Client certificate rejected',
      'The client presented a certificate that this site does not accept: it is expired, revoked, or issued by an authority that the site does not trust. The client must change.',
      'Check the dates and the issuer of your client certificate, send its whole chain, and ask the operator of the site for a new one if it has expired or was revoked.',
      'Compare the issuer of the certificate with the authorities that the site trusts, and renew certificates before they expire.',
    ],
  },
  legal: {
    1026: [
      'legal_restriction',
      'Unavailable for legal reasons',
      'A court or an authority has demanded that this content is not served, and the platform complies. The origin server is not at fault and did not see the request.',
      'Do not retry: the content stays unavailable as long as the order stands. The operator of the site can tell you more.',
      'Read the notice that the platform sent to the owner of the account. Remove the content, or contest the order with whoever issued it.',
    ],
    1039: [
      'legal_restriction_in_region',
      'Unavailable in your region for legal reasons',
      'The law of the place that the request came from does not permit this content to be served there. The platform complies; the origin server is not at fault.',
      'Do not retry from the same place. Ask the operator of the site whether the content is offered to your region in another form.',
      'Read the notice about the regional restriction. Offer a version that is lawful there, or contest the restriction with whoever issued it.',
    ],
  },
  unsupported: {
    1045: [
      'feature_unsupported',
      'Feature not supported',
      'The request asks for a protocol or a feature that the edge does not offer for this site. The client must ask differently; the origin did not see the request.',
      'Do not retry unchanged. Use plain HTTP requests over HTTP/1.1, without unusual methods, upgrades or extensions.',
      'If your application depends on the protocol, check whether the plan of the site includes it, or carry that traffic through a proxy application.',
    ],
  },
} as const satisfies CatalogueRows;
