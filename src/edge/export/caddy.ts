// Writes the zones for Caddy 2.6 or later: a whole Caddyfile.

import { addressText, type EdgeExportSettings, type EdgeFormatWriter, type ExportedZone } from './export-edge.ts';

/** What Caddy's own words for a failure of its `reverse_proxy` mean; the first that fits counts. */
const failures: readonly (readonly [string, string])[] = [
  ['(?i)awaiting response headers', '524'],
  ['(?i)x509|certificate', '526'],
  ['(?i)no such host|server misbehaving', '1016'],
  ['(?i)connection refused', '521'],
  ['(?i)no route to host|network is unreachable', '523'],
  ['(?i)handshake|tls:', '525'],
  ['(?i)^dial .*timeout', '522'],
  ['(?i)^dial ', 'connect'],
];

const transport = ({ target }: ExportedZone, { edge, caFile }: EdgeExportSettings): string[] => [
  'transport http {',
  `    dial_timeout ${edge.connectTimeoutSeconds}s`,
  `    response_header_timeout ${edge.responseTimeoutSeconds}s`,
  ...(target?.secure ? ['    tls', '    tls_server_name {http.request.host}'] : []),
  ...(target?.secure ? [target.strict ? `    tls_trusted_ca_certs ${caFile}` : '    tls_insecure_skip_verify'] : []),
  '}',
];

/** Everything of a zone but where it listens. */
function snippet(zone: ExportedZone, settings: EdgeExportSettings): string[] {
  const { id, target, block, allow } = zone;
  const postern = addressText(settings.postern);
  const toPostern = (matcher: string, lines: readonly string[]): string[] => [
    `    @${matcher} {`,
    ...lines.map((line) => `        ${line}`),
    '    }',
    `    handle @${matcher} {`,
    `        reverse_proxy ${postern} {`,
    '            header_up -X-Forwarded-Failure',
    '        }',
    '    }',
  ];
  const origin = target && [
    `reverse_proxy ${target.secure ? 'https' : 'http'}://${addressText(target)} {`,
    ...(target.prefix === '' ? [] : [`    rewrite ${target.prefix}{uri}`]),
    '    header_up Host {http.request.hostport}',
    ...transport(zone, settings).map((line) => `    ${line}`),
    '}',
  ];
  return [
    '',
    `# Zone ${zone.name}`,
    `(zone_${id}) {`,
    ...toPostern('edge', ['path /cdn-cgi/*']),
    ...(block.length > 0 ? toPostern('blocked', [`remote_ip ${block.join(' ')}`]) : []),
    ...(allow.length > 0 ? toPostern('strange', [`not remote_ip ${allow.join(' ')}`]) : []),
    '    handle {',
    ...(origin ?? [`reverse_proxy ${postern}`]).map((line) => `        ${line}`),
    '    }',
    '    handle_errors {',
    '        map {http.error.message} {postern_failure} {',
    ...failures.map(([pattern, code]) => `            "~${pattern}" ${code}`),
    '            default 520',
    '        }',
    `        reverse_proxy ${postern} {`,
    // The body has been read for the origin, and cannot be sent again.
    '            method GET',
    '            header_up X-Forwarded-Failure "{postern_failure} {http.request.orig_method}"',
    '        }',
    '    }',
    '}',
  ];
}

function sites(zone: ExportedZone, { listen, tlsListen }: EdgeExportSettings): string[] {
  const { id, hostnames, certificates } = zone;
  const site = (
    scheme: string,
    { names, host, port }: { names: readonly string[]; host: string; port: number },
    tls?: string,
  ) => [
    `${names.map((name) => `${scheme}://${name}:${port}`).join(', ')} {`,
    `    bind ${host}`,
    ...(tls === undefined ? [] : [`    tls ${tls}/fullchain.pem ${tls}/privkey.pem`]),
    `    import zone_${id}`,
    '}',
  ];
  const byFolder = Map.groupBy(certificates, ([, folder]) => folder);
  return [
    ...site('http', { names: hostnames, ...listen }),
    ...[...byFolder].flatMap(([folder, names]) =>
      tlsListen ? site('https', { names: names.map(([name]) => name), ...tlsListen }, folder) : [],
    ),
  ];
}

/** Caddy. */
export const caddyEdge: EdgeFormatWriter = {
  notes: [],
  write: (zones, settings) => [
    '{',
    '    auto_https off',
    '    admin off',
    '}',
    ...zones.flatMap((zone) => [...snippet(zone, settings), ...sites(zone, settings)]),
  ],
};
