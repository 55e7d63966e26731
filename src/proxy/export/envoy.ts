// Writes the bootstrap of Envoy, version 3 of its API, as YAML: static listeners and clusters, no administration port.

import { isIPv4 } from 'node:net';
import { stringify } from 'yaml';
import { hostPort } from '../../base/net/socket-address.ts';
import type { ForwardingPlan } from '../application/application.ts';
import {
  type CheckedPlan,
  commented,
  type ExportSettings,
  eachPort,
  exporter,
  type Rendered,
  tooManyPorts,
} from './exported.ts';

/** A value of the configuration, as JSON or YAML holds it. */
type Value = string | number | boolean | readonly Value[] | { readonly [key: string]: Value };

const typeUrl = (name: string): string => `type.googleapis.com/envoy.${name}`;

/** An extension with its configuration; `name` is without `envoy.`, `type` as in its package. */
function extension(name: string, type: string, fields: { readonly [key: string]: Value } = {}): Value {
  return { name: `envoy.${name}`, typed_config: { '@type': typeUrl(type), ...fields } };
}

/** Milliseconds as a duration of protobuf's JSON. */
function duration(ms: number): string {
  return `${ms / 1000}s`;
}

function socketAddress(address: string, port: number, protocol?: 'TCP' | 'UDP'): Value {
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

function cluster(checked: CheckedPlan, name: string, step: number, settings: ExportSettings): Value {
  const { plan } = checked;
  const sni = plan.origin.kind === 'dns' ? plan.origin.name : plan.name;
  const transport_socket = transportSocket(checked, sni, settings);
  const source = plan.sourceAddress;
  return {
    name,
    connect_timeout: duration(settings.limitsOf(checked.plan).connectTimeoutMs),
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
function cidr(network: string): Value {
  const [address = '', bits] = network.split('/');
  return { address_prefix: address, prefix_len: bits === undefined ? (isIPv4(address) ? 32 : 128) : Number(bits) };
}

const yamlStyle = {
  aliasDuplicateObjects: false,
  lineWidth: 0,
  defaultStringType: 'QUOTE_DOUBLE',
  defaultKeyType: 'PLAIN',
} as const;

/** Access by address: the block list first, then the allow list. */
function firewallFilters({ firewall, id }: ForwardingPlan): Value[] {
  const rbac = (suffix: string, action: 'ALLOW' | 'DENY', networks: readonly string[]): Value =>
    extension('filters.network.rbac', 'extensions.filters.network.rbac.v3.RBAC', {
      stat_prefix: `edge_${id}_${suffix}`,
      rules: {
        action,
        policies: {
          [suffix]: {
            permissions: [{ any: true }],
            principals: networks.map((network) => ({ direct_remote_ip: cidr(network) })),
          },
        },
      },
    });
  return [
    ...(firewall.block.length > 0 ? [rbac('block', 'DENY', firewall.block)] : []),
    ...(firewall.allow.length > 0 ? [rbac('allow', 'ALLOW', firewall.allow)] : []),
  ];
}

function downstreamTls({ certificate }: CheckedPlan): { readonly transport_socket?: Value } {
  if (!certificate) return {};
  const pair = { certificate_chain: { filename: certificate.chain }, private_key: { filename: certificate.key } };
  const type = 'extensions.transport_sockets.tls.v3.DownstreamTlsContext';
  const fields = { common_tls_context: { tls_certificates: [pair] } };
  return { transport_socket: extension('transport_sockets.tls', type, fields) };
}

interface Place {
  readonly address: string;
  readonly port: number;
  readonly to: string;
}

function tcpListener(checked: CheckedPlan, place: Place, settings: ExportSettings): Value {
  const { plan } = checked;
  const proxy = extension('filters.network.tcp_proxy', 'extensions.filters.network.tcp_proxy.v3.TcpProxy', {
    stat_prefix: `edge_${plan.id}`,
    cluster: place.to,
    idle_timeout: duration(settings.limitsOf(plan).tcpIdleMs),
    // Postern tries another origin where one refuses.
    max_connect_attempts: 3,
  });
  return {
    name: `edge_${plan.id}_${hostPort(place.address, place.port)}`,
    address: socketAddress(place.address, place.port, 'TCP'),
    filter_chains: [{ filters: [...firewallFilters(plan), proxy], ...downstreamTls(checked) }],
  };
}

function udpListener({ plan }: CheckedPlan, place: Place, settings: ExportSettings): Value {
  const route = extension('filters.udp_listener.udp_proxy.route', 'extensions.filters.udp.udp_proxy.v3.Route', {
    cluster: place.to,
  });
  return {
    name: `edge_${plan.id}_${hostPort(place.address, place.port)}`,
    address: socketAddress(place.address, place.port, 'UDP'),
    udp_listener_config: {},
    listener_filters: [
      extension('filters.udp_listener.udp_proxy', 'extensions.filters.udp.udp_proxy.v3.UdpProxyConfig', {
        stat_prefix: `edge_${plan.id}`,
        matcher: { on_no_match: { action: route } },
        idle_timeout: duration(settings.limitsOf(plan).udpIdleMs),
      }),
    ],
  };
}

function refusal({ plan }: CheckedPlan): string | undefined {
  const isUdp = plan.transport === 'udp';
  if (plan.origin.kind === 'dns' && plan.origin.type === 'SRV') return 'Envoy cannot look up SRV records';
  if (isUdp && plan.proxyProtocol === 'simple') return 'Envoy cannot send the simple header';
  if (isUdp && plan.proxyProtocol !== 'off') return 'Envoy sends no PROXY header before datagrams';
  const hasLists = plan.firewall.block.length + plan.firewall.allow.length > 0;
  return isUdp && hasLists ? 'Envoy has no address lists for UDP' : undefined;
}

function render(
  checked: CheckedPlan,
  settings: ExportSettings,
): Rendered<Readonly<Record<'listeners' | 'clusters', readonly Value[]>>> {
  const { plan } = checked;
  const why = refusal(checked);
  if (why !== undefined) return { ok: false, why };
  const ports = eachPort(checked);
  if (!ports) return { ok: false, why: tooManyPorts };
  const clusterName = (port: number): string => (ports.length > 1 ? `origin_${plan.id}_${port}` : `origin_${plan.id}`);
  const listener = plan.transport === 'tcp' ? tcpListener : udpListener;
  const listeners = plan.addresses.flatMap((address) =>
    ports.map(({ port }) => listener(checked, { address, port, to: clusterName(port) }, settings)),
  );
  const clusters = ports.map(({ port, step }) => cluster(checked, clusterName(port), step, settings));
  return { ok: true, body: { listeners, clusters }, notes: [] };
}

/** Writes the plans for Envoy. What is left out and what is to note stands in comments at the top. */
export const exportEnvoy = exporter({
  title: 'Envoy',
  notes: [],
  render,
  write(entries) {
    const parts = entries.flatMap(({ body }) => (body ? [body] : []));
    const static_resources = {
      listeners: parts.flatMap(({ listeners }) => listeners),
      clusters: parts.flatMap(({ clusters }) => clusters),
    };
    return [
      ...entries.flatMap(({ comments }) => ['#', ...commented(comments)]),
      // Quoted, no anchors, no folded lines: what is written is what is read, by any reader of YAML 1.1 or 1.2.
      stringify({ static_resources }, yamlStyle).trimEnd(),
    ];
  },
});
