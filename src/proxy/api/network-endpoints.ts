// /accounts/{account_id}/networks: virtual networks and their routes (D88), to which the errors 11044 and 11045 refer.

import { createHash } from 'node:crypto';
import ipaddr from 'ipaddr.js';
import { Type } from 'typebox';
import { endpoint, endpointsOf } from '../../web/http/endpoint.ts';
import { refusal, succeed } from '../../web/http/envelope.ts';
import type { V4Plugin } from '../../web/http/v4-app.ts';
import type { ProxyAccount, VirtualNetwork } from '../application/zone.ts';
import { pageInfo, pageQuery, readPage } from './application-schema.ts';

const { Optional } = Type;

const network = Type.Object(
  {
    id: Type.String({ format: 'uuid', description: 'For `virtual_network_id` of an application' }),
    name: Type.String(),
  },
  { title: 'VirtualNetwork' },
);

const route = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    network: Type.String({ description: 'CIDR', example: '10.0.0.0/24' }),
    virtual_network_id: Type.String({ format: 'uuid' }),
    virtual_network_name: Type.String(),
  },
  { title: 'NetworkRoute' },
);

const networkQuery = Type.Object(
  { ...pageQuery, name: Optional(Type.String({ want: 'a name', description: 'Only the network of this name' })) },
  { additionalProperties: false },
);

const cidr = (description: string) =>
  Optional(
    Type.String({
      pattern: '^[0-9A-Fa-f:.]{2,45}(?:/[0-9]{1,3})?$',
      want: 'an IP address or a network, such as 10.0.0.0/24',
      description,
    }),
  );

const routeQuery = Type.Object(
  {
    ...pageQuery,
    virtual_network_id: Optional(Type.String({ want: 'an id', description: 'Only routes of this network' })),
    network_subset: cidr('Only routes within this network'),
    network_superset: cidr('Only routes that hold this address or network'),
  },
  { additionalProperties: false },
);

/** A UUIDv8 (RFC 9562 §5.8) of a text: the same text has the same one. */
function uuidOf(text: string): string {
  const octets = createHash('sha256').update(text).digest().subarray(0, 16);
  octets[6] = 0x80 | ((octets[6] ?? 0) & 0x0f);
  octets[8] = 0x80 | ((octets[8] ?? 0) & 0x3f);
  const hex = octets.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

type Network = readonly [ipaddr.IPv4 | ipaddr.IPv6, number];

function readNetwork(text: string): Network | undefined {
  const [address = '', prefix] = text.split('/');
  if (!ipaddr.IPv4.isValidFourPartDecimal(address) && !ipaddr.IPv6.isValid(address)) return undefined;
  const parsed = ipaddr.parse(address);
  const widest = parsed.kind() === 'ipv4' ? 32 : 128;
  const bits = Number(prefix ?? widest);
  return bits <= widest ? [parsed, bits] : undefined;
}

function contains([outer, outerBits]: Network, [inner, innerBits]: Network): boolean {
  return outer.kind() === inner.kind() && outerBits <= innerBits && inner.match(outer, outerBits);
}

/** Whether a network is within one that is asked for, and holds another one. */
function fits(cidr: string, within: Network | undefined, containing: Network | undefined): boolean {
  const read = within || containing ? readNetwork(cidr) : undefined;
  if (!read) return !within && !containing;
  return (!within || contains(within, read)) && (!containing || contains(read, containing));
}

function queried(text: string | undefined, name: string): Network | undefined {
  if (text === undefined) return undefined;
  const read = readNetwork(text);
  if (read) return read;
  const message = `Query parameter ${name} must be an IP address or a network, such as 10.0.0.0/24`;
  throw refusal('E_VALIDATION_ERROR', message);
}

function shownRoute({ network: { id, name }, cidr }: { readonly network: VirtualNetwork; readonly cidr: string }) {
  return { id: uuidOf(`${id} ${cidr}`), network: cidr, virtual_network_id: id, virtual_network_name: name };
}

/** Answers with a page of a list that is all there. */
function answerPage(
  reply: Parameters<typeof succeed>[0],
  query: Parameters<typeof readPage>[0],
  all: readonly object[],
) {
  const { page, perPage } = readPage(query);
  const shown = all.slice((page - 1) * perPage, page * perPage);
  return succeed(reply, shown, { result_info: pageInfo({ page, perPage }, shown.length, all.length) });
}

type Networks = ReadonlyMap<string, ProxyAccount['virtualNetworks']>;

const listNetworks = endpoint({
  at: 'GET /virtual_networks',
  operationId: 'listVirtualNetworks',
  summary: 'List the virtual networks of an account',
  query: networkQuery,
  result: Type.Array(network),
  answer({ account, query, reply }, networks: Networks) {
    const all = (networks.get(account.id) ?? [])
      .filter(({ name }) => query.name === undefined || name === query.name)
      .map(({ id, name }) => ({ id, name }));
    return answerPage(reply, query, all);
  },
});

const listRoutes = endpoint({
  at: 'GET /routes',
  operationId: 'listVirtualNetworkRoutes',
  summary: 'List the routes of an account’s virtual networks',
  query: routeQuery,
  result: Type.Array(route),
  answer({ account, query, reply }, networks: Networks) {
    const { virtual_network_id: id, network_subset: subset, network_superset: superset } = query;
    const within = queried(subset, 'network_subset');
    const containing = queried(superset, 'network_superset');
    const all = (networks.get(account.id) ?? [])
      .filter((network) => id === undefined || network.id.toLowerCase() === id.toLowerCase())
      .flatMap((network) => network.routes.map((cidr) => ({ network, cidr })))
      .filter(({ cidr }) => fits(cidr, within, containing));
    return answerPage(reply, query, all.map(shownRoute));
  },
});

/** The endpoints of the virtual networks of all accounts. */
export function networkEndpoints({ accounts }: { readonly accounts: readonly ProxyAccount[] }): V4Plugin {
  const networks = new Map(accounts.map(({ id, virtualNetworks }) => [id, virtualNetworks]));
  const place = { path: '/accounts/:account_id/networks', tag: 'Virtual networks' };
  return endpointsOf({ ...place, reads: ['proxy:read', 'console:read'] }, networks, [listNetworks, listRoutes]);
}
