// A data plane in a process of its own, so that it can run out of files: `node proxy-plane-process.ts ADDRESS PORT`
// forwards ADDRESS port 20022 to 127.0.0.1 port PORT and prints a line of counters, and the most memory that it ever
// had (`peakKib`), for each line it reads. A third argument is the PROXY header to write (v1, v2).

import { createInterface } from 'node:readline';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { createDataPlane } from '../../src/proxy/data-plane.ts';
import { createOrigins } from '../../src/proxy/origins.ts';
import { createResolver } from '../../src/proxy/resolver.ts';

const [address = '', port = '', header = 'off'] = process.argv.slice(2);
const ports = { first: Number(port), last: Number(port) };
const id = 'a0'.repeat(16);

const plane = createDataPlane({
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
      tls: 'off',
      firewall: { block: [], allow: [] },
    },
  ],
  portOffset: 20_000,
  originDeny: [],
  certificate: () => undefined,
  openUdp: () => Promise.reject(new Error('no UDP here')),
  createOrigins: (plan) => createOrigins(plan, { resolve: createResolver({ zones: [] }), clock: systemClock }),
  clock: systemClock,
  log: silentLog,
});

const tell = (): void => {
  const peakKib = process.resourceUsage().maxRSS;
  process.stdout.write(`${JSON.stringify({ ...plane.status(id), ...plane.traffic(id)?.counters, peakKib })}\n`);
};

await plane.reconcile();
tell();
for await (const _ of createInterface({ input: process.stdin })) tell();
