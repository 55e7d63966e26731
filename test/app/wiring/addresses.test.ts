// Where errors say that the pages about them are (D62): a link that cannot work is worse than none.

import { expect, test } from 'vitest';
import { GatewayAddresses } from '../../../src/app/wiring/addresses.ts';
import { loadYaml } from '../../support/scratch.ts';

test.each([
  ['development: {}\nhttp: { listen: "127.0.0.1:8080" }', 'http://127.0.0.1:8080'],
  ['development: {}\nhttp: { listen: "[::1]:8080" }', 'http://[::1]:8080'],
  ['development: {}\nhttp: { listen: "0.0.0.0:8080" }', undefined],
  ['development: {}\nhttp: { listen: "127.0.0.1:8080", adminListen: "127.0.0.1:9090" }', undefined],
  ['http: { listen: "127.0.0.1:8080" }', undefined],
  ['http: { listen: "192.0.2.1:8080" }', undefined],
  ['http: { listen: "0.0.0.0:8080", docsBaseUrl: "https://gateway.example" }', 'https://gateway.example'],
])('%s', (yaml, url) => {
  const config = loadYaml(yaml);
  expect(new GatewayAddresses(() => config).docsBaseUrl()).toBe(url);
});

test('the port that is bound counts', () => {
  const config = loadYaml('development: {}\nhttp: { listen: "127.0.0.1:0" }');
  const addresses = new GatewayAddresses(() => config);
  addresses.setHttp([{ name: 'http', host: '127.0.0.1', port: 18_080 }]);
  expect(addresses.docsBaseUrl()).toBe('http://127.0.0.1:18080');
});
