// Certificates are renewed while mail and requests come in: every later handshake shows the new one, no connection is dropped,
// and what is no certificate leaves the one before in its place.

import { X509Certificate } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { pino } from 'pino';
import { afterEach, expect, test, vi } from 'vitest';
import { openGateway } from '../../src/app/gateway.ts';
import { loadSettings } from '../../src/app/wiring/load-settings.ts';
import { systemClock } from '../../src/base/clock.ts';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import { type TestCertificate, testCertificate } from '../support/certificate.ts';
import { databaseFileOf } from '../support/database-file.ts';
import { type Reloadable, shippedConfig, startReloadable, testToken } from '../support/reloadable.ts';
import { scratchFolder } from '../support/scratch.ts';
import { plainResponse, RawClient } from '../support/smtp-peers.ts';

const mailHost = 'mx.platform.example';
const zoneHost = 'example.com';
/** What is said of a certificate and a key that do not belong together; OpenSSL says it where it looks itself. */
const mismatched = /another certificate|key values mismatch/;

// Each reload is a process of its own, which starts slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

const running: Reloadable[] = [];
afterEach(async () => {
  for (const one of running.splice(0)) await one.postern.cleanUp();
});

/** Puts a certificate in the place of another, as an ACME client does: each file in one step, one after the other. */
function install(certsDir: string, host: string, { cert, key }: Partial<TestCertificate>): void {
  const folder = join(certsDir, 'tls', host);
  for (const [name, text] of [
    ['fullchain.pem', cert],
    ['privkey.pem', key],
  ] as const) {
    if (text === undefined) continue;
    writeFileSync(join(folder, `${name}.new`), text, { mode: 0o600 });
    renameSync(join(folder, `${name}.new`), join(folder, name));
  }
}

const fingerprintOf = (pem: string): string => new X509Certificate(pem).fingerprint256;

interface Handshake {
  readonly fingerprint: string;
  readonly isReused: boolean;
  /** To be resumed. */
  readonly session: Buffer | undefined;
}

/** One handshake with TLS from the first octet; TLS 1.2, where a session is there to be resumed at once. */
function shake(port: number, options: { servername?: string; session?: Buffer | undefined } = {}): Promise<Handshake> {
  return new Promise((resolve, reject) => {
    const { session, servername = '' } = options;
    const socket: TLSSocket = connect({
      port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      maxVersion: 'TLSv1.2',
      servername,
      ...(session ? { session } : {}),
    });
    socket.once('error', reject);
    socket.once('secureConnect', () => {
      const { fingerprint256: fingerprint } = socket.getPeerCertificate();
      resolve({ fingerprint, isReused: socket.isSessionReused(), session: socket.getSession() });
      socket.destroy();
    });
  });
}

/** What STARTTLS shows. */
async function startTlsShows(port: number): Promise<string> {
  const { connect: connectTcp } = await import('node:net');
  const socket = connectTcp(port, '127.0.0.1');
  const until = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      let seen = '';
      socket.once('error', reject);
      socket.on('data', function take(chunk: Buffer) {
        seen += chunk.toString('latin1');
        if (!seen.includes(text)) return;
        socket.off('data', take);
        resolve();
      });
    });
  await until('220 ');
  socket.write('EHLO client.example\r\nSTARTTLS\r\n');
  await until('220 2.0.0');
  const secured = connect({ socket, rejectUnauthorized: false });
  return await new Promise((resolve, reject) => {
    secured.once('error', reject);
    secured.once('secureConnect', () => {
      resolve(secured.getPeerCertificate().fingerprint256);
      secured.destroy();
    });
  });
}

/** Sends mail over one session, and asks over one connection of HTTPS, until it is told to stop. */
function load({ postern }: Reloadable): { stop(): Promise<{ mails: number; requests: number; connections: number }> } {
  const stopping = new AbortController();
  let mails = 0;
  let requests = 0;
  const ports = new Set<number | undefined>();
  const sending = (async () => {
    const client = RawClient.openTls(postern.ports['submissions'] ?? 0);
    await client.reply();
    await client.ask('EHLO client.example');
    await client.ask(`AUTH PLAIN ${plainResponse('api_token', testToken)}`);
    while (!stopping.signal.aborted) {
      await client.ask('MAIL FROM:<a@example.com>');
      await client.ask('RCPT TO:<b@partner.test>');
      await client.ask('DATA');
      expect(await client.ask('From: a@example.com\r\n\r\nx\r\n.')).toMatch(/^250 /);
      mails += 1;
    }
    client.destroy();
  })();
  const agent = new Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
  const asking = (async () => {
    while (!stopping.signal.aborted) {
      const status = await new Promise((resolve, reject) => {
        const asked = request({ agent, port: postern.ports['https'], host: '127.0.0.1', path: '/livez' }, (answer) => {
          ports.add(answer.socket.localPort);
          answer.resume().on('end', () => resolve(answer.statusCode));
        });
        asked.on('error', reject).end();
      });
      expect(status).toBe(200);
      requests += 1;
    }
    agent.destroy();
  })();
  return {
    async stop() {
      stopping.abort();
      await Promise.all([sending, asking]);
      return { mails, requests, connections: ports.size };
    },
  };
}

test('a day’s renewal under load: each later handshake has the new certificate, no connection is dropped', async () => {
  const one = await startReloadable();
  running.push(one);
  const { ports, certsDir } = one.postern;
  const [starttls = 0, implicit = 0, https = 0] = ['submission', 'submissions', 'https'].map(
    (name) => ports[name] ?? 0,
  );
  const before = await shake(implicit);
  const zoneBefore = await shake(https, { servername: zoneHost });
  expect((await shake(implicit, { session: before.session })).isReused).toBe(true);
  const traffic = load(one);
  for (let round = 0; round < 3; round += 1) {
    const [mail, zone] = await Promise.all([testCertificate([mailHost]), testCertificate([zoneHost])]);
    install(certsDir, mailHost, mail);
    install(certsDir, zoneHost, zone);
    expect(await one.reload()).toMatchObject({
      code: 0,
      output: `reloaded: certificate of ${mailHost}, certificate of ${zoneHost}\n`,
    });
    const shown = await Promise.all([
      startTlsShows(starttls),
      ...[before.session, undefined].map(async (session) => (await shake(implicit, { session })).fingerprint),
    ]);
    expect(new Set(shown)).toEqual(new Set([fingerprintOf(mail.cert)]));
    const ofZone = await Promise.all([
      shake(https, { servername: zoneHost }),
      shake(https, { servername: zoneHost, session: zoneBefore.session }),
      shake(https),
    ]);
    expect(ofZone.map(({ fingerprint }) => fingerprint)).toEqual(ofZone.map(() => fingerprintOf(zone.cert)));
  }
  const { mails, requests, connections } = await traffic.stop();
  expect(mails).toBeGreaterThan(0);
  expect(requests).toBeGreaterThan(0);
  expect(connections).toBe(1);
  expect((await one.metrics()).get('postern_smtp_connections')).toBe(0);
});

test('a certificate without its key, and half a file, are refused by a reload; the one before is shown on', async () => {
  const one = await startReloadable();
  running.push(one);
  const { ports, certsDir } = one.postern;
  const shown = (await shake(ports['submissions'] ?? 0)).fingerprint;
  const mail = await testCertificate([mailHost]);
  install(certsDir, mailHost, { cert: mail.cert });
  const mismatch = await one.reload();
  expect(mismatch).toMatchObject({ code: 78, output: expect.stringMatching(mismatched) });
  install(certsDir, mailHost, { cert: mail.cert.slice(0, 200), key: mail.key });
  expect((await one.reload()).code).toBe(78);
  expect((await shake(ports['submissions'] ?? 0)).fingerprint).toBe(shown);
  expect(await startTlsShows(ports['submission'] ?? 0)).toBe(shown);
  install(certsDir, mailHost, mail);
  expect((await one.reload()).code).toBe(0);
  expect(await startTlsShows(ports['submission'] ?? 0)).toBe(fingerprintOf(mail.cert));
});

const dayMs = 86_400_000;

function expiredDates() {
  return { notBeforeDate: new Date(Date.now() - 2 * dayMs), notAfterDate: new Date(Date.now() - dayMs) };
}

/** A gateway in this process that looks for renewals ten times a second. */
async function startWatching({ expired = false } = {}) {
  const folder = scratchFolder();
  if (expired) {
    const place = join(folder, 'certs/tls', mailHost);
    mkdirSync(place, { recursive: true });
    install(join(folder, 'certs'), mailHost, await testCertificate([mailHost], expiredDates()));
  }
  writeFileSync(join(folder, 'postern.yaml'), JSON.stringify(shippedConfig()));
  const place = { env: { POSTERN_CONFIG: 'postern.yaml' }, cwd: folder };
  const settings = await loadSettings(place, systemClock);
  const lines: Record<string, unknown>[] = [];
  const log = pino(
    { level: 'info' },
    { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  const gateway = await openGateway({
    ...settings,
    database: await openDatabase(databaseFileOf(settings.config)),
    log,
    load: () => loadSettings(place, systemClock),
    certificatesEveryMs: 100,
  });
  const portOf = (name: string): number => gateway.listening.find((one) => one.name === name)?.port ?? 0;
  return { gateway, portOf, lines, certsDir: settings.config.certsDir };
}

test('one that is not valid now is refused by a reload and by the watch, in the same words, and shown once it is valid', async () => {
  const { gateway, portOf, lines, certsDir } = await startWatching();
  try {
    const shown = () => startTlsShows(portOf('submission'));
    const told = () =>
      lines.filter(({ msg }) => msg === 'the certificate before is shown on').map(({ reason }) => reason);
    const before = await shown();
    const file = join(certsDir, 'tls', mailHost, 'fullchain.pem');
    const at = Math.floor(Date.now() / 1000) * 1000;
    const [expired, early] = await Promise.all([
      testCertificate([mailHost], expiredDates()),
      testCertificate([mailHost], { notBeforeDate: new Date(at + dayMs), notAfterDate: new Date(at + 2 * dayMs) }),
    ]);
    const whose = `the certificate of ${mailHost} in ${file}`;
    for (const [certificate, fault] of [
      [expired, `${whose} has expired on ${new Date(at - dayMs).toISOString().slice(0, 10)}`],
      [early, `${whose} is not valid before ${new Date(at + dayMs).toISOString()}`],
    ] as const) {
      install(certsDir, mailHost, certificate);
      expect(await gateway.reload('command')).toEqual({ ok: false, faults: [fault] });
      await vi.waitFor(() => expect(told()).toContain(fault), { timeout: 10_000, interval: 20 });
      expect(await shown()).toBe(before);
    }
    const dates = { notBeforeDate: new Date(Date.now() + 2500), notAfterDate: new Date(at + dayMs) };
    const soon = await testCertificate([mailHost], dates);
    install(certsDir, mailHost, soon);
    await vi.waitFor(async () => expect(await shown()).toBe(fingerprintOf(soon.cert)), {
      timeout: 30_000,
      interval: 100,
    });
    expect(told().filter((reason) => String(reason).includes(' has expired on '))).toHaveLength(1);
    expect((await gateway.reload('command')).ok).toBe(true);
  } finally {
    await gateway.stop();
  }
});

test('where the certificate in use has expired too, one that is not valid now keeps no reload from other changes', async () => {
  const { gateway, portOf, lines, certsDir } = await startWatching({ expired: true });
  try {
    expect((await gateway.reload('command')).ok).toBe(true);
    const other = await testCertificate([mailHost], expiredDates());
    install(certsDir, mailHost, other);
    expect((await gateway.reload('command')).ok).toBe(true);
    expect(await startTlsShows(portOf('submission'))).toBe(fingerprintOf(other.cert));
    expect(lines.filter(({ msg }) => msg === 'the certificate before is shown on')).toEqual([]);
  } finally {
    await gateway.stop();
  }
});

test('a renewal is noticed without a reload; a broken one is told once, in the log and in /metrics', async () => {
  const { gateway, portOf, lines, certsDir } = await startWatching();
  try {
    const metric = async (name: string): Promise<number> => {
      const text = await (await fetch(`http://127.0.0.1:${portOf('http')}/metrics`)).text();
      return Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${name}{host="${mailHost}"}`))
          ?.split(' ')[1],
      );
    };
    const wait = async (holds: () => Promise<boolean> | boolean): Promise<void> => {
      while (!(await holds())) await new Promise((done) => setTimeout(done, 50));
    };
    const shows = async (pem: string): Promise<boolean> =>
      (await startTlsShows(portOf('submission'))) === fingerprintOf(pem) &&
      (await shake(portOf('submissions'))).fingerprint === fingerprintOf(pem);
    const [mail, zone] = await Promise.all([testCertificate([mailHost]), testCertificate([zoneHost])]);
    install(certsDir, mailHost, mail);
    install(certsDir, zoneHost, zone);
    await wait(() => shows(mail.cert));
    await wait(async () => {
      const { fingerprint } = await shake(portOf('https'), { servername: zoneHost });
      return fingerprint === fingerprintOf(zone.cert);
    });
    const expiry = new X509Certificate(mail.cert).validToDate.getTime() / 1000;
    expect(await metric('postern_certificate_expiry_timestamp_seconds')).toBe(expiry);
    const next = await testCertificate([mailHost]);
    install(certsDir, mailHost, { cert: next.cert });
    await wait(async () => (await metric('postern_certificate_renewal_failed')) === 1);
    await new Promise((done) => setTimeout(done, 500));
    const told = lines.filter(({ msg }) => msg === 'the certificate before is shown on');
    expect(told).toMatchObject([{ host: mailHost, reason: expect.stringMatching(mismatched) }]);
    expect(await shows(mail.cert)).toBe(true);
    install(certsDir, mailHost, { key: next.key });
    await wait(() => shows(next.cert));
    expect(await metric('postern_certificate_renewal_failed')).toBe(0);
    expect(readFileSync(join(certsDir, 'tls', mailHost, 'fullchain.pem'), 'utf8')).toBe(next.cert);
  } finally {
    await gateway.stop();
  }
});
