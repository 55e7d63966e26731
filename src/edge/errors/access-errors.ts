// The access_denied rows of the catalogue: whom the rules of a site turn away (D63).

import type { CatalogueRows } from './categories.ts';

/** The rows, by category and code. */
export const accessErrors = {
  access_denied: {
    1003: [
      'direct_ip_access',
      'Direct IP access not allowed',
      'The request names an IP address of the edge instead of a hostname, so the edge cannot tell which site is wanted. The address in the URL is the cause, not an origin server.',
      'Send the request to the hostname of the site, and put that hostname into the Host header.',
      'Publish links and API addresses with your hostname. Monitoring that connects to an edge address must send the hostname as Host and, with TLS, as SNI.',
    ],
    1005: [
      'network_banned',
      'Access denied: network banned',
      'The operator of this site blocks every address of the network (autonomous system) that the request came from. The edge applied that rule; the origin did not see the request.',
      'Do not retry from the same network. If you need access, ask the operator of the site to admit your network and quote the Ray ID.',
      'Look the Ray ID up to see the address, and find the rule that blocks its autonomous system. Admit single addresses before such a rule where partners share the network with abusers.',
    ],
    1006: [
      'ip_banned',
      'Access denied: address banned',
      'The operator of this site has put the IP address that the request came from on a block list. The edge applied that list; the origin did not see the request.',
      'Do not retry from the same address. If you think that the block is a mistake, ask the operator of the site to remove it and quote the Ray ID.',
      'The block list of the zone holds the address or a network around it. Remove that entry to admit the client; make networks in the list as narrow as you can.',
    ],
    1007: [
      'ip_banned_for_abuse',
      'Access denied: address banned for abuse',
      'The protection of this site has banned the IP address after requests from it that looked like an attack. The edge applied the ban; the origin did not see the request.',
      'Stop automated requests from this address. If you did not send any, somebody who shares your address may have: ask the operator of the site to lift the ban and quote the Ray ID.',
      'Read what the address did before the ban. Lift the ban where the traffic was yours or a partner at work, and exempt such clients from automatic bans.',
    ],
    1008: [
      'ip_banned_by_reputation',
      'Access denied: address of bad reputation',
      'This site turns away addresses with a bad reputation, and the IP address that the request came from is one of them. The edge applied the list; the origin did not see the request.',
      'Check the devices in your network for malware, and leave open proxies. If your use is legitimate, ask the operator of the site to admit your address and quote the Ray ID.',
      'Reputation lists also hit shared and reassigned addresses. Put the client on the allow list of the zone, or lower the threshold, if you know the client.',
    ],
    1009: [
      'country_banned',
      'Access denied: country or region banned',
      'The operator of this site does not admit requests from the country or region that the IP address belongs to. The edge applied that rule; the origin did not see the request.',
      'Do not retry from the same place. If your address is attributed to the wrong country, or you need access, write to the operator of the site and quote the Ray ID.',
      'Check the rules of the zone that name countries. Where the location of an address is wrong, admit the address itself before those rules.',
    ],
    1010: [
      'client_signature_banned',
      'Access denied: client signature banned',
      'The request looks like that of a program which the operator of this site does not admit, judged by its headers and the way it connects. The edge applied that rule.',
      'Use a current browser without add-ons that change its headers. A program should send an honest User-Agent; ask the operator of the site to admit it, and quote the Ray ID.',
      'Find out which client this is by its User-Agent and Ray ID. If it is an integration that you want, exempt its path or its token from the check of client signatures.',
    ],
    1011: [
      'hotlinking_denied',
      'Access denied: hotlinking',
      'Another page embeds this file directly, and the operator of this site does not let other sites do that. The Referer header of the request is what the edge judged.',
      'Open the page of the site that shows the file. To use the file on a page of your own, ask the operator of the site, or host a copy that you are permitted to make.',
      'If the embedding page is yours or a partner, add its hostname to the sites that may embed your files. Privacy tools can also strip or change the Referer header.',
    ],
    1012: [
      'malicious_activity',
      'Access denied: malicious activity',
      'Malicious traffic was seen from the computer or network that the request came from, and this site does not admit it. The edge applied that rule; the origin did not see the request.',
      'Scan your devices for malware, secure your router, and try again once they are clean. If the error stays, write to the operator of the site and quote the Ray ID.',
      'The zone refuses clients with known malicious activity. Admit the address by name if you are sure of the client.',
    ],
    1020: [
      'access_rule_denied',
      'Access denied by a rule of the site',
      'The access rules that the operator of this site has set do not admit this request. The edge applied them; the origin did not see the request.',
      'Do not retry unchanged. If you should have access, write to the operator of the site and quote the Ray ID; an allow list may have to be extended by your address.',
      'Look the Ray ID up to see which rule decided. A zone with an allow list admits nobody else: add the address or network of the client there.',
    ],
    1034: [
      'edge_ip_restricted',
      'Edge address restricted',
      'The request came in at an address of the edge that is reserved for other sites, so the edge refuses to serve this hostname there. The DNS records of the site, or of the client, are wrong.',
      'Remove any fixed entry for the hostname from your hosts file or resolver, let cached DNS answers expire, and try again. If the error stays, tell the operator of the site.',
      'Point the DNS record of the hostname at the addresses that were assigned to this site, and remove hand-written records with addresses of other sites.',
    ],
    1106: [
      'account_ip_banned',
      'Access denied: address banned by the account',
      'The owner of this site has banned the IP address for all sites of the account. The edge applied that ban; the origin did not see the request.',
      'Do not retry from the same address, nor at another site of the same owner. Ask the operator of the site to lift the ban and quote the Ray ID.',
      'The entry stands in the list of the account, not of the zone: look there to remove or narrow it.',
    ],
    1107: [
      'account_network_banned',
      'Access denied: network banned by the account',
      'The owner of this site has banned the network (autonomous system) of the address for all sites of the account. The edge applied that ban; the origin did not see the request.',
      'Use another network, or ask the operator of the site to admit your address, and quote the Ray ID.',
      'The rule belongs to the account and covers every zone. Exempt single addresses, or move the rule to the zones that need it.',
    ],
    1108: [
      'account_country_banned',
      'Access denied: country banned by the account',
      'The owner of this site does not admit requests from the country or region of the address at any site of the account. The edge applied that rule; the origin did not see the request.',
      'Do not retry from the same place. If your address is attributed to the wrong country, tell the operator of the site and quote the Ray ID.',
      'The rule belongs to the account and covers every zone. Admit the address itself, or move the rule to the zones that need it.',
    ],
    1109: [
      'account_rule_denied',
      'Access denied by a rule of the account',
      'An access rule that the owner of this site has set for all sites of the account does not admit this request. The edge applied it; the origin did not see the request.',
      'Do not retry unchanged. Ask the operator of the site for access and quote the Ray ID.',
      'Look the Ray ID up to see which rule of the account decided, and add an exception for the client or the path.',
    ],
  },
} as const satisfies CatalogueRows;
