// The environment over the file (D96).

import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadYaml, scratchFolder } from '../../support/scratch.ts';

const listeners = `
smtp:
  listeners:
    - { name: devices, listen: 127.0.0.1:2588, tls: none, credential: dev/default, allowFrom: [127.0.0.1], enabled: false }
    - { name: bounce, listen: 127.0.0.1:2525, tls: starttls, role: bounce, enabled: false }
    - { name: in, listen: "[::1]:2587", tls: starttls }
    - { name: in2, listen: 127.0.0.1:2589, tls: starttls }
    - { name: ins, listen: 127.0.0.1:2465, tls: implicit }
`;

const addresses = (yaml: string, env: Readonly<Record<string, string>>) =>
  loadYaml(yaml, env).smtp.listeners.map(({ name, host, port }) => `${name} ${host} ${port}`);

describe('ports and addresses', () => {
  test('the first submission listener of each kind takes the port', () => {
    expect(addresses(listeners, { POSTERN_SMTP_PORT: '0', POSTERN_SMTPS_PORT: '65535' })).toEqual([
      'in ::1 0',
      'in2 127.0.0.1 2589',
      'ins 127.0.0.1 65535',
    ]);
  });

  test('POSTERN_BIND changes the address of every listener and no port', () => {
    expect(addresses(listeners, { POSTERN_BIND: '0.0.0.0', POSTERN_SMTP_PORT: '25' })).toEqual([
      'in 0.0.0.0 25',
      'in2 0.0.0.0 2589',
      'ins 0.0.0.0 2465',
    ]);
    const { http } = loadYaml('', { POSTERN_BIND: '::', POSTERN_HTTP_PORT: '0' });
    expect(http).toMatchObject({ listen: { host: '::', port: 0 }, tlsListen: { host: '::', port: 8443 } });
  });

  test('POSTERN_HTTPS_PORT: a port, 0 for a free one, empty for off', () => {
    expect(loadYaml('', { POSTERN_HTTPS_PORT: '0' }).http.tlsListen).toEqual({ host: '127.0.0.1', port: 0 });
    expect(loadYaml('', { POSTERN_HTTPS_PORT: '' }).http.tlsListen).toBeUndefined();
    expect(loadYaml('http: { tlsListen: "" }', {}).http.tlsListen).toBeUndefined();
    expect(loadYaml('http: { tlsListen: "" }', { POSTERN_BIND: '0.0.0.0' }).http.tlsListen).toBeUndefined();
  });
});

describe('names, folders, level', () => {
  test('each variable wins over the file', () => {
    const cwd = scratchFolder();
    const config = loadYaml(
      'dataDir: ./one\ncertsDir: ./two\nlog: { level: info }',
      {
        POSTERN_DATA_DIR: 'state',
        POSTERN_CERTS_DIR: '/etc/postern/certs',
        POSTERN_LOG_LEVEL: 'debug',
        POSTERN_DATABASE_URL: 'sqlite:other.db',
        POSTERN_PLATFORM_DOMAIN: 'Mail.Example',
        POSTERN_BOUNCE_DOMAIN: 'b.mail.example',
      },
      cwd,
    );
    expect(config).toMatchObject({
      dataDir: join(cwd, 'state'),
      certsDir: '/etc/postern/certs',
      log: { level: 'debug' },
      database: { engine: 'sqlite', file: join(cwd, 'state/other.db') },
      platform: { domain: 'mail.example', bounceDomain: 'b.mail.example', hmacKeyFile: '/etc/postern/certs/hmac.key' },
    });
  });

  test('an empty variable counts as unset', () => {
    const config = loadYaml('', { POSTERN_SMTP_PORT: '', POSTERN_RELAY: ' ', POSTERN_LOG_LEVEL: '', POSTERN_BIND: '' });
    expect(config.smtp.listeners[0]).toMatchObject({ host: '127.0.0.1', port: 2587 });
    expect(config.delivery.routes.map(({ type }) => type)).toEqual(['capture']);
  });

  test('the bounce domain moves along with the platform domain, unless it is given', () => {
    const yaml = 'platform: { domain: platform.example, bounceDomain: bounces.platform.example }';
    expect(loadYaml(yaml, { POSTERN_PLATFORM_DOMAIN: 'gw.test' }).platform.bounceDomain).toBe('bounces.gw.test');
    const both = { POSTERN_PLATFORM_DOMAIN: 'gw.test', POSTERN_BOUNCE_DOMAIN: 'gw.test' };
    expect(loadYaml(yaml, both).platform.bounceDomain).toBe('gw.test');
  });
});

describe('POSTERN_RELAY replaces all routes by one', () => {
  const yaml = `routes:
  - { name: a, type: smarthost, url: "smtp://127.0.0.1:1", match: { accounts: [dev] }, auth: { user: u, passwordEnv: NOT_SET } }
  - { name: b, type: capture, folder: elsewhere }`;

  test.each([
    ['smtp://127.0.0.1:2526', { host: '127.0.0.1', port: 2526, tls: 'opportunistic', tlsVerify: false }],
    ['smtp://mail.example', { host: 'mail.example', port: 25, tls: 'opportunistic', tlsVerify: false }],
    ['smtps://[::1]:4650', { host: '::1', port: 4650, tls: 'implicit', tlsVerify: true }],
    ['smtps://mail.example', { host: 'mail.example', port: 465, tls: 'implicit', tlsVerify: true }],
  ])('%s', (relay, wanted) => {
    const { delivery, routeSecrets } = loadYaml(yaml, { POSTERN_RELAY: relay });
    expect(delivery.routes).toEqual([
      { name: 'relay', type: 'smarthost', platformSignature: true, connections: 10, ...wanted },
    ]);
    expect(routeSecrets).toEqual([]);
  });

  test('the user part is AUTH, percent-decoded', () => {
    const { delivery } = loadYaml('', { POSTERN_RELAY: 'smtps://me%40x.example:p%3Ass%2Fword@mail.example:465' });
    expect(delivery.routes[0]).toMatchObject({ auth: { user: 'me@x.example', password: 'p:ss/word' } });
  });

  test('with a user it verifies the next hop, by STARTTLS too', () => {
    const { delivery } = loadYaml('', { POSTERN_RELAY: 'smtp://u:p@mail.example:587' });
    expect(delivery.routes[0]).toMatchObject({ tls: 'opportunistic', tlsVerify: true });
  });

  test('capture', () => {
    const cwd = scratchFolder();
    const { delivery } = loadYaml(yaml, { POSTERN_RELAY: 'capture' }, cwd);
    expect(delivery.routes).toEqual([
      { name: 'relay', type: 'capture', platformSignature: true, folder: join(cwd, 'data/capture') },
    ]);
  });
});

describe('faults name the variable', () => {
  test.each([
    [{ POSTERN_SMTP_PORT: '65536' }, 'POSTERN_SMTP_PORT: got "65536", want a port, 0 to 65535'],
    [{ POSTERN_SMTPS_PORT: '-1' }, 'POSTERN_SMTPS_PORT: got "-1", want a port, 0 to 65535'],
    [{ POSTERN_HTTP_PORT: 'http' }, 'POSTERN_HTTP_PORT: got "http", want a port, 0 to 65535'],
    [{ POSTERN_HTTPS_PORT: '1e3' }, 'POSTERN_HTTPS_PORT: got "1e3", want a port, 0 to 65535'],
    [{ POSTERN_BIND: 'localhost' }, 'POSTERN_BIND: got "localhost", want an IP address'],
    [
      { POSTERN_LOG_LEVEL: 'loud' },
      'POSTERN_LOG_LEVEL: got "loud", want one of trace, debug, info, warn, error, fatal, silent',
    ],
    [{ POSTERN_PLATFORM_DOMAIN: 'a b' }, 'POSTERN_PLATFORM_DOMAIN: got "a b", want a domain name'],
    [
      { POSTERN_BOUNCE_DOMAIN: 'bounces.elsewhere.example' },
      'POSTERN_BOUNCE_DOMAIN: platform.bounceDomain: got "bounces.elsewhere.example", want platform.domain (platform.example) or a name below it',
    ],
    [
      { POSTERN_DATABASE_URL: 'postgres://u:hunter2@h' },
      'POSTERN_DATABASE_URL: database.url: want postgres://USER@HOST:PORT/NAME, or postgres://USER@/NAME?host=FOLDER',
    ],
    [
      { POSTERN_RELAY: 'smtp://u:hunter2@ho st' },
      'POSTERN_RELAY: got "smtp://[hidden]@ho st", want capture, mx, smtp://host:port or smtps://host:port',
    ],
    [
      { POSTERN_RELAY: 'smtp://user@mail.example' },
      'POSTERN_RELAY: got "smtp://[hidden]@mail.example", want capture, mx, smtp://host:port or smtps://host:port',
    ],
  ])('%o', (env, message) => {
    expect(() => loadYaml('', env)).toThrow(message);
  });

  test('all at once, beside those of the file', () => {
    const env = { POSTERN_SMTP_PORT: 'x', POSTERN_RELAY: 'mailto:x', POSTERN_BOUNCE_DOMAIN: 'other.example' };
    const act = () => loadYaml('drainSeconds: x', env);
    for (const part of [
      'postern.yaml:1:15: drainSeconds',
      'POSTERN_SMTP_PORT',
      'POSTERN_RELAY',
      'POSTERN_BOUNCE_DOMAIN',
    ]) {
      expect(act).toThrow(part);
    }
  });

  test('a port for a listener that is not there', () => {
    expect(() => loadYaml('smtp: { listeners: [] }', { POSTERN_SMTP_PORT: '25' })).toThrow(
      'POSTERN_SMTP_PORT: got "25", want an enabled submission listener with tls: starttls in the file',
    );
  });
});
