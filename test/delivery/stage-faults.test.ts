// Each fault of a next hop at each stage of the session, and what becomes of the message. docs/next-hop-faults.md is written
// from here.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Delivery } from '../../src/delivery/delivery.ts';
import { defaultTimeouts, type SmtpTimeouts } from '../../src/delivery/smtp/smtp-transaction.ts';
import type { OutcomeEvent } from '../../src/spool/events/mail-event.ts';
import { leaseMilliseconds } from '../../src/spool/spool-limits.ts';
import { type TestCertificate, testCertificate } from '../support/certificate.ts';
import { logLines } from '../support/log-lines.ts';
import { MemorySpool } from '../support/memory-spool/memory-spool.ts';
import { someTime, spoolEntry } from '../support/spool-entry.ts';
import { type SinkFault, type SinkStage, StageSink, sinkFaults, sinkStages } from '../support/stage-sink.ts';
import { type UnansweredPort, unansweredPort } from '../support/unanswered-port.ts';

const page = join(import.meta.dirname, '../../docs/next-hop-faults.md');
const retry = { firstDelaySeconds: 60, maxDelaySeconds: 14_400, jitter: 0, expireAfterSeconds: 432_000 };
const waiting = { timeout: 50_000, interval: 20 };
/** How long the client waits at the stage that stalls, in milliseconds. */
const patience = 4000;

/** The timeout that ends a stall at each stage. */
const timeoutOf = {
  connect: 'connect',
  greeting: 'greeting',
  EHLO: 'handshake',
  STARTTLS: 'handshake',
  'TLS handshake': 'handshake',
  AUTH: 'handshake',
  MAIL: 'mail',
  RCPT: 'rcpt',
  DATA: 'data',
  content: 'dataBlock',
  'end of data': 'endOfData',
  QUIT: 'idle',
} as const satisfies Record<SinkStage, keyof SmtpTimeouts>;

/** Faults that cannot happen at a stage. */
const impossible: Readonly<Partial<Record<SinkStage, readonly SinkFault[]>>> = {
  connect: ['4xx', '5xx', '421', 'garbage', 'half a reply'],
  'TLS handshake': ['4xx', '5xx', '421'],
};

/** Stages at which the next hop judges the message, so that its 5xx is for good. */
const judging: readonly SinkStage[] = ['MAIL', 'RCPT', 'DATA', 'content', 'end of data'];

function expectedKind(stage: SinkStage, fault: SinkFault): OutcomeEvent['kind'] {
  if (stage === 'QUIT') return 'delivered';
  // RFC 5321 §3.2: a server that does not know EHLO is greeted with HELO.
  if (stage === 'EHLO' && fault === '5xx') return 'delivered';
  return fault === '5xx' && judging.includes(stage) ? 'failed' : 'deferred';
}

/** How many copies the next hop has in the end. */
function expectedCopies(stage: SinkStage, fault: SinkFault): number {
  const isTakenUnanswered = stage === 'end of data' && !['4xx', '5xx', '421'].includes(fault);
  if (isTakenUnanswered) return 2;
  return expectedKind(stage, fault) === 'failed' ? 0 : 1;
}

interface Observed {
  readonly kind: OutcomeEvent['kind'];
  /** The reply that the queue keeps. */
  readonly words: string;
  readonly copies: number;
  /** What became of it once the next hop behaved. */
  readonly end: OutcomeEvent['kind'];
}

let folder = '';
let certificate: TestCertificate;
let caFile = '';
let unanswered: UnansweredPort;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'postern-stage-faults-'));
  certificate = await testCertificate();
  caFile = join(folder, 'ca.pem');
  writeFileSync(caFile, certificate.cert);
  unanswered = await unansweredPort();
});
afterAll(() => {
  unanswered?.close();
  rmSync(folder, { recursive: true, force: true });
});

function wordsOf({ reply }: OutcomeEvent, port: number): string {
  const { code, enhanced, text } = reply;
  // How the system calls the loss of a connection depends on what was on its way just then.
  const words = text.replace(/: (?:write|read) E[A-Z]+$/, '');
  return `${code} ${enhanced === undefined ? '' : `${enhanced} `}${words}`
    .replaceAll(`${port}`, 'PORT')
    .split('\n')
    .join(' / ');
}

/** Whether a timeout is to ring: it ends what stalls, and brings the QUIT of a connection without work. */
function isImpatient(stage: SinkStage, fault: SinkFault): boolean {
  return stage === 'QUIT' || fault === 'stall' || fault === 'half a reply';
}

/** Sends a message into the fault, has the next hop mend its ways, and waits for the end. */
async function observe(stage: SinkStage, fault: SinkFault): Promise<Observed> {
  const isSecure = ['STARTTLS', 'TLS handshake', 'AUTH'].includes(stage);
  const sink = await StageSink.start({ stage, fault, tls: isSecure ? certificate : undefined });
  const { port } = stage === 'connect' && fault === 'stall' ? unanswered : sink;
  if (stage === 'connect') await sink.close();
  let now = someTime;
  const clock = { now: () => now, monotonic: () => now };
  const spool = new MemorySpool(clock);
  const events: OutcomeEvent[] = [];
  spool.events.listen((event) => {
    if (event.kind === 'delivered' || event.kind === 'deferred' || event.kind === 'failed') events.push(event);
  });
  const delivery = new Delivery({
    spool,
    settings: {
      hostname: 'gateway.test',
      retry,
      routes: [
        {
          name: 'default',
          type: 'smarthost',
          host: '127.0.0.1',
          port,
          tls: isSecure ? 'required' : 'none',
          tlsVerify: isSecure,
          caFile,
          ...(isSecure ? { auth: { user: 'postern', password: 'secret' } } : {}),
          connections: 1,
          platformSignature: true,
        },
      ],
    },
    clock,
    log: logLines().log,
    random: () => 0.5,
    timeouts: isImpatient(stage, fault) ? { ...defaultTimeouts, [timeoutOf[stage]]: patience } : defaultTimeouts,
  });
  try {
    await delivery.start();
    const body = Buffer.alloc(stage === 'content' ? 8 * 1024 * 1024 : 100, 'A message.\r\n');
    const entry = spoolEntry({ body });
    await spool.add(entry, someTime + leaseMilliseconds);
    delivery.deliverNow(entry);
    await vi.waitUntil(() => events.length > 0, waiting);
    const [first] = events;
    if (!first) throw new Error('There is no outcome');
    if (stage === 'QUIT') await vi.waitUntil(() => sink.quits === 1, waiting);
    sink.heal();
    if (first.kind === 'deferred' && stage !== 'connect') {
      // Past every back-off and the next attempt.
      now += 3_600_000;
      await vi.waitUntil(() => events.at(-1)?.kind === 'delivered', waiting);
    }
    await delivery.drain(5000);
    if (delivery.metrics().connections > 0) throw new Error('A connection is left open');
    return {
      kind: first.kind,
      words: wordsOf(first, port),
      copies: sink.taken,
      end: events.at(-1)?.kind ?? 'deferred',
    };
  } finally {
    await delivery.drain(0);
    if (stage !== 'connect') await sink.close();
  }
}

const cells = sinkStages.flatMap((stage) =>
  sinkFaults.filter((fault) => !impossible[stage]?.includes(fault)).map((fault) => ({ stage, fault })),
);

const observed = new Map<string, PromiseSettledResult<Observed>>();

// All at once: most of the time passes in waiting for a timeout.
beforeAll(async () => {
  const results = await Promise.allSettled(cells.map(({ stage, fault }) => observe(stage, fault)));
  for (const [at, result] of results.entries()) observed.set(`${cells[at]?.stage} ${cells[at]?.fault}`, result);
}, 120_000);

function seenAt(stage: SinkStage, fault: SinkFault): Observed {
  const result = observed.get(`${stage} ${fault}`);
  if (result?.status !== 'fulfilled') throw new Error(`${fault} at ${stage} came to no end`, { cause: result?.reason });
  return result.value;
}

describe.each(cells)('$fault at $stage', ({ stage, fault }) => {
  test('ends as documented', () => {
    const seen = seenAt(stage, fault);
    expect(seen.kind).toBe(expectedKind(stage, fault));
    if (stage === 'connect') return;
    expect(seen.end).toBe(seen.kind === 'failed' ? 'failed' : 'delivered');
    expect(seen.copies).toBe(expectedCopies(stage, fault));
  });
});

const opening = `# Faults of a next hop

This page is for whoever wonders about a next hop that does something wrong.
What becomes of a message when the next hop does something wrong, stage by stage. Each row was played against a real server
on a socket (\`test/delivery/stage-faults.test.ts\` does it again with every test run), and the table is what was seen.

- **Outcome** is that of the first attempt. A message that is *deferred* stays in the queue and is tried again; one that
  *failed* is not.
- **Reply** is what \`postern queue show\` and the log then say. PORT stands for the next hop's port.
- **Copies** is how many times the next hop has the message once it behaves and the message was tried again. Two copies come
  about where the next hop took the message and its answer was not heard: sending it again is the only way not to lose it
  ([RFC 5321 §4.5.3.2.6](https://www.rfc-editor.org/rfc/rfc5321#section-4.5.3.2.6)). Both have the same Message-ID.

\`4xx\` and \`5xx\` are refusals of that class. \`421\` is that reply and the end of the connection, \`drop\` its end without a
reply. With \`stall\` nothing comes any more, and with \`half a reply\` the rest of it. \`garbage\` is a line that is no SMTP reply.
At STARTTLS, the TLS handshake and AUTH the route requires TLS and has a password.

| Stage | Fault | Outcome | Reply | Copies |
|---|---|---|---|---|`;

function row({ stage, fault }: (typeof cells)[number]): string {
  const { kind, words, copies } = seenAt(stage, fault);
  const shown = stage === 'connect' ? '-' : `${copies}`;
  return `| ${stage} | ${fault} | ${kind} | ${words.replaceAll('|', '\\|')} | ${shown} |`;
}

test('docs/next-hop-faults.md tells what was seen', () => {
  const wanted = `${[opening, ...cells.map(row)].join('\n')}\n`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, wanted);
  expect(readFileSync(page, 'utf8')).toBe(wanted);
});
