// What the door relies on in smtp-server beside its documented interface. The version is pinned, and each member is named
// here, so that an upgrade which moves one of them fails in this file and says which.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SMTPServer } from 'smtp-server';
import { SMTPConnection } from 'smtp-server/lib/smtp-connection.js';
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js';
import { expect, test } from 'vitest';

/** Methods that are called, or overridden because the library calls them. */
const methods = [
  [
    SMTPConnection,
    [
      'init',
      'send',
      'close',
      'upgrade',
      '_armTimeout',
      '_createParser',
      '_onClose',
      '_onCloseEvent',
      '_onError',
      '_resetSession',
      '_setListeners',
    ],
  ],
  [SMTPServer, ['connect', '_acceptSocket', '_handleProxy', '_upgrade']],
  [SMTPStream, ['_write', '_flushData']],
] as const;

/** Fields that are read or written, by the class whose constructor makes them. */
const fields = [
  [SMTPConnection, ['_closed', '_closing', '_parser', '_ready', '_socket', '_upgrading', 'id', 'secure']],
  [SMTPServer, ['_pendingSockets', 'connections', 'server']],
  [SMTPStream, ['isClosed']],
] as const;

test('the version is pinned exactly, and is the one that is installed', () => {
  const root = join(import.meta.dirname, '../../..');
  const read = (file: string): Record<string, Record<string, string> & string> =>
    JSON.parse(readFileSync(join(root, file), 'utf8')) as Record<string, Record<string, string> & string>;
  const pinned = read('package.json')['dependencies']?.['smtp-server'];
  expect(pinned).toMatch(/^\d+\.\d+\.\d+$/);
  expect(read('node_modules/smtp-server/package.json')['version']).toBe(pinned);
});

test.each(methods.flatMap(([owner, names]) => names.map((name) => [owner.name, name, owner] as const)))(
  '%s has the method %s',
  (_class, name, owner) => {
    expect(typeof Reflect.get(owner.prototype, name)).toBe('function');
  },
);

test.each(fields.flatMap(([owner, names]) => names.map((name) => [owner.name, name, owner] as const)))(
  '%s has the field %s',
  (_class, name, owner) => {
    expect(owner.toString().includes(`this.${name} =`)).toBe(true);
  },
);

test('the door reaches for no other underscore member of it', () => {
  const folder = join(import.meta.dirname, '../../../src/ingress/smtp');
  const known = new Set<string>([...methods, ...fields].flatMap(([, names]) => [...names]));
  const reached = ['smtp-session.ts', 'smtp-listener.ts', 'wire-reader.ts'].flatMap((file) =>
    [...readFileSync(join(folder, file), 'utf8').matchAll(/(?:this\.|super\.|override )(_[A-Za-z]+)/g)].map(
      ([, name]) => name ?? '',
    ),
  );
  expect(new Set(reached.filter((name) => !known.has(name)))).toEqual(new Set());
  expect(reached.length).toBeGreaterThan(15);
});
