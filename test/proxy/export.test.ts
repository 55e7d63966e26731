// The exports to other proxies: what each format says of each feature, what it cannot say, and that no value is a directive.

import { expect, test } from 'vitest';
import { parse } from 'yaml';
import type { ForwardingPlan } from '../../src/proxy/application/application.ts';
import { exporters } from '../../src/proxy/export/export-plans.ts';
import { type ExportFormat, type ExportSettings, exportFormats } from '../../src/proxy/export/exported.ts';
import { readLimits } from '../../src/proxy/plane/data-plane-parts.ts';
import { everyFeature, exportPlan, exportSettings } from '../support/export-plans.ts';
import fc, { anyCharacter } from '../support/properties.ts';

const id = (number: number): string => number.toString(16).padStart(32, '0');

/** The lines of one application without its title, comments and white space at their beginning. */
function linesOf(format: ExportFormat, plan: ForwardingPlan, settings: Partial<ExportSettings> = {}): string[] {
  const { text } = exporters[format]([plan], exportSettings(settings));
  const lines = text.split('\n').map((line) => line.trim());
  return lines
    .slice(lines.findIndex((line) => line.startsWith('# Application')))
    .filter((line) => line !== '' && !line.startsWith('#'));
}

function gapsOf(format: ExportFormat): string[] {
  const { gaps } = exporters[format](everyFeature, exportSettings());
  return gaps.flatMap(({ application, leftOut, text }) =>
    application === undefined ? [] : [`${Number.parseInt(application, 16)}${leftOut ? ' OUT' : ''} ${text}`],
  );
}

const simpleOnTcp = 'the simple header is for UDP: nothing is sent before TCP';
const rangeCheck = "health is checked on the first port of each origin's range only";
const crt = (number: number): string => {
  const folder = `/etc/postern/certs/tls/app${number}.example.com`;
  const command = `(umask 077; awk 1 "${folder}/fullchain.pem" "${folder}/privkey.pem" > "${folder}/haproxy.pem")`;
  return `HAProxy reads certificate and key from one file; make it with: ${command}`;
};
const prefers = (type: string) => `HAProxy prefers ${type} records, but uses the other family where there are none`;
const few = 'HAProxy uses 16 addresses of a name at a time, Postern 64';
const tooMany = /^40 OUT its ports differ from the origin's, .* 256 are the most$/;

test('HAProxy: what is noted and what is left out', () => {
  expect(gapsOf('haproxy')).toEqual([
    `5 ${rangeCheck}`,
    `6 ${rangeCheck}`,
    `9 ${simpleOnTcp}`,
    `14 ${few}`,
    `15 ${prefers('A')}`,
    `15 ${few}`,
    `16 ${prefers('AAAA')}`,
    `16 ${few}`,
    '17 HAProxy uses the weights of SRV records, but not their priorities',
    `17 ${few}`,
    '18 OUT HAProxy asks for SRV only where the name begins with an underscore',
    `19 ${rangeCheck}`,
    `19 ${few}`,
    `20 ${crt(20)}`,
    `21 ${crt(21)}`,
    `22 ${prefers('A')}`,
    `22 ${few}`,
    `22 ${crt(22)}`,
    '23 OUT HAProxy cannot take the name for TLS from the target of an SRV record',
    ...[30, 31, 32, 33, 34, 35, 36].map((number) => `${number} OUT HAProxy does not forward UDP`),
    `40 ${rangeCheck}`,
  ]);
});

test('nginx: what is noted and what is left out', () => {
  const stale = 'nginx does not keep the last good answer while the name server fails';
  const gaps = gapsOf('nginx');
  expect(gaps.pop()).toMatch(tooMany);
  expect(gaps).toEqual([
    '8 OUT nginx cannot send version 2 of the PROXY protocol',
    `9 ${simpleOnTcp}`,
    `14 ${stale}`,
    `15 ${stale}`,
    `16 ${stale}`,
    '16 nginx uses A records of the name as well',
    '17 OUT nginx cannot look up SRV records',
    '18 OUT nginx cannot look up SRV records',
    `19 ${stale}`,
    `22 ${stale}`,
    '23 OUT nginx cannot look up SRV records',
    '33 OUT nginx cannot send the simple header',
    '34 OUT nginx cannot send version 2 of the PROXY protocol',
    '36 tls: full has no meaning for UDP',
    `36 ${stale}`,
  ]);
});

test('Envoy: what is noted and what is left out', () => {
  const gaps = gapsOf('envoy');
  expect(gaps.pop()).toMatch(tooMany);
  expect(gaps).toEqual([
    `9 ${simpleOnTcp}`,
    '17 OUT Envoy cannot look up SRV records',
    '18 OUT Envoy cannot look up SRV records',
    '23 OUT Envoy cannot look up SRV records',
    '33 OUT Envoy cannot send the simple header',
    '34 OUT Envoy sends no PROXY header before datagrams',
    '35 OUT Envoy has no address lists for UDP',
    '36 tls: full has no meaning for UDP',
  ]);
});

test.each(exportFormats)('%s: every gap stands in the text too, and every application has its comment', (format) => {
  const { text, gaps } = exporters[format](everyFeature, exportSettings({ withoutPlan: ['f'.repeat(32)] }));
  const lines = text.split('\n').map((line) => line.trim());
  for (const { application, leftOut, text } of gaps) {
    const prefix = application === 'f'.repeat(32) ? `Application ${application}: ` : '';
    expect(lines).toContain(`# ${prefix}${leftOut ? 'NOT EXPORTED' : 'Note'}: ${text}`);
  }
  const titles = lines.filter((line) => line.startsWith('# Application 0'));
  expect(titles.map((line) => line.split(' ')[2])).toEqual(everyFeature.map(({ id }) => `${id}:`));
  expect(gaps).toContainEqual({
    application: 'f'.repeat(32),
    leftOut: true,
    text: 'its zone is not in the configuration, or its fields cannot be read',
  });
});

test('a PROXY header names the bound port, which is noted where that is not the edge’s', () => {
  const told = (portOffset: number, proxyProtocol: ForwardingPlan['proxyProtocol']) =>
    exporters['haproxy']([exportPlan(1, { proxyProtocol })], exportSettings({ portOffset })).gaps.map(
      ({ text }) => text,
    );
  const note = 'the PROXY header names the port that is bound; Postern names it without the offset of 2000';
  expect(told(2000, 'v1')).toContain(note);
  expect(told(2000, 'v2')).toContain(note);
  expect(told(2000, 'off').join()).not.toContain('PROXY header');
  expect(told(0, 'v2').join()).not.toContain('PROXY header');
});

test.each([
  ['haproxy', ['timeout client 7000ms', 'timeout server 7000ms', 'timeout connect 3000ms']],
  ['nginx', ['proxy_timeout 7000ms;', 'proxy_connect_timeout 3000ms;']],
  ['envoy', ['idle_timeout: "7s"', 'connect_timeout: "3s"']],
] as const)('%s: the times of one application are its own', (format, lines) => {
  const own = exportPlan(1);
  const changed = { tcpIdleMs: 7000, connectTimeoutMs: 3000 };
  const limitsOf = (plan: ForwardingPlan) => ({
    ...readLimits({}).limitsOf(plan),
    ...(plan.id === own.id ? changed : {}),
  });
  const text = (plan: ForwardingPlan) => exporters[format]([plan], exportSettings({ limitsOf })).text;
  for (const line of lines) {
    expect(text(own)).toContain(line);
    expect(text(exportPlan(2))).not.toContain(line);
  }
});

test.each(exportFormats)(
  '%s: what concerns all is told once, and what only names concern only with names',
  (format) => {
    const general = (plans: readonly ForwardingPlan[], settings: Partial<ExportSettings>) =>
      exporters[format](plans, exportSettings(settings)).gaps.map(({ text }) => text.split(' ')[0]);
    const originDeny = ['169.254.0.0/16'];
    const plain = exportPlan(1);
    const named = everyFeature[13] ?? plain;
    expect(general([plain], { originDeny })).toEqual(['limits', 'Postern', ...(format === 'envoy' ? [] : ['an'])]);
    expect(general([named], { originDeny })).toContain('proxy.originDeny');
    const notes = exporters[format]([named], exportSettings({ zonesWithRecords: ['test'] })).gaps;
    expect(notes.map(({ text }) => text)).toContain(
      'Postern answers origin.test from the records of test in its configuration; here DNS is asked',
    );
  },
);

test('HAProxy: a plain application, several origins, several addresses', () => {
  expect(linesOf('haproxy', exportPlan(1))).toEqual([
    `frontend edge_${id(1)}`,
    'bind 127.0.0.1:1001',
    `default_backend origin_${id(1)}`,
    `backend origin_${id(1)}`,
    'balance roundrobin',
    'server origin1 127.0.0.2:22 check inter 5s fall 1 rise 1',
  ]);
  const many = everyFeature[1] ?? exportPlan(0);
  expect(linesOf('haproxy', { ...many, addresses: ['127.0.0.1', '::1', '::'] })).toEqual(
    expect.arrayContaining([
      'bind 127.0.0.1:1002',
      'bind ::1:1002',
      'bind :::1002 v6only',
      'server origin2 ::1:2222 check inter 5s fall 1 rise 1',
      'server origin3 192.0.2.9:1 check inter 5s fall 1 rise 1',
    ]),
  );
});

test('HAProxy: a range goes to the origin in step with the bound port', () => {
  const plan = exportPlan(6, {
    ports: { first: 3100, last: 3103 },
    origin: {
      kind: 'direct',
      origins: [
        { address: '127.0.0.2', ports: { first: 4100, last: 4103 } },
        { address: '::1', ports: { first: 50, last: 53 } },
      ],
    },
  });
  expect(linesOf('haproxy', plan, { portOffset: 2000 })).toEqual(
    expect.arrayContaining([
      'bind 127.0.0.1:5100-5103',
      'server origin1 127.0.0.2:-1000 check inter 5s fall 1 rise 1 port 4100',
      'server origin2 ::1:-5050 check inter 5s fall 1 rise 1 port 50',
    ]),
  );
});

test('HAProxy: headers, source address, TLS', () => {
  const server = (given: Partial<ForwardingPlan>): string | undefined =>
    linesOf('haproxy', exportPlan(7, given)).find((line) => line.startsWith('server'));
  const check = 'check inter 5s fall 1 rise 1';
  expect(server({ proxyProtocol: 'v1' })).toBe(`server origin1 127.0.0.2:22 send-proxy ${check}`);
  expect(server({ proxyProtocol: 'v2' })).toBe(`server origin1 127.0.0.2:22 send-proxy-v2 ${check}`);
  expect(server({ sourceAddress: '127.0.0.9' })).toBe(`server origin1 127.0.0.2:22 source 127.0.0.9 ${check}`);
  expect(server({ tls: 'flexible' })).toBe(`server origin1 127.0.0.2:22 ${check}`);
  expect(server({ tls: 'full' })).toBe(
    `server origin1 127.0.0.2:22 ssl sni str(app7.example.com) verify none ${check}`,
  );
  expect(server({ tls: 'strict' })).toBe(
    'server origin1 127.0.0.2:22 ssl sni str(app7.example.com) verify required verifyhost app7.example.com ' +
      `ca-file "/etc/ssl/certs/ca-certificates.crt" ${check}`,
  );
  expect(linesOf('haproxy', exportPlan(7, { tls: 'full' }))).toContain(
    'bind 127.0.0.1:1007 ssl crt "/etc/postern/certs/tls/app7.example.com/haproxy.pem"',
  );
});

test('HAProxy: lists of addresses are cut into lines that it can read, block before allow', () => {
  const networks = Array.from({ length: 90 }, (_, index) => `10.${index}.0.0/16`);
  const lines = linesOf('haproxy', exportPlan(1, { firewall: { block: networks, allow: ['192.0.2.1'] } }));
  const acls = lines.filter((line) => line.startsWith('acl is_blocked src '));
  expect(acls.length).toBe(3);
  expect(acls.flatMap((line) => line.split(' ').slice(3))).toEqual(networks);
  expect(lines.filter((line) => line.startsWith('tcp-request'))).toEqual([
    'tcp-request connection reject if is_blocked',
    'tcp-request connection reject unless is_allowed',
  ]);
});

test('HAProxy: names are looked up at the name servers and kept for their time', () => {
  const { text } = exporters['haproxy'](everyFeature, exportSettings());
  expect(text.match(/^resolvers .*$/gm)).toEqual(['resolvers ttl_1200', 'resolvers ttl_600']);
  expect(text).toContain(
    'resolvers ttl_600\n    nameserver ns1 127.0.0.53:53\n    nameserver ns2 ::1:5353\n    accepted_payload_size 4096\n    hold valid 600s\n',
  );
  const srv = exportPlan(17, { origin: { kind: 'dns', name: '_ssh._tcp.x.test', type: 'SRV', ttlSeconds: 600 } });
  expect(linesOf('haproxy', srv).at(-1)).toBe(
    'server-template origin 1-16 _ssh._tcp.x.test check inter 5s fall 1 rise 1 resolvers ttl_600 init-addr none',
  );
});

test('nginx: a plain application with every address, list, header and time', () => {
  const plan = exportPlan(1, {
    addresses: ['127.0.0.1', '::'],
    firewall: { block: ['192.0.2.66'], allow: ['192.0.2.0/24'] },
    proxyProtocol: 'v1',
    sourceAddress: '::1',
  });
  expect(linesOf('nginx', plan)).toEqual([
    `upstream origin_${id(1)} {`,
    'server 127.0.0.2:22 max_fails=1 fail_timeout=10s;',
    '}',
    'server {',
    'listen 127.0.0.1:1001;',
    'listen [::]:1001;',
    'deny 192.0.2.66;',
    'allow 192.0.2.0/24;',
    'deny all;',
    'proxy_bind [::1];',
    'proxy_connect_timeout 10000ms;',
    'proxy_timeout 3600000ms;',
    'proxy_half_close on;',
    'proxy_protocol on;',
    `proxy_pass origin_${id(1)};`,
    '}',
    '}',
  ]);
});

test('nginx: a range that stays the same is one server, one that moves has a server for each port', () => {
  const origin = (first: number): ForwardingPlan['origin'] => ({
    kind: 'direct',
    origins: [{ address: '::1', ports: { first, last: first + 2 } }],
  });
  const same = linesOf('nginx', exportPlan(5, { ports: { first: 3000, last: 3002 }, origin: origin(3100) }), {
    portOffset: 100,
  });
  expect(same.filter((line) => /^(listen|proxy_pass|upstream)/.test(line))).toEqual([
    'listen 127.0.0.1:3100-3102;',
    'proxy_pass [::1]:$server_port;',
  ]);
  const moved = linesOf('nginx', exportPlan(5, { ports: { first: 3000, last: 3002 }, origin: origin(3100) }));
  expect(moved.filter((line) => /^(listen|proxy_pass|server \[)/.test(line))).toEqual(
    [0, 1, 2].flatMap((step) => [
      `server [::1]:${3100 + step} max_fails=1 fail_timeout=10s;`,
      `listen 127.0.0.1:${3000 + step};`,
      `proxy_pass origin_${id(5)}_${3000 + step};`,
    ]),
  );
});

test('nginx: 256 ports that move are written, 257 are left out', () => {
  const plan = (count: number): ForwardingPlan =>
    exportPlan(5, {
      ports: { first: 3000, last: 2999 + count },
      origin: { kind: 'direct', origins: [{ address: '127.0.0.2', ports: { first: 1, last: count } }] },
    });
  for (const format of ['nginx', 'envoy'] as const) {
    const isOut = (count: number): boolean =>
      exporters[format]([plan(count)], exportSettings()).gaps.some(({ leftOut }) => leftOut);
    expect([isOut(255), isOut(256), isOut(257)]).toEqual([false, false, true]);
  }
});

test('nginx: names, TLS and UDP', () => {
  const origin = { kind: 'dns', name: 'o.test', type: 'A', ttlSeconds: 600, ports: { first: 22, last: 22 } } as const;
  expect(linesOf('nginx', exportPlan(22, { tls: 'strict', origin }))).toEqual([
    'server {',
    'listen 127.0.0.1:1022 ssl;',
    'ssl_certificate "/etc/postern/certs/tls/app22.example.com/fullchain.pem";',
    'ssl_certificate_key "/etc/postern/certs/tls/app22.example.com/privkey.pem";',
    'resolver 127.0.0.53:53 [::1]:5353 valid=600s ipv6=off;',
    'proxy_connect_timeout 10000ms;',
    'proxy_timeout 3600000ms;',
    'proxy_half_close on;',
    'proxy_ssl on;',
    'proxy_ssl_server_name on;',
    'proxy_ssl_name o.test;',
    'proxy_ssl_verify on;',
    'proxy_ssl_verify_depth 8;',
    'proxy_ssl_trusted_certificate "/etc/ssl/certs/ca-certificates.crt";',
    'set $origin "o.test:22";',
    'proxy_pass $origin;',
    '}',
    '}',
  ]);
  expect(linesOf('nginx', exportPlan(30, { transport: 'udp' }))).toEqual(
    expect.arrayContaining(['listen 127.0.0.1:1030 udp reuseport;', 'proxy_timeout 60000ms;']),
  );
});

interface Envoy {
  readonly static_resources: {
    readonly listeners: readonly { readonly name: string; readonly [key: string]: unknown }[];
    readonly clusters: readonly { readonly name: string; readonly [key: string]: unknown }[];
  };
}

function envoyOf(plans: readonly ForwardingPlan[]): Envoy['static_resources'] {
  return (parse(exporters['envoy'](plans, exportSettings()).text) as Envoy).static_resources;
}

const outlier_detection = {
  split_external_local_origin_errors: true,
  consecutive_local_origin_failure: 1,
  base_ejection_time: '1s',
  max_ejection_time: '30s',
  max_ejection_percent: 100,
};
const type = (name: string): string => `type.googleapis.com/envoy.${name}`;

test('Envoy: a TCP application with lists, PROXY header, TLS and source address, written out by hand', () => {
  const plan = exportPlan(1, {
    firewall: { block: ['192.0.2.66'], allow: ['2001:db8::/32'] },
    proxyProtocol: 'v2',
    tls: 'strict',
    sourceAddress: '127.0.0.9',
  });
  const rbac = (suffix: string, action: string, address_prefix: string, prefix_len: number) => ({
    name: 'envoy.filters.network.rbac',
    typed_config: {
      '@type': type('extensions.filters.network.rbac.v3.RBAC'),
      stat_prefix: `edge_${id(1)}_${suffix}`,
      rules: {
        action,
        policies: {
          [suffix]: {
            permissions: [{ any: true }],
            principals: [{ direct_remote_ip: { address_prefix, prefix_len } }],
          },
        },
      },
    },
  });
  const folder = '/etc/postern/certs/tls/app1.example.com';
  const { listeners, clusters } = envoyOf([plan]);
  expect(listeners).toEqual([
    {
      name: `edge_${id(1)}_127.0.0.1:1001`,
      address: { socket_address: { protocol: 'TCP', address: '127.0.0.1', port_value: 1001 } },
      filter_chains: [
        {
          filters: [
            rbac('block', 'DENY', '192.0.2.66', 32),
            rbac('allow', 'ALLOW', '2001:db8::', 32),
            {
              name: 'envoy.filters.network.tcp_proxy',
              typed_config: {
                '@type': type('extensions.filters.network.tcp_proxy.v3.TcpProxy'),
                stat_prefix: `edge_${id(1)}`,
                cluster: `origin_${id(1)}`,
                idle_timeout: '3600s',
                max_connect_attempts: 3,
              },
            },
          ],
          transport_socket: {
            name: 'envoy.transport_sockets.tls',
            typed_config: {
              '@type': type('extensions.transport_sockets.tls.v3.DownstreamTlsContext'),
              common_tls_context: {
                tls_certificates: [
                  {
                    certificate_chain: { filename: `${folder}/fullchain.pem` },
                    private_key: { filename: `${folder}/privkey.pem` },
                  },
                ],
              },
            },
          },
        },
      ],
    },
  ]);
  expect(clusters).toEqual([
    {
      name: `origin_${id(1)}`,
      connect_timeout: '10s',
      lb_policy: 'ROUND_ROBIN',
      type: 'STATIC',
      load_assignment: {
        cluster_name: `origin_${id(1)}`,
        endpoints: [
          {
            lb_endpoints: [{ endpoint: { address: { socket_address: { address: '127.0.0.2', port_value: 22 } } } }],
          },
        ],
      },
      outlier_detection,
      upstream_bind_config: { source_address: { address: '127.0.0.9', port_value: 0 } },
      transport_socket: {
        name: 'envoy.transport_sockets.upstream_proxy_protocol',
        typed_config: {
          '@type': type('extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport'),
          config: { version: 'V2' },
          transport_socket: {
            name: 'envoy.transport_sockets.tls',
            typed_config: {
              '@type': type('extensions.transport_sockets.tls.v3.UpstreamTlsContext'),
              sni: 'app1.example.com',
              common_tls_context: {
                validation_context: {
                  trusted_ca: { filename: '/etc/ssl/certs/ca-certificates.crt' },
                  match_typed_subject_alt_names: [{ san_type: 'DNS', matcher: { exact: 'app1.example.com' } }],
                },
              },
            },
          },
        },
      },
    },
  ]);
});

test('Envoy: a UDP application, and names by family and time', () => {
  const { listeners } = envoyOf([exportPlan(30, { transport: 'udp', addresses: ['::1'] })]);
  expect(listeners).toEqual([
    {
      name: `edge_${id(30)}_[::1]:1030`,
      address: { socket_address: { protocol: 'UDP', address: '::1', port_value: 1030 } },
      udp_listener_config: {},
      listener_filters: [
        {
          name: 'envoy.filters.udp_listener.udp_proxy',
          typed_config: {
            '@type': type('extensions.filters.udp.udp_proxy.v3.UdpProxyConfig'),
            stat_prefix: `edge_${id(30)}`,
            matcher: {
              on_no_match: {
                action: {
                  name: 'envoy.filters.udp_listener.udp_proxy.route',
                  typed_config: {
                    '@type': type('extensions.filters.udp.udp_proxy.v3.Route'),
                    cluster: `origin_${id(30)}`,
                  },
                },
              },
            },
            idle_timeout: '60s',
          },
        },
      ],
    },
  ]);
  const families = envoyOf(everyFeature.filter(({ origin }) => origin.kind === 'dns')).clusters.map(
    ({ type, dns_lookup_family, dns_refresh_rate }) => [type, dns_lookup_family, dns_refresh_rate].join(' '),
  );
  expect(families).toEqual([
    'STRICT_DNS ALL 1200s',
    'STRICT_DNS V4_ONLY 1200s',
    'STRICT_DNS V6_ONLY 600s',
    ...Array.from({ length: 4 }, () => 'STRICT_DNS ALL 1200s'),
    'STRICT_DNS V4_ONLY 1200s',
    'STRICT_DNS V4_ONLY 1200s',
  ]);
});

test('Envoy: names are unique, every listener leads to a cluster, every cluster is led to', () => {
  const { listeners, clusters } = envoyOf(everyFeature);
  const names = clusters.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(new Set(listeners.map(({ name }) => name)).size).toBe(listeners.length);
  const led = [...JSON.stringify(listeners).matchAll(/"cluster":"([^"]+)"/g)].map(([, name]) => name);
  expect(new Set(led)).toEqual(new Set(names));
});

test.each(exportFormats)('%s: what cannot be written safely is left out and shown in quotes', (format) => {
  const faults: [Partial<ForwardingPlan>, string][] = [
    [{ id: 'x }' }, 'its id is "x }"'],
    [{ name: 'a.test\n  server evil 1.2.3.4:1' }, 'its hostname is "a.test\\n  server evil 1.2.3.4:1"'],
    [{ name: 'a;b.test' }, 'its hostname is "a;b.test"'],
    [{ addresses: ['127.0.0.1; include /x'] }, 'it has the address "127.0.0.1; include /x"'],
    [{ addresses: ['fe80::1%eth0'] }, 'it has the address "fe80::1%eth0"'],
    [{ addresses: [] }, 'it has no address to listen on'],
    [{ obstacle: 'its network is gone' }, 'its network is gone'],
    [{ sourceAddress: 'localhost' }, 'it has the address "localhost"'],
    [{ firewall: { block: [], allow: ['10.0.0.0/8 }'] } }, 'its firewall lists have "10.0.0.0/8 }"'],
    [{ origin: { kind: 'direct', origins: [] } }, 'it has no origin'],
    [{ ports: { first: 70_000, last: 70_000 } }, 'its ports are no range of ports'],
    [{ ports: { first: 1, last: 2 } }, 'its origin ports are not in step with its ports'],
    [
      {
        origin: {
          kind: 'dns',
          name: '${env}.test',
          type: 'A',
          ttlSeconds: 600,
          ports: { first: 1, last: 1 },
        },
      },
      'its origin is named "${env}.test"',
    ],
  ];
  for (const [given, why] of faults) {
    const { text, gaps } = exporters[format]([exportPlan(1, given)], exportSettings());
    const [gap] = gaps.filter(({ leftOut }) => leftOut);
    expect(gap?.text.replace(', which cannot be written safely', '')).toBe(why);
    expect(
      text.split('\n').filter((line) => /evil|include \/x|env|fe80|localhost/.test(line.replace(/^\s*#.*/, ''))),
    ).toEqual([]);
  }
  const high = exporters[format]([exportPlan(1)], exportSettings({ portOffset: 65_000 }));
  expect(high.gaps.at(-1)?.text).toBe('its ports and the offset of 65000 are over 65535');
  for (const certsDir of ['/a"b', '/a\nb', '/a$b', "/a'b", 'relative', '/a\\b', '/a{b}']) {
    const exported = exporters[format]([exportPlan(20, { tls: 'full' })], exportSettings({ certsDir }));
    expect(exported.gaps.at(-1)).toMatchObject({ leftOut: true });
  }
});

test.each(exportFormats)('%s: whatever stands in a plan, lines that are no comment hold nothing strange', (format) => {
  const hostile = fc.oneof(
    fc.string({ unit: anyCharacter, maxLength: 30 }),
    fc.constantFrom('a.test', '127.0.0.1', '::1', '10.0.0.0/8', '"', '\n', ';', '}', '$x', '\\', '#', '\u2028', '\r\n'),
    fc
      .tuple(fc.constantFrom('a.test', '127.0.0.1', '10.0.0.0/8'), fc.string({ maxLength: 5 }))
      .map((parts) => parts.join('')),
  );
  const plans = fc
    .record({
      name: hostile,
      address: hostile,
      network: hostile,
      origin: hostile,
      kind: fc.constantFrom('direct', 'dns'),
      tls: fc.constantFrom('off', 'strict'),
    })
    .map(({ name, address, network, origin, kind, tls }) =>
      exportPlan(1, {
        name,
        addresses: [address],
        firewall: { block: [network], allow: [] },
        tls: tls === 'off' ? 'off' : 'strict',
        origin:
          kind === 'direct'
            ? { kind, origins: [{ address: origin, ports: { first: 1, last: 1 } }] }
            : { kind: 'dns', name: origin, type: 'A', ttlSeconds: 600, ports: { first: 1, last: 1 } },
      }),
    );
  const shape = (text: string): string[] => {
    const kept = text.split('\n').filter((line) => line.trim() !== '' && !line.trim().startsWith('#'));
    return kept.map((line) => line.trim().split(' ')[0]?.replace(/:.*/, '') ?? '');
  };
  const words = new Set(everyFeature.flatMap((plan) => shape(exporters[format]([plan], exportSettings()).text)));
  fc.assert(
    fc.property(plans, (plan) => {
      const { text, gaps } = exporters[format]([plan], exportSettings());
      expect(text).toMatch(/^[\x20-\x7e\n]*$/);
      expect(shape(text).filter((word) => !words.has(word))).toEqual([]);
      for (const { text } of gaps) expect(text).toMatch(/^[\x20-\x7e]*$/);
    }),
    { numRuns: 300 },
  );
});
