// A data plane in a process of its own, so that it can run out of files: `node proxy-plane-process.ts ADDRESS PORT`
// forwards ADDRESS port 20022 to 127.0.0.1 port PORT and prints a line of counters, and the most memory that it ever
// had (`peakKib`), for each line it reads, with what it has open: `descriptors` and `resources`, by kind. A third argument
// is the PROXY header to write (off, v1, v2), a fourth the TLS (off, flexible, full), a fifth the folder of the edge's
// certificate (`cert.pem`, `key.pem`).

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { createResolver } from '../../src/proxy/origins/dns-cache.ts';
import { createOrigins } from '../../src/proxy/origins/origins.ts';
import { DataPlane } from '../../src/proxy/plane/data-plane.ts';
import { readLimits } from '../../src/proxy/plane/data-plane-parts.ts';

const [address = '', port = '', header = 'off', tls = 'off', folder = ''] = process.argv.slice(2);
const ports = { first: Number(port), last: Number(port) };
const id = 'a0'.repeat(16);

const plane = new DataPlane({
  plans: async () => [
    {
      id,
      zone: '1'.repeat(32),
      account: 'a1'.repeat(16),
      name: 'app.example.com',
      transport: 'tcp',
      ports: { first: 22, last: 22 },
      addresses: [address],
      origin: { kind: 'direct', origins: [{ address: '127.0.0.1', ports }] },
      proxyProtocol: header === 'v1' || header === 'v2' ? header : 'off',
      tls: tls === 'flexible' || tls === 'full' ? tls : 'off',
      firewall: { block: [], allow: [] },
    },
  ],
  now: () => ({ settings: { portOffset: 20_000, originDeny: [], originAllow: [] }, drainMs: 30_000 }),
  limitsOf: readLimits({}).limitsOf,
  certificate: () => {
    if (folder === '') return undefined;
    const [cert = '', key = ''] = ['cert.pem', 'key.pem'].map((file) => readFileSync(join(folder, file), 'utf8'));
    return { cert, key };
  },
  createOrigins: (plan) => createOrigins(plan, { resolve: createResolver({ zones: [] }), clock: systemClock }),
  clock: systemClock,
  log: silentLog,
});

/** Undefined while there is none left to look with. */
function descriptors(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return undefined;
  }
}

const tell = (): void => {
  const peakKib = process.resourceUsage().maxRSS;
  const resources: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  // What is about to run in this turn of the event loop is nothing that is open.
  delete resources['Immediate'];
  const open = { descriptors: descriptors(), resources };
  const told = { ...plane.status(id), ...plane.traffic(id)?.counters, peakKib, ...open };
  process.stdout.write(`${JSON.stringify(told)}\n`);
};

await plane.reconcile();
tell();
for await (const _ of createInterface({ input: process.stdin })) tell();
