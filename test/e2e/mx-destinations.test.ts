// A route by MX beside its queue: domains of the same mail exchangers share one budget, one that is down holds up none of the
// others, and `postern queue destinations` tells both.

import { afterEach, expect, test, vi } from 'vitest';
import { deviceConfiguration } from '../support/device-config.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { startHere } from '../support/postern-here.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { runCli } from '../support/run-cli.ts';

vi.setConfig({ testTimeout: 90_000 });

let closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.toReversed()) await close();
  closers = [];
});

interface Row {
  readonly domain?: string;
  readonly queued: number;
  readonly hop?: Readonly<Record<string, unknown>> & { readonly domains: readonly string[] };
}

test('three domains of one exchanger and one that is down: budget, back-off, and what the queue command tells', async () => {
  const sink = await FaultSink.start({ host: '127.0.0.2', slowMilliseconds: 50 });
  closers.push(() => sink.close());
  const dns = await startDnsServer({
    'a.test': { mx: ['10 one.test'] },
    'b.test': { mx: ['10 one.test'] },
    'c.test': { mx: ['20 one.test'] },
    'down.test': { mx: ['10 two.test'] },
    'one.test': { a: ['127.0.0.2'] },
    // Nobody listens there.
    'two.test': { a: ['127.0.0.3'] },
  });
  const postern = await startHere({
    config: deviceConfiguration({
      routes: [
        {
          ...{ name: 'out', type: 'mx', port: sink.port, tls: 'none', mtaSts: false, connections: 3 },
          ...{ allowPrivate: ['127.0.0.0/8'] },
        },
      ],
      delivery: {
        resolver: { servers: [dns.address] },
        destinations: [{ domains: ['b.test'], connections: 2 }],
      },
    }),
  });
  closers.push(() => postern.cleanUp());

  const client = await connectSmtp(postern.ports['devices'] ?? 0);
  await client.reply();
  await client.command('EHLO x');
  const domains = ['down.test', 'a.test', 'b.test', 'c.test'];
  for (let count = 0; count < 40; count += 1) {
    const recipient = `slow+${count}@${domains[count % domains.length]}`;
    for (const line of ['MAIL FROM:<a@example.com>', `RCPT TO:<${recipient}>`, 'DATA']) await client.command(line);
    client.write('From: a@example.com\r\nSubject: x\r\n\r\nx\r\n.\r\n');
    expect((await client.reply()).code).toBe(250);
  }
  client.close();

  await postern.until(() => sink.messages.length === 30);
  expect(new Set(sink.messages.map(({ recipients }) => recipients[0])).size).toBe(30);
  // The first message may have come before that of the domain with a limit of its own.
  expect(sink.connections).toBeLessThanOrEqual(3);
  const linesOf = (msg: string) => postern.log().filter((line) => line['msg'] === msg);
  await postern.until(() => linesOf('delivered').length === 30);
  // Ten messages wait for one next hop, which is tried once for all of them: after 1 s, 2 s, 4 s and so on.
  expect(linesOf('next hop is down').length).toBeLessThanOrEqual(5);
  expect(linesOf('next hop is down')[0]).toMatchObject({ route: 'out', host: 'out (two.test)' });

  const destinations = async (...args: readonly string[]): Promise<string> => {
    const { exitCode, stdout, stderr } = await runCli(['queue', 'destinations', ...args], {
      env: postern.env,
      cwd: postern.folder,
    });
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    return stdout;
  };
  const rows = (await destinations('--json'))
    .trim()
    .split('\n')
    .map((line): Row => JSON.parse(line));
  expect(rows).toHaveLength(2);
  expect(rows[0]).toMatchObject({
    ...{ domain: 'down.test', queued: 10 },
    hop: { label: 'out (two.test)', domains: ['down.test'], trouble: 'down', lastWords: { code: 451 } },
  });
  expect(rows[1]).toMatchObject({ queued: 0, hop: { label: 'out (one.test)', allowed: 2, most: 2 } });
  expect(rows[1]?.hop?.domains.toSorted()).toEqual(['a.test', 'b.test', 'c.test']);
  expect(rows[0]?.hop?.['key']).not.toBe(rows[1]?.hop?.['key']);
  expect(await destinations()).toMatch(/^out \(two\.test\) +10 .*ECONNREFUSED/m);
});
