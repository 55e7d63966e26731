// Reports of TLS with everything real around them: a database, a name server, the pipeline over a spool, a host that takes
// reports by HTTPS.

import type { IncomingHttpHeaders } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { onTestFinished } from 'vitest';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import { createDnsLookup } from '../../src/base/dns/dns-lookup.ts';
import { createAddressJudge } from '../../src/delivery/mx/address-judge.ts';
import type { TlsResult } from '../../src/delivery/mx/tls-demand.ts';
import { TlsReporter } from '../../src/delivery/tls-report/reporter.ts';
import { SessionCounts } from '../../src/delivery/tls-report/session-counts.ts';
import { openTlsReportStore } from '../../src/delivery/tls-report/tls-report-store.ts';
import { createSubmit } from '../../src/pipeline/submit.ts';
import type { SpoolEntry } from '../../src/spool/spool.ts';
import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { testCertificate } from './certificate.ts';
import { platform } from './checked.ts';
import { makeKey } from './dkim.ts';
import { type DnsName, startDnsServer } from './dns-server.ts';
import { logLines } from './log-lines.ts';
import { manualClock } from './manual-clock.ts';
import { scratchFolder } from './scratch.ts';

/** Noon of a day in UTC. */
export const noon = Date.parse('2026-11-21T12:00:00Z');

/** A host that takes reports by HTTPS. Its certificate is signed by itself. */
export async function startReportHost() {
  const taken: { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: Buffer }[] = [];
  const host = { taken, status: 201, silent: false, upgrades: false, floods: false, port: 0 };
  const { key, cert } = await testCertificate(['reports.test']);
  const server = createServer({ key, cert }, (request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      taken.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(pieces) });
      if (host.upgrades) {
        request.socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
        return;
      }
      if (host.floods) {
        const flood = setInterval(() => request.socket.write('HTTP/1.1 100 Continue\r\n\r\n'.repeat(100)), 1);
        request.socket.on('close', () => clearInterval(flood));
        return;
      }
      if (!host.silent) response.writeHead(host.status, { Location: 'https://127.0.0.1/' }).end('x'.repeat(100_000));
    });
  });
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  host.port = (server.address() as AddressInfo).port;
  return host;
}

/** One attempt, in order where nothing else is said. */
export function attemptTo(domain: string, changes: Partial<TlsResult> = {}): TlsResult {
  return {
    domain,
    policy: { type: 'no-policy-found' },
    exchanger: `mx.${domain}`,
    address: '192.0.2.1',
    localAddress: '198.51.100.1',
    ...changes,
  };
}

/** The report in a body that was handed over. */
export function readReport(body: Buffer): unknown {
  return JSON.parse(gunzipSync(body).toString('utf8'));
}

/** Starts it; it ends with the test. @param names what the name server knows */
export async function startTlsReporting(
  names: Readonly<Record<string, DnsName>>,
  { allowPrivate = ['127.0.0.0/8'] }: { readonly allowPrivate?: readonly string[] } = {},
) {
  const folder = scratchFolder();
  const clock = manualClock(noon);
  const dns = await startDnsServer(names);
  const { log, lines } = logLines();
  const spool = await SqliteSpool.open({ file: join(folder, 'postern.db'), clock });
  onTestFinished(() => spool.close());
  const key = await makeKey('platform.example', 'p1', 'ed25519');
  const queued: SpoolEntry[] = [];
  const submit = createSubmit({
    clock,
    hostname: 'mx.platform.example',
    platform,
    sendingDomain: (_, name) => ({ name, subdomains: false, dkim: [] }),
    domainKeys: () => [key.signing],
    platformKeys: [],
    wantsPlatformSignature: () => false,
    spool,
    expireAfterSeconds: 1000,
    onAccepted: (entry) => queued.push(entry),
    onRefused: () => undefined,
  });
  const settings = {
    enabled: true,
    organization: 'Example Platform',
    contact: 'postmaster@platform.example',
    allowPrivate,
    platformDomain: 'platform.example',
  };
  /** A process: its memory, over the database that all of them share. */
  const run = async (changes: { readonly mostKinds?: number } = {}) => {
    const database = await openDatabase(join(folder, 'reports.db'));
    onTestFinished(() => database.close());
    const store = await openTlsReportStore(database);
    const counts = new SessionCounts({ store, delayMinutes: 60, clock, log, random: () => 0.5, ...changes });
    const lookup = createDnsLookup({ servers: [dns.address], clock, tryMs: 200 });
    const judge = createAddressJudge({ allowPrivate, ownDoors: () => [] });
    const reporter = new TlsReporter({
      store,
      counts,
      settings: () => settings,
      lookup: () => lookup,
      judge: () => judge,
      submit,
      clock,
      log,
      postWithinMs: 2000,
    });
    return { database, store, counts, reporter };
  };
  return { clock, dns, lines, queued, settings, key, run };
}
