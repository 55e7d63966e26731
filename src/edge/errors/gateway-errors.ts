// The 5xx rows of the catalogue: what goes wrong between the edge and an origin, and in the edge itself (D63, D66).

import type { CatalogueRows } from './categories.ts';

/** The rows, by category and code. */
export const gatewayErrors = {
  platform: {
    500: [
      'internal_server_error',
      'Internal server error',
      'The platform met an unexpected fault of its own while it handled the request. The origin server may never have seen the request and is not the cause.',
      'Wait as long as this error says and send the request again. Where repeating it could do harm, check first whether it took effect. If the error stays, give the Ray ID and the time to the operators of the platform.',
      'Nothing in the settings of your site causes this. If it happens again, look the Ray ID up in the log of the platform or hand it to whoever runs the platform.',
      { retryAfterSeconds: 30 },
    ],
  },
  origin: {
    502: [
      'origin_bad_gateway',
      'Bad gateway',
      'The edge reached the origin side of this site, but a gateway there got no usable answer from the server behind it. The fault lies with the origin.',
      'Wait as long as this error says and try again, leaving more time after each failure. If it keeps failing, tell the operator of the site and quote the Ray ID.',
      'Check that the application behind your load balancer or reverse proxy is running and healthy, and that its answers are complete HTTP messages. The log of that proxy at the time shown names the request.',
      { retryAfterSeconds: 60 },
    ],
    504: [
      'origin_gateway_timeout',
      'Gateway timeout',
      'The edge reached the origin side of this site, but a gateway there waited too long for the server behind it. The fault lies with the origin.',
      'Wait as long as this error says before trying again. The first request may still have taken effect, so check before repeating one that changes something.',
      'Find out what the application was waiting for, usually a database or another service. Shorten that work, or raise the time limits of your own proxies so that they agree with each other.',
      { retryAfterSeconds: 120 },
    ],
    520: [
      'origin_invalid_response',
      'Invalid response from the origin',
      'The origin server accepted the connection, but what came back was empty, malformed, too large in its headers, or cut off before a response began. The fault lies with the origin.',
      'Try again after the waiting time given with this error. If every attempt fails, the site itself needs repair: report the Ray ID and the time to its operator.',
      'Look for crashes and restarts of the web server at the time shown, for oversized cookies or headers in its responses, and for a firewall that resets connections from the edge. Then request the same page from the origin directly.',
      { retryAfterSeconds: 60 },
    ],
    521: [
      'origin_down',
      'Origin server is down',
      'The origin server of this site refused the connection from the edge: nothing listens at its address and port, or a firewall turns the edge away. The fault lies with the origin.',
      'Try again after the waiting time given with this error. Nothing was sent to the origin, so the request can be repeated safely.',
      'Make sure that the web server is running and listens on the port of the configured origin, and that no firewall on the way rejects the addresses of the edge.',
      { retryAfterSeconds: 120 },
    ],
    522: [
      'connection_timeout',
      'Connection timed out',
      'The edge tried to open a connection to the origin server of this site and got no answer in time. The fault lies with the origin or with the network in front of it.',
      'Try again after the waiting time given with this error, and wait longer after each failure. Nothing was sent to the origin, so the request can be repeated safely.',
      'Check that the origin is switched on, that the configured address is still its own, that packets from the edge are not silently dropped by a firewall, and that the server is not too busy to accept connections.',
      { retryAfterSeconds: 120 },
    ],
    523: [
      'origin_unreachable',
      'Origin is unreachable',
      'The network told the edge that there is no way to the address of the origin server of this site. The fault lies with the origin or with its network.',
      'Try again after the waiting time given with this error. Nothing was sent to the origin, so the request can be repeated safely.',
      'Check that the configured address is right and has a route: a changed address, a missing route or a network failure at the hosting company are the usual causes.',
      { retryAfterSeconds: 120 },
    ],
    524: [
      'origin_response_timeout',
      'Origin response timed out',
      'The edge delivered the request to the origin server of this site, but the origin did not begin to answer in time. The fault lies with the origin.',
      'The origin may still be working on the request, so check its effect before repeating one that changes something. Otherwise try again after the waiting time given with this error, and ask for less work at once if you can.',
      'Find the slow request in the log of the origin. Move long work into the background and let clients ask for its state, or begin the response early.',
      { retryAfterSeconds: 120 },
    ],
  },
  ssl: {
    525: [
      'ssl_handshake_failed',
      'TLS handshake with the origin failed',
      'The edge connected to the origin server of this site, but the two could not agree on a TLS session. The TLS settings of the origin are at fault.',
      'Do not retry: the error stays until the operator of the site repairs the TLS settings of the origin. Tell the operator and quote the Ray ID.',
      'Check that the origin speaks TLS on the configured port, that it has a certificate for the name of the host, and that it shares a protocol version (TLS 1.2 or newer) and a cipher with the edge.',
    ],
    526: [
      'invalid_ssl_certificate',
      'Invalid TLS certificate at the origin',
      'The origin server of this site showed a certificate that the edge does not accept: it is expired, issued for another name, or not signed by a trusted authority. The origin is at fault.',
      'Do not retry: the error stays until the operator of the site installs a valid certificate at the origin. Tell the operator and quote the Ray ID.',
      'Install a certificate at the origin that is in date, names the host, and comes with its whole chain. Only where you accept the risk, set the TLS mode of the origin to full, which skips the check.',
    ],
  },
} as const satisfies CatalogueRows;
