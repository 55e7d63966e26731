// Which target a zone's origin is for a Host, and that neither clients nor changes of the configuration mix them up.

import { expect, test } from 'vitest';
import { originTargets } from '../../../src/edge/origin/origin-target.ts';

const zone = {
  id: '1'.repeat(32),
  name: 'example.com',
  account: 'a'.repeat(32),
  hostnames: ['example.com', 'www.example.com'],
  origin: 'https://127.0.0.1:1',
} as const;

test('a Host that is none of the zone’s counts as its name, so that clients make no targets', () => {
  const targetOf = originTargets();
  expect(targetOf(zone, 'WWW.example.com.:443').serverName).toBe('www.example.com');
  const own = targetOf(zone, 'example.com');
  expect(own.serverName).toBe('example.com');
  for (const host of ['other.example', 'a.example.com', '[::1]:1', '', undefined])
    expect(targetOf(zone, host)).toBe(own);
});

test('another origin for the same name is another target, as after a reload', () => {
  const targetOf = originTargets();
  const changed = { ...zone, origin: 'https://127.0.0.1:2' };
  const ports = [zone, changed, zone].map((one) => targetOf(one, 'example.com').port);
  expect(ports).toEqual([1, 2, 1]);
});
