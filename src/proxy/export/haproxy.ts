// Writes the configuration of HAProxy 2.6 or later (configuration.txt of HAProxy, sections 4, 5 and 7).

import type { ForwardingPlan } from '../application/application.ts';
import { readLimits } from '../plane/data-plane-parts.ts';
import { type CheckedPlan, cleanEnd, commented, type ExportSettings, exporter, type Rendered } from './exported.ts';

/** A line of HAProxy has at most 64 words. */
const networksPerLine = 40;
/** Addresses of one name that are used at a time. */
const mostOfName = 16;
const fewAddresses = `HAProxy uses ${mostOfName} addresses of a name at a time, Postern 64`;

/** HAProxy reads `"` quotes with `\`, `"` and `$` escaped; nothing of these is in a path that was checked. */
const quoted = (path: string): string => `"${path}"`;

function listenLines({ plan, bound, certificate }: CheckedPlan): string[] {
  const ports = bound.first === bound.last ? `${bound.first}` : `${bound.first}-${bound.last}`;
  const tls = certificate ? ` ssl crt ${quoted(`${certificate.folder}/haproxy.pem`)}` : '';
  return plan.addresses.map((address) => {
    // HAProxy splits at the last colon, so that IPv6 needs no brackets; `::` is IPv6 only, as in Postern.
    return `    bind ${address}:${ports}${address === '::' ? ' v6only' : ''}${tls}`;
  });
}

function aclLines(name: string, networks: readonly string[]): string[] {
  const lines: string[] = [];
  for (let at = 0; at < networks.length; at += networksPerLine) {
    lines.push(`    acl ${name} src ${networks.slice(at, at + networksPerLine).join(' ')}`);
  }
  return lines;
}

function firewallLines({ firewall }: ForwardingPlan): string[] {
  const { block, allow } = firewall;
  return [
    ...aclLines('is_blocked', block),
    ...(block.length > 0 ? ['    tcp-request connection reject if is_blocked'] : []),
    ...aclLines('is_allowed', allow),
    ...(allow.length > 0 ? ['    tcp-request connection reject unless is_allowed'] : []),
  ];
}

/** The words behind every server: source, header, TLS, health. `name` is for SNI and the certificate. */
function serverOptions({ plan }: CheckedPlan, name: string, settings: ExportSettings): string {
  const words: string[] = [];
  if (plan.sourceAddress !== undefined) words.push(`source ${plan.sourceAddress}`);
  if (plan.proxyProtocol === 'v1') words.push('send-proxy');
  if (plan.proxyProtocol === 'v2') words.push('send-proxy-v2');
  if (plan.tls === 'full') words.push(`ssl sni str(${name}) verify none`);
  if (plan.tls === 'strict') {
    words.push(`ssl sni str(${name}) verify required verifyhost ${name} ca-file ${quoted(settings.caFile)}`);
  }
  words.push('check inter 5s fall 1 rise 1');
  return words.join(' ');
}

/** HAProxy takes a port with a sign as an offset from the port that the client connected to. */
function originPort({ plan, bound }: CheckedPlan, first: number): string {
  if (plan.ports.first === plan.ports.last) return `${first}`;
  const step = first - bound.first;
  return `${step < 0 ? '-' : '+'}${Math.abs(step)}`;
}

function serverLines(checked: CheckedPlan, settings: ExportSettings): Rendered<string[]> {
  const { plan } = checked;
  const { origin } = plan;
  const isRange = plan.ports.first !== plan.ports.last;
  const checkPort = (first: number): string => (isRange ? ` port ${first}` : '');
  const notes = isRange ? ["health is checked on the first port of each origin's range only"] : [];
  if (origin.kind === 'direct') {
    const lines = origin.origins.map(({ address, ports }, index) => {
      const place = `${address}:${originPort(checked, ports.first)}`;
      return `    server origin${index + 1} ${place} ${serverOptions(checked, plan.name, settings)}${checkPort(ports.first)}`;
    });
    return { ok: true, body: lines, notes };
  }
  if (settings.nameservers.length === 0) return { ok: false, why: 'its origin is a name, and no name server is known' };
  const words = `${serverOptions(checked, origin.name, settings)} resolvers ttl_${origin.ttlSeconds} init-addr none`;
  if (origin.type === 'SRV') {
    // By its first character HAProxy tells whether to ask for SRV.
    if (!origin.name.startsWith('_')) {
      return { ok: false, why: 'HAProxy asks for SRV only where the name begins with an underscore' };
    }
    if (plan.tls === 'full' || plan.tls === 'strict') {
      return { ok: false, why: 'HAProxy cannot take the name for TLS from the target of an SRV record' };
    }
    const priority = 'HAProxy uses the weights of SRV records, but not their priorities';
    const line = `    server-template origin 1-${mostOfName} ${origin.name} ${words}`;
    return { ok: true, body: [line], notes: [priority, fewAddresses] };
  }
  const first = origin.ports?.first ?? 0;
  const prefer = origin.type === 'AAAA' ? ' resolve-prefer ipv6' : origin.type === 'A' ? ' resolve-prefer ipv4' : '';
  const place = `${origin.name}:${originPort(checked, first)}`;
  const line = `    server-template origin 1-${mostOfName} ${place} ${words}${prefer}${checkPort(first)}`;
  const other = `HAProxy prefers ${origin.type} records, but uses the other family where there are none`;
  return { ok: true, body: [line], notes: [...notes, ...(origin.type === '' ? [] : [other]), fewAddresses] };
}

/** The times of the section of defaults. */
const usual = readLimits({}).limitsOf({ id: '', transport: 'tcp' });

/** The times in which an application differs from the section of defaults. */
function ownTimeouts(plan: ForwardingPlan, settings: ExportSettings) {
  const own = settings.limitsOf(plan);
  const line = (name: string, limit: 'connectTimeoutMs' | 'tcpIdleMs'): string[] =>
    own[limit] === usual[limit] ? [] : [`    timeout ${name} ${own[limit]}ms`];
  return {
    frontend: line('client', 'tcpIdleMs'),
    backend: [...line('connect', 'connectTimeoutMs'), ...line('server', 'tcpIdleMs')],
  };
}

function render(checked: CheckedPlan, settings: ExportSettings): Rendered<string[]> {
  const { plan, certificate } = checked;
  if (plan.transport === 'udp') return { ok: false, why: 'HAProxy does not forward UDP' };
  const servers = serverLines(checked, settings);
  if (!servers.ok) return servers;
  const notes = [...servers.notes];
  if (certificate) {
    const { folder, chain, key } = certificate;
    // awk ends the last line of each file, where it has no end of its own.
    const command = `(umask 077; awk 1 ${quoted(chain)} ${quoted(key)} > ${quoted(`${folder}/haproxy.pem`)})`;
    notes.push(`HAProxy reads certificate and key from one file; make it with: ${command}`);
  }
  const body = [
    `frontend edge_${plan.id}`,
    ...listenLines(checked),
    ...ownTimeouts(plan, settings).frontend,
    ...firewallLines(plan),
    `    default_backend origin_${plan.id}`,
    `backend origin_${plan.id}`,
    '    balance roundrobin',
    ...ownTimeouts(plan, settings).backend,
    ...servers.body,
  ];
  return { ok: true, body, notes };
}

/** One section of name servers for each time to live: it is where HAProxy keeps it. */
function resolverLines(plans: readonly CheckedPlan[], settings: ExportSettings): string[] {
  const ttls = new Set(plans.flatMap(({ plan }) => (plan.origin.kind === 'dns' ? [plan.origin.ttlSeconds] : [])));
  return [...ttls].flatMap((ttl) => [
    '',
    `resolvers ttl_${ttl}`,
    ...settings.nameservers.map(({ address, port }, index) => `    nameserver ns${index + 1} ${address}:${port}`),
    '    accepted_payload_size 4096',
    `    hold valid ${ttl}s`,
    // While name servers fail the last answer stays in use, as in Postern.
    ...['timeout', 'refused', 'other'].map((kind) => `    hold ${kind} 24h`),
    '    hold nx 5s',
  ]);
}

/** Writes the plans for HAProxy; UDP is left out, since HAProxy does not forward it. */
export const exportHaproxy = exporter({
  title: 'HAProxy',
  notes: [cleanEnd('HAProxy')],
  render,
  write(entries, settings) {
    const { connectTimeoutMs, tcpIdleMs } = usual;
    const checked = entries.flatMap((entry) => (entry.body ? [entry.checked] : []));
    return [
      'global',
      '    log stderr format raw daemon notice',
      '',
      'defaults',
      '    mode tcp',
      '    log global',
      `    timeout connect ${connectTimeoutMs}ms`,
      `    timeout client ${tcpIdleMs}ms`,
      `    timeout server ${tcpIdleMs}ms`,
      // Another server is tried at once where one refuses.
      '    retries 3',
      '    option redispatch 1',
      ...resolverLines(checked, settings),
      ...entries.flatMap(({ comments, body }) => ['', ...commented(comments), ...(body ?? [])]),
    ];
  },
});
