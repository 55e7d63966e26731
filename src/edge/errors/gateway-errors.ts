// The 5xx rows of the catalogue: what goes wrong between the edge and an origin, and in the edge itself (D63, D66).

import type { CatalogueRows } from './categories.ts';

/** The rows, by category and code. */
export const gatewayErrors = {
  platform: {
    500: {
      name: 'internal_server_error',
      shortName: 'Internal server error',
      retryAfterSeconds: 30,
      detail:
        'The platform met an unexpected fault of its own while it handled the request. The origin server may never have seen the request and is not the cause.',
      guidance:
        'Wait as long as this error says and send the request again. Where repeating it could do harm, check first whether it took effect. If the error stays, give the Ray ID and the time to the operators of the platform.',
      ownerGuidance:
        'Nothing in the settings of your site causes this. If it happens again, look the Ray ID up in the log of the platform or hand it to whoever runs the platform.',
    },
  },
  origin: {
    502: {
      name: 'origin_bad_gateway',
      shortName: 'Bad gateway',
      retryAfterSeconds: 60,
      detail:
        'The edge reached the origin side of this site, but a gateway there got no usable answer from the server behind it. The fault lies with the origin.',
      guidance:
        'Wait as long as this error says and try again, leaving more time after each failure. If it keeps failing, tell the operator of the site and quote the Ray ID.',
      ownerGuidance:
        'Check that the application behind your load balancer or reverse proxy is running and healthy, and that its answers are complete HTTP messages. The log of that proxy at the time shown names the request.',
    },
    504: {
      name: 'origin_gateway_timeout',
      shortName: 'Gateway timeout',
      retryAfterSeconds: 120,
      detail:
        'The edge reached the origin side of this site, but a gateway there waited too long for the server behind it. The fault lies with the origin.',
      guidance:
        'Wait as long as this error says before trying again. The first request may still have taken effect, so check before repeating one that changes something.',
      ownerGuidance:
        'Find out what the application was waiting for, usually a database or another service. Shorten that work, or raise the time limits of your own proxies so that they agree with each other.',
    },
    520: {
      name: 'origin_invalid_response',
      shortName: 'Invalid response from the origin',
      retryAfterSeconds: 60,
      detail:
        'The origin server accepted the connection, but what came back was empty, malformed, too large in its headers, or cut off before a response began. The fault lies with the origin.',
      guidance:
        'Try again after the waiting time given with this error. If every attempt fails, the site itself needs repair: report the Ray ID and the time to its operator.',
      ownerGuidance:
        'Look for crashes and restarts of the web server at the time shown, for oversized cookies or headers in its responses, and for a firewall that resets connections from the edge. Then request the same page from the origin directly.',
    },
    521: {
      name: 'origin_down',
      shortName: 'Origin server is down',
      retryAfterSeconds: 120,
      detail:
        'The origin server of this site refused the connection from the edge: nothing listens at its address and port, or a firewall turns the edge away. The fault lies with the origin.',
      guidance:
        'Try again after the waiting time given with this error. Nothing was sent to the origin, so the request can be repeated safely.',
      ownerGuidance:
        'Make sure that the web server is running and listens on the port of the configured origin, and that no firewall on the way rejects the addresses of the edge.',
    },
    522: {
      name: 'connection_timeout',
      shortName: 'Connection timed out',
      retryAfterSeconds: 120,
      detail:
        'The edge tried to open a connection to the origin server of this site and got no answer in time. The fault lies with the origin or with the network in front of it.',
      guidance:
        'Try again after the waiting time given with this error, and wait longer after each failure. Nothing was sent to the origin, so the request can be repeated safely.',
      ownerGuidance:
        'Check that the origin is switched on, that the configured address is still its own, that packets from the edge are not silently dropped by a firewall, and that the server is not too busy to accept connections.',
    },
    523: {
      name: 'origin_unreachable',
      shortName: 'Origin is unreachable',
      retryAfterSeconds: 120,
      detail:
        'The network told the edge that there is no way to the address of the origin server of this site. The fault lies with the origin or with its network.',
      guidance:
        'Try again after the waiting time given with this error. Nothing was sent to the origin, so the request can be repeated safely.',
      ownerGuidance:
        'Check that the configured address is right and has a route: a changed address, a missing route or a network failure at the hosting company are the usual causes.',
    },
    524: {
      name: 'origin_response_timeout',
      shortName: 'Origin response timed out',
      retryAfterSeconds: 120,
      detail:
        'The edge delivered the request to the origin server of this site, but the origin did not begin to answer in time. The fault lies with the origin.',
      guidance:
        'The origin may still be working on the request, so check its effect before repeating one that changes something. Otherwise try again after the waiting time given with this error, and ask for less work at once if you can.',
      ownerGuidance:
        'Find the slow request in the log of the origin. Move long work into the background and let clients ask for its state, or begin the response early.',
    },
  },
  ssl: {
    525: {
      name: 'ssl_handshake_failed',
      shortName: 'TLS handshake with the origin failed',
      detail:
        'The edge connected to the origin server of this site, but the two could not agree on a TLS session. The TLS settings of the origin are at fault.',
      guidance:
        'Do not retry: the error stays until the operator of the site repairs the TLS settings of the origin. Tell the operator and quote the Ray ID.',
      ownerGuidance:
        'Check that the origin speaks TLS on the configured port, that it has a certificate for the name of the host, and that it shares a protocol version (TLS 1.2 or newer) and a cipher with the edge.',
    },
    526: {
      name: 'invalid_ssl_certificate',
      shortName: 'Invalid TLS certificate at the origin',
      detail:
        'The origin server of this site showed a certificate that the edge does not accept: it is expired, issued for another name, or not signed by a trusted authority. The origin is at fault.',
      guidance:
        'Do not retry: the error stays until the operator of the site installs a valid certificate at the origin. Tell the operator and quote the Ray ID.',
      ownerGuidance:
        'Install a certificate at the origin that is in date, names the host, and comes with its whole chain. Only where you accept the risk, set the TLS mode of the origin to full, which skips the check.',
    },
  },
} as const satisfies CatalogueRows;
