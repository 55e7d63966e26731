// Routes by MX and to several smarthosts, as the configuration has them.

import { expect, test } from 'vitest';
import { loadYaml } from '../../support/scratch.ts';

test('a route by MX has its defaults', () => {
  const { delivery } = loadYaml('routes: [{ name: out, type: mx }]');
  expect(delivery.routes).toEqual([
    {
      name: 'out',
      type: 'mx',
      platformSignature: true,
      port: 25,
      tls: { mode: 'opportunistic', verify: false },
      tlsByDomain: new Map(),
      mtaSts: true,
      allowPrivate: [],
      connections: 10,
    },
  ]);
  expect(delivery).not.toHaveProperty('resolver');
});

test('POSTERN_RELAY=mx is such a route', () => {
  const { delivery } = loadYaml('', { POSTERN_RELAY: 'mx' });
  expect(delivery.routes).toMatchObject([{ name: 'relay', type: 'mx', port: 25 }]);
});

test('everything that may be said of a route by MX', () => {
  const { delivery } = loadYaml(`
delivery: { resolver: { servers: [127.0.0.1, "[::1]:5353"], validates: true } }
routes:
  - name: out
    type: mx
    port: 2525
    tls: { mode: required, ca: /etc/ca.pem }
    tlsByDomain: { Bücher.example: none, bank.example: { mode: required, verify: false }, soft.example: opportunistic }
    mtaSts: false
    localAddress: [127.0.0.1, { address: "::1", hostname: Out.example }]
    allowPrivate: [10.0.0.0/8]
    connections: 3
`);
  expect(delivery.resolver).toEqual({ servers: ['127.0.0.1', '[::1]:5353'], validates: true });
  expect(delivery.routes[0]).toMatchObject({
    port: 2525,
    tls: { mode: 'required', verify: true },
    caFile: '/etc/ca.pem',
    mtaSts: false,
    localAddress: [{ address: '127.0.0.1' }, { address: '::1', hostname: 'out.example' }],
    allowPrivate: ['10.0.0.0/8'],
    connections: 3,
  });
  const [route] = delivery.routes;
  expect(route?.type === 'mx' && [...route.tlsByDomain]).toEqual([
    ['xn--bcher-kva.example', { domain: 'xn--bcher-kva.example', mode: 'none', verify: false }],
    ['bank.example', { domain: 'bank.example', mode: 'required', verify: false }],
    ['soft.example', { domain: 'soft.example', mode: 'opportunistic', verify: false }],
  ]);
});

test('several smarthosts: what the route says counts for those that say nothing of it', () => {
  const { delivery, routeSecrets } = loadYaml(
    `
routes:
  - name: out
    type: smarthost
    tls: required
    auth: { user: u, passwordEnv: SHARED }
    urls:
      - smtp://one.example
      - { url: "smtp://two.example:2587", priority: 10, tls: opportunistic, auth: { user: v, passwordEnv: OWN } }
`,
    { SHARED: 'a', OWN: 'b' },
  );
  const [route] = delivery.routes;
  if (route?.type !== 'smarthost') throw new Error('no smarthost');
  expect(route).toMatchObject({ host: 'one.example', port: 25, tls: 'required', tlsVerify: true });
  expect([route.auth?.user, route.auth?.password]).toEqual(['u', 'a']);
  expect(route.standby).toMatchObject([{ host: 'two.example', port: 2587, tls: 'opportunistic', priority: 10 }]);
  expect([route.standby?.[0]?.auth?.user, route.standby?.[0]?.auth?.password]).toEqual(['v', 'b']);
  expect(routeSecrets.map(({ path }) => path)).toEqual(['routes[0].auth', 'routes[0].urls[1].auth']);
});

test('warnings: an address that is not here, a resolver that is believed from afar', () => {
  const { warnings } = loadYaml(`
delivery: { resolver: { servers: [8.8.8.8, 127.0.0.1, "[2001:4860::8888]:53"], validates: true } }
routes: [{ name: out, type: mx, localAddress: [203.0.113.77] }]
development: { account: dev }
`);
  expect(warnings.filter((line) => !line.startsWith('POSTERN'))).toEqual([
    'route "out" sends from 203.0.113.77, which this machine does not have: its mail will wait',
    'delivery.resolver believes 8.8.8.8, a public address: anybody on the way can forge what it says',
    'delivery.resolver believes [2001:4860::8888]:53, a public address: anybody on the way can forge what it says',
  ]);
});

test('reports of TLS are on where a route goes by MX, and can be switched', () => {
  const platform = 'platform: { domain: mail.corp.test, bounceDomain: b.mail.corp.test }';
  expect(loadYaml(platform).tlsReports).toEqual({
    enabled: false,
    organization: 'mail.corp.test',
    contact: 'postmaster@mail.corp.test',
    allowPrivate: [],
  });
  expect(loadYaml('', { POSTERN_RELAY: 'mx' }).tlsReports.enabled).toBe(true);
  const routes = 'routes: [{ name: out, type: mx }]';
  expect(loadYaml(`${routes}\ntlsReports: { enabled: false }`).tlsReports.enabled).toBe(false);
  const said = 'tlsReports: { allowPrivate: [10.0.0.0/8] }';
  expect(loadYaml(`${routes}\n${said}`).tlsReports).toEqual({
    enabled: true,
    organization: 'platform.example',
    contact: 'postmaster@platform.example',
    allowPrivate: ['10.0.0.0/8'],
  });
});
