// A delivery by MX of a test's own: a real spool, a real name server, everything else as the gateway has it.

import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import { Delivery } from '../../src/delivery/delivery.ts';
import { openStsStore } from '../../src/delivery/mx/sts-policy.ts';
import type { TlsResult } from '../../src/delivery/mx/tls-demand.ts';
import type { MxRoute } from '../../src/delivery/settings.ts';
import { logEvent } from '../../src/spool/events/log-event.ts';
import type { OutcomeEvent } from '../../src/spool/events/mail-event.ts';
import type { SpoolEntry } from '../../src/spool/spool.ts';
import { leaseMilliseconds } from '../../src/spool/spool-limits.ts';
import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { type DnsName, startDnsServer } from './dns-server.ts';
import { logLines } from './log-lines.ts';
import { clockOf } from './manual-clock.ts';
import { scratchFolder } from './scratch.ts';
import { spoolEntry } from './spool-entry.ts';

const retry = { firstDelaySeconds: 60, maxDelaySeconds: 14_400, jitter: 0.2, expireAfterSeconds: 432_000 };

/** What is special about the delivery. */
export interface MxDeliveryChanges extends Partial<MxRoute> {
  readonly port: number;
  /** The name server's word is believed. */
  readonly validates?: boolean;
  /** The port of policy hosts. */
  readonly policyPort?: number;
  /** Connections to all next hops together. */
  readonly allConnections?: number;
  /** The clock goes on; otherwise it stands still. */
  readonly clockRuns?: boolean;
  /** Octets of accepted messages that are kept in memory. */
  readonly contentBytes?: number;
}

/**
 * Starts a delivery; it ends with the test.
 * @param names what the name server knows
 */
export async function runMxDelivery(names: Readonly<Record<string, DnsName>>, given: MxDeliveryChanges) {
  const { validates = false, policyPort, allConnections, contentBytes, clockRuns = false, ...changes } = given;
  const folder = scratchFolder();
  const now = Date.now();
  const results: TlsResult[] = [];
  const clock = clockOf(() => (clockRuns ? Date.now() : now));
  const dns = await startDnsServer(names);
  const spool = await SqliteSpool.open({ file: join(folder, 'postern.db'), clock });
  onTestFinished(() => spool.close());
  const database = await openDatabase(join(folder, 'rest.db'));
  onTestFinished(() => database.close());
  const { log, lines } = logLines();
  const route: MxRoute = {
    name: 'out',
    type: 'mx',
    platformSignature: true,
    tls: { mode: 'opportunistic', verify: false },
    tlsByDomain: new Map(),
    mtaSts: true,
    allowPrivate: ['127.0.0.0/8'],
    connections: 4,
    ...changes,
  };
  const delivery = new Delivery({
    spool,
    settings: {
      hostname: 'gateway.test',
      routes: [route],
      retry,
      resolver: { servers: [dns.address], validates },
      ...(allConnections === undefined ? {} : { connections: allConnections }),
    },
    ...(contentBytes === undefined ? {} : { contentBytes }),
    clock,
    log,
    random: () => 0.5,
    mx: {
      stsStore: await openStsStore(database),
      ownDoors: () => [],
      onTlsResult: (result) => results.push(result),
      ...(policyPort === undefined ? {} : { policyPort }),
    },
  });
  const events: OutcomeEvent[] = [];
  spool.events.listen((event) => {
    if (event.kind !== 'delivered' && event.kind !== 'deferred' && event.kind !== 'failed') return;
    logEvent(log, event);
    events.push(event);
  });
  onTestFinished(() => delivery.drain(0));
  const send = async (recipients: readonly string[], more: Partial<SpoolEntry> = {}): Promise<void> => {
    const entry = spoolEntry({
      acceptedAt: now,
      expiresAt: now + 432_000_000,
      recipients: [...recipients],
      ...more,
    });
    await spool.add(entry, entry.acceptedAt + leaseMilliseconds);
    delivery.deliverNow(entry);
  };
  return { dns, spool, delivery, events, lines, results, send };
}
