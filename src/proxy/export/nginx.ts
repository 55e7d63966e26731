// Writes the configuration of nginx 1.22 or later with its stream module (ngx_stream_core_module, ngx_stream_proxy_module).

import { hostPort } from '../../base/net/socket-address.ts';
import type { ForwardingPlan } from '../application/application.ts';
import {
  type CheckedPlan,
  cleanEnd,
  commented,
  type ExportSettings,
  eachPort,
  exporter,
  type Rendered,
  tooManyPorts,
} from './exported.ts';

/** A path that was checked has nothing that ends a quoted text or names a variable. */
const quoted = (path: string): string => `"${path}"`;

interface Section {
  /** As `listen` takes it: `443` or `1000-2000`. */
  readonly ports: string;
  /** What `proxy_pass` is given. */
  readonly target: string;
  /** Lines before the `server` block. */
  readonly before: readonly string[];
  /** Lines within it. */
  readonly within: readonly string[];
}

function upstream(name: string, places: readonly string[]): string[] {
  // Like Postern: an origin that failed is left alone for a while; the others are tried at once.
  const servers = places.map((place) => `        server ${place} max_fails=1 fail_timeout=10s;`);
  return [`    upstream ${name} {`, ...servers, '    }'];
}

type Origin<Kind extends ForwardingPlan['origin']['kind']> = ForwardingPlan['origin'] & { readonly kind: Kind };

function directSections(checked: CheckedPlan, { origins }: Origin<'direct'>): Section[] | undefined {
  const { plan, bound } = checked;
  const [sole] = origins;
  const isRange = bound.first !== bound.last;
  if (isRange && sole && origins.length === 1 && sole.ports.first === bound.first) {
    // nginx cannot add to a port: a range is one section only if the origin's ports equal the bound ones.
    const target = `${hostPort(sole.address, 0).slice(0, -1)}$server_port`;
    return [{ ports: `${bound.first}-${bound.last}`, target, before: [], within: [] }];
  }
  return eachPort(checked)?.map(({ port, step }) => {
    const name = isRange ? `origin_${plan.id}_${port}` : `origin_${plan.id}`;
    const places = origins.map(({ address, ports }) => hostPort(address, ports.first + step));
    return { ports: `${port}`, target: name, before: upstream(name, places), within: [] };
  });
}

/** A variable makes nginx look a name up again and again; a name in plain is looked up once, at start. */
function namedSections(checked: CheckedPlan, origin: Origin<'dns'>): Section[] | undefined {
  const { bound } = checked;
  const first = origin.ports?.first ?? 0;
  const section = (ports: string, port: string): Section => ({
    ports,
    target: '$origin',
    before: [],
    within: [`        set $origin "${origin.name}:${port}";`],
  });
  if (bound.first !== bound.last && first === bound.first) {
    return [section(`${bound.first}-${bound.last}`, '$server_port')];
  }
  return eachPort(checked)?.map(({ port, step }) => section(`${port}`, `${first + step}`));
}

function serverLines(checked: CheckedPlan, section: Section, settings: ExportSettings): string[] {
  const { plan, certificate } = checked;
  const { connectTimeoutMs, tcpIdleMs, udpIdleMs } = settings.limitsOf(plan);
  const isUdp = plan.transport === 'udp';
  // reuseport: all datagrams of a client go to the worker that has its session.
  const traits = isUdp ? ' udp reuseport' : certificate ? ' ssl' : '';
  const name = plan.origin.kind === 'dns' ? plan.origin.name : plan.name;
  const lines = plan.addresses.map((address) => {
    const place = hostPort(address, 0).slice(0, -1);
    return `listen ${place}${section.ports}${traits};`;
  });
  if (certificate)
    lines.push(`ssl_certificate ${quoted(certificate.chain)};`, `ssl_certificate_key ${quoted(certificate.key)};`);
  for (const network of plan.firewall.block) lines.push(`deny ${network};`);
  for (const network of plan.firewall.allow) lines.push(`allow ${network};`);
  if (plan.firewall.allow.length > 0) lines.push('deny all;');
  if (plan.origin.kind === 'dns') lines.push(resolverLine(plan.origin, settings));
  if (plan.sourceAddress !== undefined)
    lines.push(`proxy_bind ${plan.sourceAddress.includes(':') ? `[${plan.sourceAddress}]` : plan.sourceAddress};`);
  lines.push(`proxy_connect_timeout ${connectTimeoutMs}ms;`, `proxy_timeout ${isUdp ? udpIdleMs : tcpIdleMs}ms;`);
  if (!isUdp) lines.push('proxy_half_close on;');
  if (plan.proxyProtocol === 'v1') lines.push('proxy_protocol on;');
  if (plan.tls === 'full' || plan.tls === 'strict') {
    lines.push('proxy_ssl on;', 'proxy_ssl_server_name on;', `proxy_ssl_name ${name};`);
  }
  if (plan.tls === 'strict') {
    lines.push(
      'proxy_ssl_verify on;',
      'proxy_ssl_verify_depth 8;',
      `proxy_ssl_trusted_certificate ${quoted(settings.caFile)};`,
    );
  }
  const indented = lines.map((line) => `        ${line}`);
  return ['    server {', ...indented, ...section.within, `        proxy_pass ${section.target};`, '    }'];
}

function resolverLine({ type, ttlSeconds }: Origin<'dns'>, { nameservers }: ExportSettings): string {
  const servers = nameservers.map(({ address, port }) => hostPort(address, port)).join(' ');
  return `resolver ${servers} valid=${ttlSeconds}s${type === 'A' ? ' ipv6=off' : ''};`;
}

function refusal({ plan }: CheckedPlan, { nameservers }: ExportSettings): string | undefined {
  const isUdp = plan.transport === 'udp';
  if (plan.proxyProtocol === 'v2') return 'nginx cannot send version 2 of the PROXY protocol';
  if (isUdp && plan.proxyProtocol === 'simple') return 'nginx cannot send the simple header';
  if (isUdp && plan.proxyProtocol === 'v1') return 'nginx sends the PROXY header before the first datagram only';
  if (plan.origin.kind !== 'dns') return undefined;
  if (plan.origin.type === 'SRV') return 'nginx cannot look up SRV records';
  return nameservers.length === 0 ? 'its origin is a name, and no name server is known' : undefined;
}

function render(checked: CheckedPlan, settings: ExportSettings): Rendered<string[]> {
  const { plan } = checked;
  const why = refusal(checked, settings);
  if (why !== undefined) return { ok: false, why };
  const { origin } = plan;
  const sections = origin.kind === 'direct' ? directSections(checked, origin) : namedSections(checked, origin);
  if (!sections) return { ok: false, why: tooManyPorts };
  const notes: string[] = [];
  if (origin.kind === 'dns') notes.push('nginx does not keep the last good answer while the name server fails');
  if (origin.kind === 'dns' && origin.type === 'AAAA') notes.push('nginx uses A records of the name as well');
  const body = sections.flatMap((section) => [...section.before, ...serverLines(checked, section, settings)]);
  return { ok: true, body, notes };
}

/** Writes the plans for nginx: a whole configuration with a stream block and no other. */
export const exportNginx = exporter({
  title: 'nginx',
  notes: [cleanEnd('nginx')],
  render,
  write: (entries) => [
    '# The stream module, where it is one to load (Debian: libnginx-mod-stream).',
    'include /etc/nginx/modules-enabled/*.conf;',
    'worker_processes auto;',
    '',
    'events {',
    '    worker_connections 16384;',
    '}',
    '',
    'stream {',
    ...entries.flatMap(({ comments, body }) => [...commented(comments, '    '), ...(body ?? []), '']),
    '}',
  ],
});
