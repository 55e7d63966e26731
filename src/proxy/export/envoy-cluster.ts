// The clusters of an Envoy configuration: where connections go, and what is put before them (envoy.config.cluster.v3).

import { isIPv4 } from 'node:net';
import { type CheckedPlan, type ExportSettings, limitsFor } from './exported.ts';

/** A value of the configuration, as JSON or YAML holds it. */
export type Value = string | number | boolean | readonly Value[] | { readonly [key: string]: Value };

const typeUrl = (name: string): string => `type.googleapis.com/envoy.${name}`;

/** An extension with its configuration; `name` is without `envoy.`, `type` as in its package. */
export function extension(name: string, type: string, fields: { readonly [key: string]: Value } = {}): Value {
  return { name: `envoy.${name}`, typed_config: { '@type': typeUrl(type), ...fields } };
}

/** Milliseconds as a duration of protobuf's JSON. */
export function duration(ms: number): string {
  return `${ms / 1000}s`;
}

export function socketAddress(address: string, port: number, protocol?: 'TCP' | 'UDP'): Value {
  return { socket_address: { ...(protocol && { protocol }), address, port_value: port } };
}

function endpoints(name: string, places: readonly { readonly address: string; readonly port: number }[]): Value {
  const lb_endpoints = places.map(({ address, port }) => ({ endpoint: { address: socketAddress(address, port) } }));
  return { cluster_name: name, endpoints: [{ lb_endpoints }] };
}

/** TLS with the origin: `full` checks nothing, `strict` name and authority. */
function upstreamTls({ plan }: CheckedPlan, sni: string, { caFile }: ExportSettings): Value | undefined {
  if (plan.tls !== 'full' && plan.tls !== 'strict') return undefined;
  const validation_context = {
    trusted_ca: { filename: caFile },
    match_typed_subject_alt_names: [{ san_type: 'DNS', matcher: { exact: sni } }],
  };
  return extension('transport_sockets.tls', 'extensions.transport_sockets.tls.v3.UpstreamTlsContext', {
    sni,
    ...(plan.tls === 'strict' ? { common_tls_context: { validation_context } } : {}),
  });
}

function transportSocket(checked: CheckedPlan, sni: string, settings: ExportSettings): Value | undefined {
  const { proxyProtocol, transport } = checked.plan;
  const tls = upstreamTls(checked, sni, settings);
  if (transport === 'udp' || (proxyProtocol !== 'v1' && proxyProtocol !== 'v2')) return tls;
  const raw = extension('transport_sockets.raw_buffer', 'extensions.transport_sockets.raw_buffer.v3.RawBuffer');
  const type = 'extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport';
  return extension('transport_sockets.upstream_proxy_protocol', type, {
    config: { version: proxyProtocol.toUpperCase() },
    transport_socket: tls ?? raw,
  });
}

const families = { A: 'V4_ONLY', AAAA: 'V6_ONLY', '': 'ALL' } as const;

/** How its origins are found, for the edge port so many steps from the first. */
function discovery({ plan }: CheckedPlan, name: string, step: number): { readonly [key: string]: Value } {
  const { origin } = plan;
  if (origin.kind === 'direct') {
    const places = origin.origins.map(({ address, ports }) => ({ address, port: ports.first + step }));
    return { type: 'STATIC', load_assignment: endpoints(name, places) };
  }
  const type = origin.type === 'SRV' ? '' : origin.type;
  return {
    type: 'STRICT_DNS',
    dns_lookup_family: families[type],
    dns_refresh_rate: `${origin.ttlSeconds}s`,
    respect_dns_ttl: false,
    load_assignment: endpoints(name, [{ address: origin.name, port: (origin.ports?.first ?? 0) + step }]),
  };
}

/** The name servers that clusters with names ask. */
function dnsResolver({ nameservers }: ExportSettings): { readonly [key: string]: Value } {
  if (nameservers.length === 0) return {};
  const type = 'extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig';
  const resolvers = nameservers.map(({ address, port }) => socketAddress(address, port));
  return { typed_dns_resolver_config: extension('network.dns_resolver.cares', type, { resolvers }) };
}

/** One cluster: the origins of one edge port. */
export function cluster(checked: CheckedPlan, name: string, step: number, settings: ExportSettings): Value {
  const { plan } = checked;
  const sni = plan.origin.kind === 'dns' ? plan.origin.name : plan.name;
  const transport_socket = transportSocket(checked, sni, settings);
  const source = plan.sourceAddress;
  return {
    name,
    connect_timeout: duration(limitsFor(checked.plan, settings).connectTimeoutMs),
    lb_policy: 'ROUND_ROBIN',
    ...discovery(checked, name, step),
    ...(plan.origin.kind === 'dns' ? dnsResolver(settings) : {}),
    // Like Postern: one that fails is left alone for 1 s, longer each time, 30 s at most; all of them may be.
    outlier_detection: {
      split_external_local_origin_errors: true,
      consecutive_local_origin_failure: 1,
      base_ejection_time: '1s',
      max_ejection_time: '30s',
      max_ejection_percent: 100,
    },
    ...(source === undefined ? {} : { upstream_bind_config: { source_address: { address: source, port_value: 0 } } }),
    ...(transport_socket === undefined ? {} : { transport_socket }),
  };
}

/** A network as Envoy writes it. */
export function cidr(network: string): Value {
  const [address = '', bits] = network.split('/');
  return { address_prefix: address, prefix_len: bits === undefined ? (isIPv4(address) ? 32 : 128) : Number(bits) };
}
