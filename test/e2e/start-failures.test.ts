// A start that fails says why and ends by itself, whichever part it was: what was opened is closed, nobody has to kill it.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openSqliteFile } from '../../src/base/database/sqlite-file.ts';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { projectRoot } from '../support/postern-process.ts';
import { scratchFolder } from '../support/scratch.ts';
import { copyTestKeys } from '../support/test-keys.ts';

/** Longer than any failed start may take; a process that is still there then is killed, and its exit code is null. */
const patienceMs = 25_000;

interface Place {
  readonly folder: string;
  /** A port of 127.0.0.1 that somebody listens on. */
  readonly takenPort: number;
}

type Configuration = ReturnType<typeof deviceConfiguration> & Record<string, unknown>;

async function placeWithTakenPort(): Promise<Place> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const folder = scratchFolder();
  copyTestKeys(join(folder, 'certs'));
  return { folder, takenPort: (server.address() as AddressInfo).port };
}

async function startAndEnd(folder: string, config: object): Promise<{ exitCode: number | null; output: string }> {
  writeFileSync(join(folder, 'postern.yaml'), JSON.stringify(config));
  const child = spawn(process.execPath, [join(projectRoot, 'src/main.ts'), 'serve'], {
    cwd: folder,
    env: {
      PATH: process.env['PATH'],
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
      POSTERN_CONFIG: join(folder, 'postern.yaml'),
      POSTERN_DATA_DIR: join(folder, 'data'),
      POSTERN_CERTS_DIR: join(folder, 'certs'),
      POSTERN_HTTPS_PORT: '',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const cut = setTimeout(() => child.kill('SIGKILL'), patienceMs);
  const [exitCode] = (await once(child, 'close')) as [number | null];
  clearTimeout(cut);
  return { exitCode, output };
}

const listener = { name: 'devices', listen: '127.0.0.1:0', tls: 'none', credential: 'dev/devices', allowFrom: ['::1'] };

/** What is broken, and how the process has to end. */
const cases: readonly {
  readonly part: string;
  readonly exitCode: number;
  readonly says: RegExp;
  readonly prepare?: (place: Place) => void;
  readonly config?: (place: Place) => object;
}[] = [
  {
    part: 'a listener whose credential may not send',
    exitCode: 78,
    says: /lacks the scope email:send/,
    config: () => ({
      accounts: [
        {
          name: 'dev',
          id: 'a1'.repeat(16),
          sendingDomains: [{ name: 'example.com' }],
          credentials: [{ name: 'devices', scopes: ['proxy:read'] }],
        },
      ],
    }),
  },
  {
    part: 'an SMTP port that is taken',
    exitCode: 78,
    says: /EADDRINUSE.*Something listens there already: end it, or change listen of "devices" in smtp\.listeners\n/,
    config: ({ takenPort }) => ({
      smtp: {
        listeners: [
          { ...listener, name: 'off', enabled: false },
          { ...listener, listen: `127.0.0.1:${takenPort}` },
        ],
      },
    }),
  },
  {
    part: 'the port of the first listener with STARTTLS',
    exitCode: 78,
    says: /change listen of "submission" in smtp\.listeners, or POSTERN_SMTP_PORT\n/,
    config: ({ takenPort }) => ({
      development: { account: 'dev', credential: 'devices' },
      smtp: {
        listeners: [listener, { name: 'submission', listen: `127.0.0.1:${takenPort}`, tls: 'starttls' }],
      },
    }),
  },
  {
    part: 'the second of two SMTP listeners',
    exitCode: 78,
    says: /EADDRINUSE/,
    config: ({ takenPort }) => ({
      smtp: { listeners: [listener, { ...listener, name: 'second', listen: `127.0.0.1:${takenPort}` }] },
    }),
  },
  {
    part: 'an HTTP port that is taken',
    exitCode: 78,
    says: /Cannot listen on http .*change http\.listen, or POSTERN_HTTP_PORT\n/,
    config: ({ takenPort }) => ({ http: { listen: `127.0.0.1:${takenPort}` } }),
  },
  {
    part: 'a database that is none',
    exitCode: 1,
    says: /Cannot open database/,
    prepare: ({ folder }) => {
      mkdirSync(join(folder, 'data'));
      writeFileSync(join(folder, 'data/postern.db'), 'This is no database. '.repeat(100));
    },
  },
  {
    part: 'a spool that a newer version has written',
    exitCode: 1,
    says: /it is older than its data/,
    prepare: ({ folder }) => {
      const database = openSqliteFile(join(folder, 'data/postern.db'));
      database.exec('CREATE TABLE migrations (owner TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT');
      database.exec("INSERT INTO migrations VALUES ('spool', 9999)");
      database.close();
    },
  },
  {
    part: 'applications that a newer version has written',
    exitCode: 1,
    says: /it is older than its data/,
    prepare: ({ folder }) => {
      const database = openSqliteFile(join(folder, 'data/postern.db'));
      database.exec('CREATE TABLE migrations (owner TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT');
      database.exec("INSERT INTO migrations VALUES ('proxy', 9999)");
      database.close();
    },
  },
  {
    part: 'a folder of bodies that is a file',
    exitCode: 1,
    says: /bodies/,
    prepare: ({ folder }) => {
      mkdirSync(join(folder, 'data'));
      writeFileSync(join(folder, 'data/bodies'), '');
    },
  },
  {
    part: 'a key that is none',
    exitCode: 78,
    says: /hmac|s1\.pem|key/i,
    prepare: ({ folder }) => {
      mkdirSync(join(folder, 'certs/dkim/example.com'), { recursive: true });
      writeFileSync(join(folder, 'certs/dkim/example.com/s1.pem'), 'no key');
    },
  },
  {
    part: 'an Error Page that is not there',
    exitCode: 78,
    says: /nowhere\.html/,
    config: () => ({
      zones: [
        {
          name: 'example.com',
          id: '1'.repeat(32),
          account: 'dev',
          customErrors: { errorPage: { file: 'nowhere.html' } },
        },
      ],
    }),
  },
];

test.each(cases)(
  '$part',
  async ({ exitCode, says, prepare, config }) => {
    const place = await placeWithTakenPort();
    prepare?.(place);
    const base: Configuration = { ...deviceConfiguration({ routes: [captureRoute] }) };
    const ended = await startAndEnd(place.folder, { ...base, ...config?.(place) });
    expect(ended).toEqual({ exitCode, output: expect.stringMatching(says) });
    expect(ended.output).not.toMatch(/^ {4}at |left open/m);
  },
  30_000,
);
