/**
 * The networks that the Internet cannot reach: loopback, private (RFC 1918, RFC 4193), link-local (RFC 3927, RFC 4291) and shared
 * addresses (RFC 6598).
 */
export const privateNetworks: readonly string[] = [
  ...['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '169.254.0.0/16', '100.64.0.0/10'],
  ...['::1/128', 'fc00::/7', 'fe80::/10'],
];
