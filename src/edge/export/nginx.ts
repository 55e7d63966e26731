// Writes the zones for nginx 1.22 or later: a file for its http block (on Debian /etc/nginx/conf.d).

import { addressText, type EdgeExportSettings, type EdgeFormatWriter, type ExportedZone } from './export-edge.ts';

const forwardedFields = [
  'proxy_http_version 1.1;',
  'proxy_set_header Host $http_host;',
  'proxy_set_header X-Forwarded-For $remote_addr;',
  'proxy_set_header X-Forwarded-Proto $scheme;',
  'proxy_set_header X-Forwarded-Host $http_host;',
];

/** What nginx knows of a failure: whether there was a connection, and whether time ran out. Without a failure the field is absent. */
const shared = ({ postern }: EdgeExportSettings): string[] => [
  'map $http_upgrade $postern_connection { default upgrade; "" ""; }',
  'map "$upstream_status $upstream_connect_time" $postern_failure {',
  '    default "";',
  '    "~504 (.*, )?-$" 522;',
  '    "~504 .*[0-9]$" 524;',
  '    "~502 (.*, )?-$" connect;',
  '    "~502 .*[0-9]$" 520;',
  '}',
  'upstream postern_failures {',
  `    server ${addressText(postern)};`,
  '    keepalive 16;',
  '}',
];

function originLines(zone: ExportedZone, { edge, caFile }: EdgeExportSettings): string[] {
  const { target, block, allow } = zone;
  // Without an origin every request is for Postern, which answers 1004.
  if (!target) return ['return 502;'];
  const { secure, strict, prefix } = target;
  const uri = prefix === '' ? '' : `${prefix}$request_uri`;
  return [
    ...block.map((network) => `deny ${network};`),
    ...allow.map((network) => `allow ${network};`),
    ...(allow.length > 0 ? ['deny all;'] : []),
    `proxy_pass ${secure ? 'https' : 'http'}://postern_origin_${zone.id}${uri};`,
    ...forwardedFields,
    'proxy_set_header Upgrade $http_upgrade;',
    'proxy_set_header Connection $postern_connection;',
    `proxy_connect_timeout ${edge.connectTimeoutSeconds}s;`,
    `proxy_send_timeout ${edge.responseTimeoutSeconds}s;`,
    `proxy_read_timeout ${edge.responseTimeoutSeconds}s;`,
    ...(secure ? ['proxy_ssl_server_name on;', 'proxy_ssl_name $host;'] : []),
    ...(secure && strict
      ? ['proxy_ssl_verify on;', 'proxy_ssl_verify_depth 8;', `proxy_ssl_trusted_certificate ${caFile};`]
      : []),
  ];
}

const indented = (lines: readonly string[]): string[] => lines.map((line) => `        ${line}`);

/** A server block for names that share a certificate, or that have none. */
function server(zone: ExportedZone, names: readonly string[], settings: EdgeExportSettings, folder?: string): string[] {
  const place = folder === undefined ? settings.listen : (settings.tlsListen ?? settings.listen);
  return [
    'server {',
    `    listen ${addressText(place)}${folder === undefined ? '' : ' ssl'};`,
    '    client_max_body_size 0;',
    `    server_name ${names.join(' ')};`,
    ...(folder === undefined
      ? []
      : [`    ssl_certificate ${folder}/fullchain.pem;`, `    ssl_certificate_key ${folder}/privkey.pem;`]),
    '    location / {',
    '        # Clients that the lists of the zone refuse (403) are for Postern, too.',
    '        error_page 403 502 504 = @postern;',
    ...indented(originLines(zone, settings)),
    '    }',
    '    location /cdn-cgi/ {',
    '        error_page 418 = @postern;',
    '        return 418;',
    '    }',
    '    location @postern {',
    '        proxy_pass http://postern_failures;',
    ...indented(forwardedFields),
    '        proxy_set_header Connection "";',
    '        proxy_set_header X-Forwarded-Failure $postern_failure;',
    '        proxy_pass_request_body off;',
    '        proxy_set_header Content-Length "";',
    '    }',
    '}',
  ];
}

function zoneLines(zone: ExportedZone, settings: EdgeExportSettings): string[] {
  const { target, certificates, hostnames } = zone;
  const byFolder = Map.groupBy(certificates, ([, folder]) => folder);
  return [
    '',
    `# Zone ${zone.name}`,
    ...(target
      ? [
          `upstream postern_origin_${zone.id} {`,
          `    server ${addressText(target)} max_fails=0;`,
          '    keepalive 64;',
          '}',
        ]
      : []),
    ...server(zone, hostnames, settings),
    ...[...byFolder].flatMap(([folder, pairs]) => {
      const names = pairs.map(([name]) => name);
      return server(zone, names, settings, folder);
    }),
  ];
}

/** nginx. */
export const nginxEdge: EdgeFormatWriter = {
  notes: ['nginx looks the names of origins up at its start alone, and does not start where one is unknown'],
  write: (zones, settings) => [...shared(settings), ...zones.flatMap((zone) => zoneLines(zone, settings))],
};
