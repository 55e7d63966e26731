// From the stored applications and the configuration to what the data plane runs (D84).

import { errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import { type AddressTest, addressTest } from '../../base/net/socket-address.ts';
import type { DirectOrigin, ForwardingPlan, StoredApplication } from '../application/application.ts';
import { wildcardIp } from '../application/texts.ts';
import { type ProxyOwners, placesOf, type ZoneAndOwner } from '../application/zone.ts';
import { type ReadApplication, readApplication } from '../rules/read-application.ts';
import type { ApplicationMark, ApplicationStore } from '../store/application-store.ts';

/** D81. */
const defaultTtlSeconds = 1200;

type Origin = ForwardingPlan['origin'];

function originOf({ origins, originName, originType, originPorts, fields }: ReadApplication): Origin | undefined {
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

/** Makes the plan of a stored application. @throws Error where its fields cannot be read: the store was changed by other means */
export function planOf(stored: StoredApplication, from: ZoneAndOwner): ForwardingPlan {
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

/** Leaves the addresses that another machine serves. Every IPv6 address of a machine is its own. */
function ownPart(plan: ForwardingPlan, isServed: AddressTest | undefined): ForwardingPlan {
  const elsewhere = plan.addresses.filter((address) => address !== wildcardIp && isServed?.(address) === false);
  if (elsewhere.length === 0) return plan;
  return { ...plan, addresses: plan.addresses.filter((address) => !elsewhere.includes(address)), elsewhere };
}

/** What plans are made from. */
export interface PlanParts extends ProxyOwners {
  readonly store: Pick<ApplicationStore, 'marks' | 'get'>;
  /** Networks of the edge addresses that this machine serves; absent: it serves all. */
  readonly servedAddresses?: readonly string[] | undefined;
  readonly log: Logger;
}

/** Makes what reads every stored application whose zone is configured, the oldest first; the same plan again where nothing changed. */
export function storedPlans(parts: PlanParts): () => Promise<readonly ForwardingPlan[]> {
  const places = placesOf(parts);
  const isServed = parts.servedAddresses && addressTest(parts.servedAddresses);
  const told = new Set<string>();
  const tellOnce = (application: StoredApplication, why: string): void => {
    if (told.has(application.id)) return;
    told.add(application.id);
    parts.log.warn({ application: application.id, zone: application.zone, why }, 'a proxy application cannot run');
  };
  const plan = (application: StoredApplication): readonly ForwardingPlan[] => {
    const place = places.get(application.zone);
    if (!place) {
      tellOnce(application, 'its zone is not in the configuration');
      return [];
    }
    try {
      return [ownPart(planOf(application, place), isServed)];
    } catch (error) {
      // An application that another version of this program has written must not stop the others.
      tellOnce(application, errorMessage(error));
      return [];
    }
  };
  /** By id, the plans of an application in one of its states: one plan, or none where it cannot run. */
  type Known = Pick<ApplicationMark, 'createdAt' | 'modifiedAt'> & { readonly plans: readonly ForwardingPlan[] };
  const known = new Map<string, Known>();
  const refresh = async ({ id, zone, createdAt, modifiedAt }: ApplicationMark): Promise<void> => {
    const before = known.get(id);
    if (before?.createdAt === createdAt && before.modifiedAt === modifiedAt) return;
    const stored = await parts.store.get(zone, id);
    // The application may have been removed or changed since its mark was read.
    if (stored) known.set(id, { createdAt: stored.createdAt, modifiedAt: stored.modifiedAt, plans: plan(stored) });
    else known.delete(id);
  };
  return async (): Promise<readonly ForwardingPlan[]> => {
    const marks = await parts.store.marks();
    for (const mark of marks) await refresh(mark);
    if (known.size > marks.length) {
      const present = new Set(marks.map(({ id }) => id));
      for (const id of known.keys()) if (!present.has(id)) known.delete(id);
    }
    return marks.flatMap(({ id }) => known.get(id)?.plans ?? []);
  };
}
