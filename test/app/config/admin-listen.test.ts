// `http.adminListen`: where the API listens for itself, and the token for /metrics.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { hashToken } from '../../../src/accounts/token-store.ts';
import { missingSecrets } from '../../../src/app/config/secrets.ts';
import { loadYaml, scratchFolder } from '../../support/scratch.ts';

describe('the address', () => {
  test('off unless it is named, by file or by port', () => {
    expect(loadYaml('').http).not.toHaveProperty('adminListen');
    expect(loadYaml('http: { adminListen: "" }').http).not.toHaveProperty('adminListen');
    expect(loadYaml('http: { adminListen: "[::1]:9090" }').http.adminListen).toEqual({ host: '::1', port: 9090 });
    expect(loadYaml('', { POSTERN_ADMIN_PORT: '0' }).http.adminListen).toEqual({ host: '127.0.0.1', port: 0 });
    const named = 'http: { adminListen: 192.0.2.1:9090 }';
    expect(loadYaml(named, { POSTERN_ADMIN_PORT: '9' }).http.adminListen).toEqual({ host: '192.0.2.1', port: 9 });
  });

  test('an empty variable leaves it as it is: nothing puts the API back on the public listeners by mistake', () => {
    const named = 'http: { adminListen: 127.0.0.1:9090 }';
    expect(loadYaml(named, { POSTERN_ADMIN_PORT: '' }).http.adminListen).toEqual({ host: '127.0.0.1', port: 9090 });
    expect(() => loadYaml('', { POSTERN_ADMIN_PORT: 'x' })).toThrow(
      'POSTERN_ADMIN_PORT: got "x", want a port, 0 to 65535',
    );
  });

  test('POSTERN_BIND leaves it where it is', () => {
    const { http } = loadYaml('http: { adminListen: 127.0.0.1:9090 }', { POSTERN_BIND: '0.0.0.0' });
    expect(http).toMatchObject({ listen: { host: '0.0.0.0' }, adminListen: { host: '127.0.0.1', port: 9090 } });
    const made = loadYaml('', { POSTERN_BIND: '0.0.0.0', POSTERN_ADMIN_PORT: '9090' });
    expect(made.http.adminListen).toEqual({ host: '127.0.0.1', port: 9090 });
  });

  test('port 0 may stand twice, and the port of the environment is compared as well', () => {
    expect(loadYaml('http: { listen: 127.0.0.1:0, adminListen: 127.0.0.1:0 }').http.adminListen?.port).toBe(0);
    expect(() => loadYaml('http: { adminListen: 127.0.0.1:1 }', { POSTERN_ADMIN_PORT: '8080' })).toThrow(
      'POSTERN_ADMIN_PORT: http.adminListen: got "127.0.0.1:8080", which http.listen has already',
    );
  });

  test('its limits are fixed', () => {
    expect(() => loadYaml('http: { adminLimits: { connections: 5 } }')).toThrow(
      'http.adminLimits: unknown key; want one of listen, tlsListen, adminListen',
    );
  });
});

describe('warnings', () => {
  const of = (address: string, more = '') =>
    loadYaml(`http: { docsBaseUrl: "https://g.example", adminListen: "${address}"${more} }`).warnings.filter((line) =>
      line.includes('adminListen'),
    );

  test.each(['0.0.0.0:9090', '[::]:9090', '203.0.113.7:9090', '[2001:db8::1]:9090', '172.32.0.1:9090'])(
    '%s can be reached from outside in the clear',
    (address) => {
      expect(of(address)).toEqual([
        `http.adminListen takes tokens in the clear on ${address}, a public address; want a private one, with something before it that speaks TLS`,
      ]);
    },
  );

  test.each([
    ...['127.0.0.1:9090', '127.1.2.3:9090', '[::1]:9090', '10.0.0.5:9090', '172.16.0.1:9090', '192.168.1.1:9090'],
    ...['[fd00::1]:9090', '[fe80::1]:9090', '100.64.0.1:9090', '[::ffff:127.0.0.1]:9090'],
  ])('%s cannot', (address) => {
    expect(of(address)).toEqual([]);
  });
});

describe('the token for /metrics', () => {
  test('by variable', () => {
    const yaml = 'http: { metricsTokenEnv: SCRAPE }';
    const given = { SCRAPE: ' scrape-me ' };
    const config = loadYaml(yaml, given);
    expect(config.http.metricsToken?.sha256).toBe(hashToken('scrape-me'));
    expect(missingSecrets(config, given).join()).not.toContain('metricsToken');
    const without = loadYaml(yaml);
    expect(without.http.metricsToken).toHaveProperty('sha256', undefined);
    expect(missingSecrets(without, {})).toContain('http.metricsTokenEnv: the environment variable SCRAPE is not set');
  });

  test('by file', () => {
    const cwd = scratchFolder();
    const config = loadYaml('http: { metricsTokenFile: secrets/metrics }', {}, cwd);
    expect(missingSecrets(config, {}).join()).toContain('http.metricsTokenFile: cannot read');
    expect(config.http.metricsToken?.sha256).toBeUndefined();
    const other = loadYaml('http: { metricsTokenFile: metrics }', {}, cwd);
    writeFileSync(join(cwd, 'metrics'), 'from-a-file\n');
    expect(other.http.metricsToken?.sha256).toBe(hashToken('from-a-file'));
  });

  test('none', () => {
    expect(loadYaml('').http).not.toHaveProperty('metricsToken');
  });
});
