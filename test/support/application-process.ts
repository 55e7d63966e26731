// A process of its own that writes proxy applications, for tests of two at once.
// node application-process.ts FILE NAME: says `ready`, waits for a line, and prints how many writes of each kind of race
// came through.

import { once } from 'node:events';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import { openApplicationStore } from '../../src/proxy/store/application-store.ts';
import { applicationWrite, type WriteOptions, zones } from './applications.ts';
import { testPatienceMs } from './database-patience.ts';

const [, , file, name] = process.argv;
if (!file || !name) throw new Error('Usage: application-process.ts FILE NAME');

const database = await openDatabase(file, { patienceMs: testPatienceMs });
const store = await openApplicationStore(database);
process.stdout.write('ready\n');
await once(process.stdin, 'data');

const own = name === 'one' ? zones.one : zones.two;
const races: Readonly<Record<string, (at: number) => WriteOptions>> = {
  protocol: (at) => ({ zone: zones.payg, sole: true, hostname: `${name}-${at}.payg.example`, quota: 1000 }),
  // The port differs, so that only the hostname is raced for.
  hostname: () => ({ zone: own, hostname: 'raced.example', protocol: 'udp/7', quota: 1000 }),
  'edge-ips': () => ({
    zone: own,
    hostname: `ip.${name}.example`,
    edge: { kind: 'static', ips: ['127.9.0.1'] },
  }),
  ports: (at) => ({
    zone: zones.one,
    hostname: 'ports.one.example',
    protocol: `tcp/${at + 1}-${at + 100}`,
    edge: { kind: 'static', ips: ['127.9.0.2'] },
  }),
  quota: (at) => ({ zone: '4'.repeat(32), hostname: `${name}-${at}.four.example`, quota: 5 }),
};

const came: Record<string, number> = {};
for (let at = 0; at < 50; at += 1) {
  for (const [kind, options] of Object.entries(races)) {
    if ((await store.create(applicationWrite(options(at)))).ok) came[kind] = (came[kind] ?? 0) + 1;
  }
}
process.stdout.write(`${JSON.stringify(came)}\n`);
await database.close();
