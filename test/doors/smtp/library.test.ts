// What the door relies on in smtp-server beside its documented interface. The version is pinned, and the adapter lists each
// member it relies on, so that an upgrade which moves one of them fails in this file and says which.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { libraryMembers } from '../../../src/doors/smtp/smtp-library.ts';

const root = join(import.meta.dirname, '../../..');

test('the version is pinned exactly, and is the one that is installed', () => {
  const read = (file: string): Record<string, Record<string, string> & string> =>
    JSON.parse(readFileSync(join(root, file), 'utf8')) as Record<string, Record<string, string> & string>;
  const pinned = read('package.json')['dependencies']?.['smtp-server'];
  expect(pinned).toMatch(/^\d+\.\d+\.\d+$/);
  expect(read('node_modules/smtp-server/package.json')['version']).toBe(pinned);
});

test.each(libraryMembers.flatMap(({ owner, methods }) => methods.map((name) => [owner.name, name, owner] as const)))(
  '%s has the method %s',
  (_class, name, owner) => {
    expect(typeof Reflect.get(owner.prototype, name)).toBe('function');
  },
);

test.each(libraryMembers.flatMap(({ owner, fields }) => fields.map((name) => [owner.name, name, owner] as const)))(
  '%s has the field %s',
  (_class, name, owner) => {
    expect(owner.toString().includes(`this.${name} =`)).toBe(true);
  },
);

test('the adapter reaches for each underscore member that it lists, and for no other', () => {
  const listed = libraryMembers.flatMap(({ methods, fields }) => [...methods, ...fields]);
  const text = readFileSync(join(root, 'src/doors/smtp/smtp-library.ts'), 'utf8');
  const reached = [...text.matchAll(/(?:\.|override )(_[A-Za-z]+)/g)].map(([, name]) => name ?? '');
  expect([...new Set(reached)].sort()).toEqual(listed.filter((name) => name.startsWith('_')).sort());
  expect(reached.length).toBeGreaterThan(15);
});
