// What the configuration says about the console: when it is on, and where people reach it.

import { expect, test } from 'vitest';
import { loadYaml } from '../../support/scratch.ts';

test('it is on in development, and elsewhere only where the file says so', () => {
  expect(loadYaml('').console).toEqual({ enabled: false });
  expect(loadYaml('development:\n').console).toEqual({ enabled: true });
  expect(loadYaml('development:\nconsole: { enabled: false }\n').console).toEqual({ enabled: false });
  expect(loadYaml('console: { enabled: true }\n').console).toEqual({ enabled: true });
});

test('its public URL is an origin, and its host is one of the API’s', () => {
  const { console: pages, http } = loadYaml('console: { publicUrl: "https://Gateway.example:8443/" }\n');
  expect(pages.publicUrl).toBe('https://gateway.example:8443');
  expect(http.apiHosts).toEqual(['127.0.0.1', 'localhost', 'gateway.example']);
  expect(loadYaml('console: { publicUrl: "http://[::1]:8080" }\n').http.apiHosts).toContain('::1');
  expect(loadYaml('console: { publicUrl: "http://localhost:1" }\n').http.apiHosts).toEqual(['127.0.0.1', 'localhost']);
});

const warned = (publicUrl: string): string[] =>
  loadYaml(`console: { enabled: true, publicUrl: "${publicUrl}" }\n`).warnings.filter((line) =>
    line.startsWith('console.publicUrl'),
  );

test('tokens that would go over a network in the clear are warned of', () => {
  expect(warned('http://gateway.example')).toEqual([
    'console.publicUrl is http://gateway.example: whoever signs in sends a token in the clear; want https://',
  ]);
  for (const url of ['https://gateway.example', 'http://localhost:8080', 'http://127.0.0.1', 'http://[::1]']) {
    expect(warned(url), url).toEqual([]);
  }
});
