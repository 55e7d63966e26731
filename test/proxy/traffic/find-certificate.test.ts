// Certificates on disk and the hostnames that they hold for: own folder, wildcard, several names (D84).

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createCertificateFinder } from '../../../src/base/net/find-certificate.ts';
import { reportMetrics } from '../../../src/proxy/plane/application-views.ts';
import { createMetrics } from '../../../src/web/http/metrics.ts';
import { testCertificate } from '../../support/certificate.ts';
import { directTo, echoServer, loopbackAddress, planOf, startPlane, until } from '../../support/proxy-plane.ts';
import { scratchFolder } from '../../support/scratch.ts';

async function put(folder: string, ...names: readonly string[]): Promise<void> {
  const { cert, key } = await testCertificate(names);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'fullchain.pem'), cert);
  writeFileSync(join(folder, 'privkey.pem'), key);
}

test('the folder of the name, else one whose certificate holds for it', async () => {
  const tls = scratchFolder();
  await put(join(tls, 'own.example.com'), 'own.example.com');
  await put(join(tls, 'wild'), 'example.com', '*.example.com');
  await put(join(tls, 'several'), 'one.test', 'two.test');
  writeFileSync(join(tls, 'README'), 'no folder');
  mkdirSync(join(tls, 'broken'));
  writeFileSync(join(tls, 'broken', 'fullchain.pem'), 'no certificate');
  const find = createCertificateFinder(tls);
  const folderOf = (name: string) => find(name)?.folder.slice(tls.length + 1);
  expect(folderOf('own.example.com')).toBe('own.example.com');
  expect(folderOf('app.example.com')).toBe('wild');
  expect(folderOf('APP.Example.com')).toBe('wild');
  expect(folderOf('example.com')).toBe('wild');
  expect(folderOf('two.test')).toBe('several');
  // RFC 9525 §6.3: a wildcard is one label.
  expect(folderOf('a.b.example.com')).toBeUndefined();
  expect(folderOf('three.test')).toBeUndefined();
  expect(createCertificateFinder(join(tls, 'nowhere'))('app.example.com')).toBeUndefined();
});

test('one without its key is passed over', async () => {
  const tls = scratchFolder();
  await put(join(tls, 'keyless'), '*.example.com');
  rmSync(join(tls, 'keyless', 'privkey.pem'));
  expect(createCertificateFinder(tls)('app.example.com')).toBeUndefined();
  await put(join(tls, 'whole'), '*.example.com');
  expect(createCertificateFinder(tls)('app.example.com')?.folder).toBe(join(tls, 'whole'));
});

test('status and metrics tell the end of the certificate, the state and the origins', async () => {
  const tls = scratchFolder();
  await put(join(tls, 'wild'), '*.example.com');
  const [one, two, three] = [loopbackAddress(), loopbackAddress(), loopbackAddress()];
  const origin = directTo(await echoServer(), { address: loopbackAddress(), port: 9 });
  const plans = [
    planOf({ addresses: [one], origin, tls: 'flexible' }),
    planOf({ id: 'b0'.repeat(16), name: 'x.other.test', addresses: [two], origin, tls: 'full' }),
    planOf({ id: 'c0'.repeat(16), name: 'udp.example.com', transport: 'udp', addresses: [three], origin }),
  ];
  const plane = await startPlane(plans, { certificate: createCertificateFinder(tls) });
  const [first] = plans;
  const at = plane.status(first?.id ?? '').certificateExpiresAt ?? 0;
  expect(at).toBeGreaterThan(Date.now());
  expect(plane.status('b0'.repeat(16)).state).toBe('failed');
  expect(plane.status('b0'.repeat(16))).not.toHaveProperty('certificateExpiresAt');
  await until(() => plane.open().listeners > 0);
  const metrics = createMetrics();
  metrics.add({ families: reportMetrics(plane) });
  const text = (await metrics.render())?.text ?? '';
  const labels = (id: string, name: string, protocol: string): string =>
    `application="${id.repeat(16)}",hostname="${name}",protocol="${protocol}"`;
  const secured = labels('a0', 'app.example.com', 'tcp/22');
  expect(text.split('\n')).toEqual(
    expect.arrayContaining([
      `postern_proxy_status{${secured},state="active"} 1`,
      `postern_proxy_status{${labels('b0', 'x.other.test', 'tcp/22')},state="failed"} 1`,
      `postern_proxy_origins{${secured},health="healthy"} 2`,
      `postern_proxy_origins{${secured},health="failing"} 0`,
      `postern_proxy_certificate_expires_seconds{${secured}} ${Math.trunc(at / 1000)}`,
      `postern_proxy_datagrams_dropped_total{${labels('c0', 'udp.example.com', 'udp/22')}} 0`,
    ]),
  );
  expect(text.match(/postern_proxy_certificate_expires_seconds\{/g)).toHaveLength(1);
});
