// What the data plane runs of a stored application: every default filled in, every text read (D81, D84).

import type { DirectOrigin, ForwardingPlan, StoredApplication } from '../application/application.ts';
import type { ProxyAccount, ProxyZone } from '../application/zone.ts';
import { type ReadApplication, readApplication } from '../rules/read-application.ts';

/** D81. */
const defaultTtlSeconds = 1200;

function originOf({
  origins,
  originName,
  originType,
  originPorts,
  fields,
}: ReadApplication): ForwardingPlan['origin'] | undefined {
  if (originName === undefined || originType === undefined) {
    const direct = origins.map(({ address, ports }): DirectOrigin => ({ address, ports }));
    return direct.length > 0 ? { kind: 'direct', origins: direct } : undefined;
  }
  const ttlSeconds = fields.origin_dns?.ttl ?? defaultTtlSeconds;
  const dns = { kind: 'dns', name: originName, type: originType, ttlSeconds } as const;
  // SRV: the record names the port (RFC 2782); one given beside it is not used.
  if (originType === 'SRV') return dns;
  return originPorts && { ...dns, ports: originPorts };
}

/**
 * Makes the plan of an application.
 * @param stored one that was judged (`judgeWrite`) before it was stored
 * @param from its zone and account as they are configured now
 * @throws Error where its fields cannot be read: the store was changed by other means
 */
export function planOf(
  stored: StoredApplication,
  from: { readonly zone: ProxyZone; readonly account: ProxyAccount },
): ForwardingPlan {
  const read = readApplication({ ...stored.fields });
  const { protocol, hostname, fields } = read;
  const origin = originOf(read);
  if (!protocol || hostname === undefined || !origin) {
    throw new Error(`Application ${stored.id} of zone ${stored.zone} is stored with fields that cannot be read`);
  }
  const networkId = fields.virtual_network_id?.toLowerCase();
  const network = from.account.virtualNetworks.find(({ id }) => id.toLowerCase() === networkId);
  // Its addresses are the network's: without it they would be whoever's the machine itself reaches there.
  const isLost = networkId !== undefined && !network;
  const hasFirewall = fields.ip_firewall === true;
  return {
    id: stored.id,
    zone: stored.zone,
    account: stored.account,
    name: hostname,
    transport: protocol.transport,
    ports: protocol.ports,
    addresses: stored.addresses,
    origin,
    proxyProtocol: fields.proxy_protocol ?? 'off',
    tls: fields.tls ?? 'off',
    firewall: hasFirewall ? { block: from.zone.block ?? [], allow: from.zone.allow ?? [] } : { block: [], allow: [] },
    ...(network?.sourceAddress === undefined ? {} : { sourceAddress: network.sourceAddress }),
    ...(isLost ? { obstacle: `virtual network ${JSON.stringify(networkId)} is not in the configuration` } : {}),
  };
}
