// The rows of the catalogue about how a site is set up: its DNS records and its configuration at the edge (D63).

import type { CatalogueRows } from './categories.ts';

/** The rows, by category and code. */
export const configurationErrors = {
  config: {
    1000: [
      'dns_points_to_prohibited_ip',
      'DNS points to a prohibited address',
      'The DNS record that should lead to the origin server of this site leads to an address of the edge itself, so the request would run in a circle. The DNS settings of the site are at fault.',
      'Do not retry: only the operator of the site can correct its DNS records. Tell the operator.',
      'Enter the address of your own web server as the origin, not one of the edge. Also look for a second proxy in front of the origin that sends requests back here.',
    ],
    1002: [
      'dns_points_to_restricted_ip',
      'DNS points to a restricted address',
      'The DNS record that should lead to the origin server of this site leads to a reserved or private address that the edge does not connect to. The DNS settings of the site are at fault.',
      'Do not retry: only the operator of the site can correct its DNS records. Tell the operator.',
      'Replace loopback, private and other reserved addresses in the record by the public address of the origin, or reach a private origin through a tunnel.',
    ],
    1004: [
      'host_not_configured',
      'DNS resolution error',
      'The hostname leads to this edge, but no origin server is configured for it here. The configuration of the site is missing or not yet active; the operator of the site is responsible.',
      'Check the spelling of the hostname. If it is right, the site may just be being set up: try again after the waiting time given with this error, then tell its operator.',
      'Add the hostname to a zone and give that zone an origin, or point the DNS record of the hostname elsewhere. A change needs some minutes to take effect.',
      { retryAfterSeconds: 120 },
    ],
    1013: [
      'host_sni_mismatch',
      'Host and TLS server name differ',
      'The TLS connection was opened for one hostname (SNI), but the Host header of the request names another one. The client, or a proxy in front of it, reuses a connection for the wrong site.',
      'Open a new connection whose TLS server name equals the hostname in the URL and in the Host header. A program that sets one of the two by hand must set both alike.',
      'Check proxies, load balancers and monitoring of your own that rewrite the Host header and leave the SNI as it was. Both must carry the same name.',
      { status: 421 },
    ],
    1014: [
      'cname_cross_account',
      'CNAME across accounts not allowed',
      'This hostname is a CNAME to a site of another account, and that account has not permitted it. The DNS settings of the site are at fault.',
      'Do not retry: only the operator of the site can correct its DNS records. Tell the operator.',
      'Point the record at a hostname of your own account, or have the other account register your hostname before you point a CNAME there.',
    ],
    1018: [
      'zone_not_active',
      'Site is not active',
      'The edge knows the domain of this hostname, but the site is not active here: it was just added, suspended, or is moving between accounts. The operator of the site is responsible.',
      'The site may be ready in some minutes. If the error stays, tell the operator of the site.',
      'Complete the activation of the zone and check that its domain is delegated to the right name servers and belongs to a single account.',
    ],
    1023: [
      'host_not_found',
      'Host not found',
      'The edge serves the domain of this site, but this hostname is not, or no longer, one of those set up for it. The operator of the site is responsible.',
      'Check the spelling of the hostname and any old bookmark or link. If it is right, tell the operator.',
      'Add the hostname to the hostnames of the zone, or remove the DNS record that still leads visitors here.',
    ],
    1033: [
      'tunnel_error',
      'Tunnel error',
      'This site is reached through a tunnel, and no connector of that tunnel is connected to the edge now. The operator of the site is responsible for the connector.',
      'Try again after the waiting time given with this error: connectors reconnect by themselves after a short failure. If the error stays, tell the operator of the site.',
      'Check that the connector of the tunnel runs, that its credentials are valid, that its outgoing connections are not blocked, and that the hostname names the right tunnel.',
      { status: 530, retryAfterSeconds: 120 },
    ],
    1038: [
      'request_headers_too_large',
      'HTTP headers limit exceeded',
      'The headers of the request are larger than the edge accepts. The client sent too many headers, or ones that are too long, often cookies; the origin did not see the request.',
      'Delete the cookies of this site, shorten the URL and send fewer or smaller headers. Wait as long as this error says before trying again.',
      'Keep cookies small and few, bind them to the paths that need them, and keep session data on the server instead of in a cookie or token.',
      { status: 431, ownerAction: false, retryAfterSeconds: 60 },
    ],
    1043: [
      'origin_override_not_allowed',
      'Origin override not allowed',
      'A rule of this site sends the request to another origin than the configured one, and the site may not use that origin. The rules of the site are at fault.',
      'Do not retry: only the operator of the site can correct the rule. Tell the operator.',
      'Change the rule so that it names an origin inside a zone of your account, or have the owner of that origin permit it.',
    ],
    1047: [
      'origin_port_not_allowed',
      'Origin port not allowed',
      'The origin of this site is configured with a port that the edge does not connect to. The configuration of the site is at fault.',
      'Do not retry: only the operator of the site can correct the configuration. Tell the operator.',
      'Let the origin listen on a port that the edge supports, and set that port in the zone. Protocols other than HTTP belong to a proxy application.',
    ],
    1049: [
      'hostname_not_verified',
      'Hostname not verified',
      'This hostname was added to a site, but nobody has proved yet that the domain belongs to its owner, so the edge does not serve it. The operator of the site is responsible.',
      'The site is not ready yet. If the error stays, tell its operator that the hostname is not verified.',
      'Publish the verification record of the hostname in DNS and wait until it has been seen. Records that were removed later make the hostname unverified again.',
    ],
  },
  dns: {
    1001: [
      'dns_resolution_error',
      'DNS resolution error',
      'The edge asked DNS for this hostname and got no usable answer: the name does not exist in the zone, or its servers do not answer. The DNS settings of the site are at fault.',
      'Check the spelling of the hostname. If it is right, tell the operator of the site; a new name may need some minutes until it is known everywhere.',
      'Check that the record exists, that the zone is delegated to the right name servers, and that a DNSSEC signature, if there is one, is valid.',
    ],
    1016: [
      'origin_dns_error',
      'Origin DNS error',
      'The edge could not resolve the name of the origin server of this site to an address. The DNS records of the origin are at fault, or missing.',
      'Do not retry in quick succession: the error stays until the operator of the site repairs the DNS record of the origin. Tell the operator and quote the Ray ID.',
      'Resolve the name in the origin setting yourself. Correct a misspelt or deleted name, add its A or AAAA record, and check that its name servers answer.',
    ],
  },
} as const satisfies CatalogueRows;
