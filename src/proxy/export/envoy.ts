// Writes the bootstrap of Envoy, version 3 of its API, as YAML: static listeners and clusters, no administration port.

import { stringify } from 'yaml';
import { hostPort } from '../../base/net/socket-address.ts';
import type { ForwardingPlan } from '../application/application.ts';
import { collect, commented, finish, headComments } from './compose-export.ts';
import { cidr, cluster, duration, extension, socketAddress, type Value } from './envoy-cluster.ts';
import {
  type CheckedPlan,
  type Exported,
  type ExportSettings,
  eachPort,
  limitsFor,
  type Rendered,
  tooManyPorts,
} from './exported.ts';

const yamlStyle = {
  aliasDuplicateObjects: false,
  lineWidth: 0,
  defaultStringType: 'QUOTE_DOUBLE',
  defaultKeyType: 'PLAIN',
} as const;

interface Parts {
  readonly listeners: readonly Value[];
  readonly clusters: readonly Value[];
}

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

function tcpListener(
  checked: CheckedPlan,
  place: { readonly address: string; readonly port: number; readonly to: string },
  settings: ExportSettings,
): Value {
  const { plan } = checked;
  const proxy = extension('filters.network.tcp_proxy', 'extensions.filters.network.tcp_proxy.v3.TcpProxy', {
    stat_prefix: `edge_${plan.id}`,
    cluster: place.to,
    idle_timeout: duration(limitsFor(plan, settings).tcpIdleMs),
    // Postern tries another origin where one refuses.
    max_connect_attempts: 3,
  });
  return {
    name: `edge_${plan.id}_${hostPort(place.address, place.port)}`,
    address: socketAddress(place.address, place.port, 'TCP'),
    filter_chains: [{ filters: [...firewallFilters(plan), proxy], ...downstreamTls(checked) }],
  };
}

function udpListener(
  { plan }: CheckedPlan,
  place: { readonly address: string; readonly port: number; readonly to: string },
  settings: ExportSettings,
): Value {
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
        idle_timeout: duration(limitsFor(plan, settings).udpIdleMs),
      }),
    ],
  };
}

/** What Envoy cannot do at all. */
function refusal({ plan }: CheckedPlan): string | undefined {
  const isUdp = plan.transport === 'udp';
  if (plan.origin.kind === 'dns' && plan.origin.type === 'SRV') return 'Envoy cannot look up SRV records';
  if (isUdp && plan.proxyProtocol === 'simple') return 'Envoy cannot send the simple header';
  if (isUdp && plan.proxyProtocol !== 'off') return 'Envoy sends no PROXY header before datagrams';
  const hasLists = plan.firewall.block.length + plan.firewall.allow.length > 0;
  return isUdp && hasLists ? 'Envoy has no address lists for UDP' : undefined;
}

function render(checked: CheckedPlan, settings: ExportSettings): Rendered<Parts> {
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
export function exportEnvoy(plans: readonly ForwardingPlan[], settings: ExportSettings): Exported {
  const { entries, gaps } = collect(plans, settings, (checked) => render(checked, settings));
  const parts = entries.flatMap(({ body }) => (body ? [body] : []));
  const static_resources = {
    listeners: parts.flatMap(({ listeners }) => listeners),
    clusters: parts.flatMap(({ clusters }) => clusters),
  };
  const lines = [
    ...commented(headComments('Envoy', gaps)),
    ...entries.flatMap(({ comments }) => ['#', ...commented(comments)]),
    // Quoted, no anchors, no folded lines: what is written is what is read, by any reader of YAML 1.1 or 1.2.
    stringify({ static_resources }, yamlStyle).trimEnd(),
  ];
  return finish(lines, gaps);
}
