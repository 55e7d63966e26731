// How the cost grows with what is configured: accounts, zones and proxy applications.

import { generateKeyPairSync, randomInt } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { closedPort, errorAsks } from '../edge-asks.ts';
import type { PosternUnderTest, UnderTestOptions } from '../postern-under-test.ts';
import { cpuSeconds } from '../process-usage.ts';
import { firstLine, script, startOrigin } from '../script.ts';
import { startSink } from '../smtp-sink.ts';
import type { GrowthCase, Point } from './case.ts';
import { costOf, refusalOf, timedStart } from './gateway.ts';

/** Starts a gateway of each size, and measures it; a size that is refused is told. */
async function* started(
  sizes: readonly number[],
  options: (size: number) => Partial<UnderTestOptions>,
  more: (postern: PosternUnderTest, size: number) => Promise<Point['figures']>,
): AsyncGenerator<Point> {
  for (const size of sizes) {
    try {
      const { postern, readyMs, cpuMs, mebibytes } = await timedStart(options(size));
      try {
        const figures = { 'ms until ready': readyMs, 'CPU ms until ready': cpuMs, 'memory, MiB': mebibytes };
        yield { size, figures: { ...figures, ...(await more(postern, size)) } };
      } finally {
        await postern.stop();
      }
    } catch (error) {
      yield { size, figures: {}, refusal: refusalOf(error) };
    }
  }
}

function hex(number: number): string {
  return number.toString(16).padStart(32, '0');
}

function accountsOf(count: number): readonly object[] {
  return Array.from({ length: count - 1 }, (_, at) => ({
    name: `account-${at}`,
    id: hex(at + 1),
    sendingDomains: [{ name: `domain-${at}.example` }],
    credentials: [{ name: 'default', scopes: ['email:send'] }],
  }));
}

/** Gives each domain its DKIM key, one and the same, since a gateway would make those that are not there. */
async function writeKeys(dataFolder: string, count: number): Promise<void> {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  for (let at = 0; at < count - 1; at += 1) {
    const folder = join(dataFolder, `../certs/dkim/domain-${at}.example`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 's1.pem'), pem, { mode: 0o600 });
  }
}

async function messageCost(postern: PosternUnderTest): Promise<Point['figures']> {
  const sink = startSink();
  try {
    await costOf(postern, { messages: 1500, size: 4096 });
    const { cpu } = await costOf(postern, { messages: 1000, size: 4096 });
    return { 'CPU us a message': cpu };
  } finally {
    sink.stop();
  }
}

const accounts: GrowthCase = {
  name: 'accounts',
  title: 'Accounts',
  unit: 'accounts',
  sizes: [1, 10, 100, 1000, 10_000],
  small: [1, 100],
  note: 'Accounts of the configuration, each with a credential and a domain with its RSA key; 1,000 messages of one of them after 1,500 that warm it up.',
  plot: { y: 'ms, MiB, us', columns: ['ms until ready', 'memory, MiB', 'CPU us a message'] },
  measure: (sizes) =>
    started(
      sizes,
      (size) => ({ moreAccounts: accountsOf(size), prepare: (folder) => writeKeys(folder, size) }),
      messageCost,
    ),
};

/** Requests to one zone of all, after as many that warm it up. */
async function requestCost(postern: PosternUnderTest, host: string): Promise<Point['figures']> {
  const { path, accept } = errorAsks.json;
  const requests = 4000;
  const args = [postern.httpPort, host, path, accept, 522, 10, requests].map(String);
  await firstLine(script('edge-load.ts', args));
  const before = cpuSeconds(postern.pid);
  await firstLine(script('edge-load.ts', args));
  return { 'CPU us a request': ((cpuSeconds(postern.pid) - before) / requests) * 1e6 };
}

function zonesOf(count: number): readonly object[] {
  return Array.from({ length: count }, (_, at) => ({
    name: `zone-${at}.example`,
    id: hex(at + 1),
    account: 'dev',
    origin: `http://127.0.0.1:${closedPort}`,
  }));
}

const zones: GrowthCase = {
  name: 'zones',
  title: 'Zones of the edge',
  unit: 'zones',
  sizes: [1, 10, 100, 1000, 10_000],
  small: [1, 100],
  note: 'Zones of the configuration with an origin each; 4,000 requests for error 522 as JSON to the last of them.',
  plot: { y: 'ms, MiB, us', columns: ['ms until ready', 'memory, MiB', 'CPU us a request'] },
  measure: (sizes) =>
    started(
      sizes,
      (size) => ({ zones: zonesOf(size) }),
      (postern, size) => requestCost(postern, `zone-${size - 1}.example`),
    ),
};

/** Hostnames with addresses of their own that a zone may have by default. */
const perZone = 10;

async function* measureApplications(sizes: readonly number[]): AsyncGenerator<Point> {
  const origin = await startOrigin('proxy-origin.ts');
  const pool = `127.${randomInt(100, 250)}`;
  const application = (at: number): object => ({
    id: hex(at + 1),
    protocol: 'tcp/22',
    dns: { type: 'CNAME', name: `app-${at}.zone-${Math.floor(at / perZone)}.example` },
    origin_direct: [`tcp://127.0.0.1:${origin.port}`],
  });
  const connectionCost = async (postern: PosternUnderTest): Promise<Point['figures']> => {
    const args = [`${pool}.0.1`, '20022', '10', '2000', '100'];
    await firstLine(script('proxy-load.ts', args));
    const before = cpuSeconds(postern.pid);
    await firstLine(script('proxy-load.ts', args));
    return { 'CPU us a connection': ((cpuSeconds(postern.pid) - before) / 2000) * 1e6 };
  };
  const options = (size: number): Partial<UnderTestOptions> => {
    const zones = Array.from({ length: Math.ceil(size / perZone) }, (_, zone) => ({
      ...{ name: `zone-${zone}.example`, id: hex(zone + 1), account: 'dev' },
      applications: Array.from({ length: Math.min(perZone, size - zone * perZone) }, (__, at) =>
        application(zone * perZone + at),
      ),
    }));
    return { zones, proxy: { ipv4Pool: `${pool}.0.0/16`, portOffset: 20_000 } };
  };
  try {
    yield* started(sizes, options, connectionCost);
  } finally {
    await origin.stop();
  }
}

const applications: GrowthCase = {
  name: 'applications',
  title: 'Proxy applications',
  unit: 'applications',
  sizes: [1, 10, 100, 300, 1000],
  small: [1, 30],
  note: 'Applications of the configuration by TCP, ten to a zone, each with a hostname and an address of its own; 2,000 short connections to one of them.',
  plot: { y: 'ms, MiB, us', columns: ['ms until ready', 'memory, MiB', 'CPU us a connection'] },
  measure: measureApplications,
};

/** The cases of what is configured. */
export const configuredCases: readonly GrowthCase[] = [accounts, zones, applications];
