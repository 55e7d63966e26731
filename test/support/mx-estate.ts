// Mail exchangers, a name server and a policy host of a test's own, and the route by MX that leads to them. All mail
// exchangers have the same port, each on an address of loopback of its own.

import { createHash, X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { generate } from 'selfsigned';
import { onTestFinished } from 'vitest';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import { type MxFacilities, MxHops } from '../../src/delivery/mx/mx-hops.ts';
import type { MxSettings } from '../../src/delivery/mx/settings.ts';
import { openStsStore } from '../../src/delivery/mx/sts-policy.ts';
import type { TlsResult } from '../../src/delivery/mx/tls-demand.ts';
import { SmtpConnection } from '../../src/delivery/smtp/smtp-client.ts';
import { defaultTimeouts } from '../../src/delivery/smtp/smtp-transaction.ts';
import type { TestCertificate } from './certificate.ts';
import { type DnsName, type DnsServer, startDnsServer } from './dns-server.ts';
import { FaultSink, type FaultSinkOptions } from './fault-sink.ts';
import { logLines } from './log-lines.ts';
import { type ManualClock, manualClock } from './manual-clock.ts';
import { scratchFolder } from './scratch.ts';

/** What is other than usual with a certificate. */
export interface IssueChanges {
  readonly expired?: boolean;
  /** Who signs in place of the authority; its chain comes behind. */
  readonly by?: TestCertificate;
}

/** An authority of a test's own. */
export interface TestAuthority {
  /** PEM. */
  readonly cert: string;
  /** Makes a certificate for names, signed by the authority; `cert` has the authority's behind it. */
  issue(names: readonly string[], changes?: IssueChanges): Promise<TestCertificate>;
}

const day = 86_400_000;

/** Makes an authority. */
export async function testAuthority(name = 'Test CA'): Promise<TestAuthority> {
  const own = await generate([{ name: 'commonName', value: name }], {
    algorithm: 'sha256',
    keyType: 'ec',
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  return {
    cert: own.cert,
    async issue(names, { expired = false, by = { key: own.private, cert: own.cert } } = {}) {
      const end = Date.now() + (expired ? -day : 30 * day);
      const made = await generate([{ name: 'commonName', value: names[0] ?? 'x' }], {
        algorithm: 'sha256',
        keyType: 'ec',
        notBeforeDate: new Date(end - 40 * day),
        notAfterDate: new Date(end),
        ca: by,
        extensions: [
          { name: 'basicConstraints', cA: false },
          { name: 'subjectAltName', altNames: names.map((value) => ({ type: 2, value }) as const) },
        ],
      });
      return { key: made.private, cert: `${made.cert}\n${by.cert}` };
    },
  };
}

/** The data of a TLSA record: `usage selector matching hex`. */
export function tlsaOf(pem: string, [usage, selector, matching]: readonly [number, number, number]): string {
  const certificate = new X509Certificate(pem);
  const data = selector === 0 ? certificate.raw : certificate.publicKey.export({ type: 'spki', format: 'der' });
  const digest =
    matching === 0
      ? data
      : createHash(matching === 1 ? 'sha256' : 'sha512')
          .update(data)
          .digest();
  return `${usage} ${selector} ${matching} ${digest.toString('hex')}`;
}

/** What the policy host answers. */
export type PolicyAnswer = (request: IncomingMessage, response: ServerResponse) => void;

/** An answer with a policy. */
export function policyOf(lines: readonly string[]): PolicyAnswer {
  return (_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain' });
    response.end(['version: STSv1', ...lines, ''].join('\r\n'));
  };
}

/** The estate. */
export interface MxEstate {
  readonly dns: DnsServer;
  readonly clock: ManualClock;
  readonly authority: TestAuthority;
  readonly results: readonly TlsResult[];
  readonly lines: readonly Record<string, unknown>[];
  /** The port of all mail exchangers. */
  readonly port: number;
  /** The port of the policy host. */
  readonly policyPort: () => number;
  /** A mail exchanger at `127.0.0.N`. */
  sink(last: number, options?: FaultSinkOptions): Promise<FaultSink>;
  /** The next hops of a route, over the same store each time. */
  hops(changes?: Partial<MxSettings>, facilities?: Partial<MxFacilities>): MxHops;
  /** What answers as a policy host, and how often it was asked. */
  policy: PolicyAnswer;
  readonly fetches: readonly string[];
}

async function startPolicyHost(certificate: TestCertificate, answer: PolicyAnswer): Promise<Server> {
  const server = createServer({ key: certificate.key, cert: certificate.cert }, answer);
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
  return server;
}

/** Starts an estate; it ends with the test. @param policyNames the names of the policy host's certificate */
export async function startMxEstate(
  names: Readonly<Record<string, DnsName>>,
  { policyNames = ['mta-sts.x.test'], validates = true }: { policyNames?: readonly string[]; validates?: boolean } = {},
): Promise<MxEstate> {
  const folder = scratchFolder();
  const authority = await testAuthority();
  const caFile = join(folder, 'ca.pem');
  writeFileSync(caFile, authority.cert);
  const dns = await startDnsServer(names);
  const database = await openDatabase(join(folder, 'estate.db'));
  onTestFinished(() => database.close());
  const stsStore = await openStsStore(database);
  const clock = manualClock(Date.now());
  const { log, lines } = logLines();
  const results: TlsResult[] = [];
  const fetches: string[] = [];
  const first = await FaultSink.start({ host: '127.0.0.250' });
  onTestFinished(() => first.close());
  const { port } = first;
  const estate: MxEstate = {
    dns,
    clock,
    authority,
    results,
    lines,
    port,
    policyPort: () => (policyHost.address() as AddressInfo).port,
    fetches,
    policy: (_, response) => response.writeHead(404).end(),
    async sink(last, options = {}) {
      const sink = await FaultSink.start({ ...options, host: `127.0.0.${last}`, port });
      onTestFinished(() => sink.close());
      return sink;
    },
    hops: (changes = {}, facilities = {}) =>
      new MxHops({
        route: {
          name: 'mx',
          port,
          tls: { mode: 'opportunistic', verify: false },
          tlsByDomain: new Map(),
          caFile,
          mtaSts: true,
          allowPrivate: ['127.0.0.0/8'],
          ...changes,
        },
        hostname: 'gateway.test',
        resolver: { servers: [dns.address], validates },
        facilities: {
          stsStore,
          ownDoors: () => [],
          onTlsResult: (result) => results.push(result),
          policyPort: estate.policyPort(),
          policyWithinMs: 2000,
          ...facilities,
        },
        timeouts: { ...defaultTimeouts, connect: 2000, greeting: 2000, handshake: 2000 },
        clock,
        log,
        random: Math.random,
      }),
  };
  const policyHost = await startPolicyHost(await authority.issue(policyNames), (request, response) => {
    fetches.push(`${request.headers.host}${request.url}`);
    estate.policy(request, response);
  });
  return estate;
}

/** Connects to a domain: who answered over what, or the outcome. */
export async function reach(hops: MxHops, domain: string, tls?: 'required' | 'no'): Promise<string> {
  const hop = await hops.find(domain, tls);
  if ('kind' in hop) return `${hop.kind} ${hop.reply.code} ${hop.reply.enhanced} ${hop.reply.text}`;
  const connection = await hop.connect({ domain, signal: new AbortController().signal });
  if (!(connection instanceof SmtpConnection)) {
    const { code, enhanced, text } = connection.refused;
    return `refused ${code} ${enhanced} ${text}`;
  }
  const { policy, version = 'clear', verified = false } = connection.session.tls;
  const name = connection.peer.split('[')[0];
  connection.destroy({ code: 451, text: 'the test is over' });
  return `${name} ${version === 'clear' ? 'clear' : 'TLS'} ${policy}${verified ? ' verified' : ''}`;
}
