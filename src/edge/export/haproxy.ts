// Writes the zones for HAProxy 2.6 or later. It has no rule for an origin that fails, so Postern is the second server of each.

import { addressText, type EdgeExportSettings, type EdgeFormatWriter, type ExportedZone } from './export-edge.ts';

const shared = ({ edge }: EdgeExportSettings): string[] => [
  'defaults',
  '    mode http',
  '    timeout http-request 20s',
  '    timeout http-keep-alive 30s',
  '    timeout client 300s',
  `    timeout connect ${edge.connectTimeoutSeconds}s`,
  `    timeout server ${edge.responseTimeoutSeconds}s`,
  '    timeout tunnel 600s',
  '    http-reuse safe',
  '    retries 1',
  '    option redispatch 1',
  '',
];

/** The first condition that a request meets says where it goes. */
function routes(zone: ExportedZone): string[] {
  const { id, hostnames, block, allow } = zone;
  // Lines of so many names as HAProxy surely takes; several lines of one name are one condition.
  const names = Array.from({ length: Math.ceil(hostnames.length / 16) }, (_, at) =>
    hostnames.slice(16 * at, 16 * at + 16),
  );
  const networks = (name: string, list: readonly string[]): string[] =>
    list.map((one) => `    acl ${name}_${id} src ${one}`);
  const toPostern = (condition: string): string => `    use_backend postern if of_${id} ${condition}`;
  return [
    '',
    `    # Zone ${zone.name}`,
    ...names.map((some) => `    acl of_${id} req.hdr(host),field(1,:) -i ${some.join(' ')}`),
    ...networks('blocked', block),
    ...networks('allowed', allow),
    ...(block.length > 0 ? [toPostern(`blocked_${id}`)] : []),
    ...(allow.length > 0 ? [toPostern(`!allowed_${id}`)] : []),
    ...(zone.target ? [`    use_backend zone_${id} if of_${id}`] : []),
  ];
}

function frontend(zones: readonly ExportedZone[], { listen, tlsListen }: EdgeExportSettings): string[] {
  const files = new Set(zones.flatMap(({ certificates }) => [...certificates.values()]));
  const certificates = [...files].map((folder) => ` crt ${folder}/haproxy.pem`).join('');
  return [
    'frontend postern_edge',
    `    bind ${addressText(listen)}`,
    ...(tlsListen && certificates !== ''
      ? [`    bind ${addressText(tlsListen)} ssl${certificates} alpn http/1.1`]
      : []),
    '    http-request set-header X-Forwarded-For %[src]',
    '    http-request set-header X-Forwarded-Proto https if { ssl_fc }',
    '    http-request set-header X-Forwarded-Proto http unless { ssl_fc }',
    '    http-request set-header X-Forwarded-Host %[req.hdr(host)]',
    '    http-request del-header X-Forwarded-Failure',
    '    use_backend postern if { path_beg /cdn-cgi/ }',
    ...zones.flatMap(routes),
    '    default_backend postern',
  ];
}

function backend(zone: ExportedZone, { postern, caFile }: EdgeExportSettings): string[] {
  const { id, target } = zone;
  if (!target) return [];
  const verified = target.strict ? `verify required ca-file ${caFile}` : 'verify none';
  // A certificate of another name is the one failure after which HAProxy tries no other server. The check sees it beforehand.
  const check = target.strict ? ` check check-sni ${zone.hostnames[0]} inter 2s fall 1 rise 1` : '';
  const tls = target.secure ? ` ssl ${verified} sni req.hdr(host),field(1,:)${check}` : '';
  return [
    '',
    `backend zone_${id}`,
    // Always the first server, unless the request has just failed there.
    '    balance first',
    '    retry-on conn-failure empty-response junk-response response-timeout',
    '    http-request set-header X-Forwarded-Failure since=%[date(0,ms)]',
    `    server origin ${addressText(target)} id 1 init-addr libc,none${tls}`,
    `    server postern ${addressText(postern)} id 2`,
  ];
}

/** HAProxy. */
export const haproxyEdge: EdgeFormatWriter = {
  notes: [
    'HAProxy looks the names of origins up at its start alone',
    'HAProxy answers 502 or 504 itself where an origin fails after the connection and the request is larger than tune.bufsize (16 KiB)',
    'origins get a field X-Forwarded-Failure with each request, since HAProxy writes it before it knows of a failure',
  ],
  obstacle: ({ target }) =>
    target && target.prefix !== ''
      ? 'its origin has a path, which HAProxy would put before the path that Postern gets as well'
      : undefined,
  notesOf: ({ certificates }) =>
    [...new Set(certificates.values())].map((folder) => {
      const [chain, key, both] = ['fullchain', 'privkey', 'haproxy'].map((name) => `'${folder}/${name}.pem'`);
      // awk ends the last line of each file, where it has no end of its own.
      return `HAProxy reads certificate and key from one file; make it with: (umask 077; awk 1 ${chain} ${key} > ${both})`;
    }),
  write: (zones, settings) => [
    ...shared(settings),
    ...frontend(zones, settings),
    ...zones.flatMap((zone) => backend(zone, settings)),
    '',
    'backend postern',
    `    server postern ${addressText(settings.postern)}`,
  ],
};
