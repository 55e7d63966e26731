// Whatever a next hop does, what may go to it does go: the transport with its pools, its connections and the real handshake, a next
// hop in memory that behaves at random, and a clock that the test moves. What waits is begun within the longest back-off.

import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ConnectionBudget } from '../../../src/delivery/hop/connection-budget.ts';
import { wholeShares } from '../../../src/delivery/hop/hop-share.ts';
import { newJob, type Task } from '../../../src/delivery/job.ts';
import type { SmarthostRoute } from '../../../src/delivery/settings.ts';
import { HandshakeFailure } from '../../../src/delivery/smtp/handshake-failure.ts';
import { type NextHop, SmtpConnection } from '../../../src/delivery/smtp/smtp-client.ts';
import { handshake } from '../../../src/delivery/smtp/smtp-handshake.ts';
import { SmtpTransport } from '../../../src/delivery/smtp-transport.ts';
import { TransportShare } from '../../../src/delivery/transport-share.ts';
import { logLines } from '../../support/log-lines.ts';
import fc from '../../support/properties.ts';
import { spoolEntry } from '../../support/spool-entry.ts';

type Answer = 'ok' | '421' | 'rate' | 'busy' | 'drop' | 'silent';

/** How the next hop behaves for some time. */
interface Phase {
  readonly seconds: number;
  /** Connections that it takes; more are refused with 421 in place of the greeting. */
  readonly most: number;
  readonly connect: 'ok' | 'refused' | 'silent';
  readonly greeting: Answer;
  readonly mail: Answer;
  readonly dot: Answer;
  readonly slowMs: number;
}

interface World {
  readonly phases: readonly Phase[];
  /** How it behaves at last: it takes all mail over so many connections. */
  readonly most: number;
  readonly slowMs: number;
  readonly connections: number;
  readonly messagesPerConnection: number;
  readonly messagesPerSecond: number | undefined;
  readonly budget: number;
  readonly accounts: number;
  readonly messages: number;
}

const backoffSeconds = 4;
/** How long the spool keeps what was deferred, how often it is asked, and how long the client waits for an answer. */
const [retryMs, claimMs, answerMs] = [5000, 500, 3000];
const replies = {
  '421': '421 4.7.0 Too many connections',
  rate: '450 4.7.1 Rate limited',
  busy: '450 4.2.1 Mailbox busy',
} as const;
const timeouts = {
  ...{ connect: answerMs, greeting: answerMs, handshake: answerMs, mail: answerMs, rcpt: answerMs, data: answerMs },
  ...{ dataBlock: answerMs, endOfData: answerMs, transaction: 60_000, idle: 15_000 },
};
const options = {
  host: 'hop.test',
  port: 25,
  hostname: 'gateway.test',
  tls: 'none',
  tlsVerify: false,
  timeouts,
} as const;

/** A next hop in memory. */
class Hop {
  phase: Phase;
  open = 0;
  refused = 0;
  /** Connections being tried and messages begun, and when the last of them began or ended. */
  underWay = 0;
  lastAt = performance.now();

  constructor(phase: Phase) {
    this.phase = phase;
  }

  begin(): () => void {
    this.underWay += 1;
    this.lastAt = performance.now();
    let hasEnded = false;
    return () => {
      if (hasEnded) return;
      hasEnded = true;
      this.underWay -= 1;
      this.lastAt = performance.now();
    };
  }
}

/** The client's end of a connection, which the next hop answers. */
class Wire extends Duplex {
  readonly #hop: Hop;
  readonly #lines: string[] = [];
  #text = '';
  #isOpen = false;
  #isBusy = false;
  #isData = false;
  #endMessage: () => void = () => undefined;

  constructor(hop: Hop) {
    super();
    this.#hop = hop;
    process.nextTick(() => this.#accept());
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: string, done: () => void): void {
    this.#text += chunk.toString('latin1');
    const lines = this.#text.split('\r\n');
    this.#text = lines.pop() ?? '';
    this.#lines.push(...lines);
    this.#work();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#leave();
    done(error);
  }

  #leave(): void {
    if (this.#isOpen) this.#hop.open -= 1;
    this.#isOpen = false;
    this.#endMessage();
  }

  #accept(): void {
    const { connect, most, greeting } = this.#hop.phase;
    if (connect === 'refused') this.destroy(new Error('connect ECONNREFUSED'));
    if (connect !== 'ok') return;
    this.emit('connect');
    if (this.#hop.open >= most) {
      this.#hop.refused += 1;
      this.#answer('421');
      return;
    }
    this.#hop.open += 1;
    this.#isOpen = true;
    this.#answer(greeting, '220 hop.test');
  }

  #answer(answer: Answer, words = '250 Ok'): void {
    if (answer === 'ok') this.push(`${words}\r\n`);
    else if (answer === 'drop') this.destroy();
    else if (answer !== 'silent') this.push(`${replies[answer]}\r\n`);
    if (answer !== '421') return;
    this.#leave();
    this.push(null);
  }

  #work(): void {
    while (!this.#isBusy && !this.destroyed) {
      const line = this.#lines.shift();
      if (line === undefined) return;
      if (this.#isData) this.#takeContent(line);
      else this.#takeCommand(line);
    }
  }

  #takeContent(line: string): void {
    if (line !== '.') return;
    const { slowMs, dot } = this.#hop.phase;
    this.#isData = false;
    this.#isBusy = true;
    setTimeout(() => {
      this.#isBusy = false;
      this.#endMessage();
      this.#answer(dot);
      this.#work();
    }, slowMs);
  }

  #takeCommand(line: string): void {
    if (line.startsWith('EHLO')) this.push('250-hop.test\r\n250 PIPELINING\r\n');
    else if (line === 'DATA') {
      this.#isData = true;
      this.push('354 Go on\r\n');
    } else if (line === 'QUIT') {
      this.#leave();
      this.push(null);
    } else if (line.startsWith('MAIL')) {
      this.#endMessage();
      this.#endMessage = this.#hop.begin();
      this.#answer(this.#hop.phase.mail);
      // What follows MAIL in its group is refused as well; the client has the first answer already.
      if (this.#hop.phase.mail === 'rate' || this.#hop.phase.mail === 'busy') this.#endMessage();
    } else this.push('250 Ok\r\n');
  }
}

/** The messages, each in the spool until it is due, in hand, or delivered. */
class Mail {
  readonly transport: SmtpTransport;
  readonly hop: Hop;
  readonly #due = new Map<Task, number>();
  #claimsAt = 0;
  delivered = 0;

  constructor(world: World, hop: Hop) {
    this.hop = hop;
    const { connections, messagesPerConnection, messagesPerSecond: rate, budget } = world;
    const route: SmarthostRoute = {
      ...{ name: 'out', type: 'smarthost', host: 'hop.test', port: 25, tls: 'none', tlsVerify: false },
      ...{ connections, platformSignature: true },
    };
    this.transport = new SmtpTransport({
      ...{ route, shares: wholeShares, budget: new ConnectionBudget(budget), room: () => 100, log: logLines().log },
      limits: { connections, messagesPerConnection, backoffSeconds, ...(rate ? { messagesPerSecond: rate } : {}) },
      limitsOf: () => undefined,
      hops: { find: async () => this.#nextHop() },
      host: { load: () => false, isStale: () => false, giveBack: (task) => this.#wait(task, 0) },
      events: {
        finish: (task, results) => {
          if (results[0]?.kind === 'delivered') this.delivered += 1;
          else this.#wait(task, retryMs);
        },
        unreached: (task, { retryInMs }) => this.#wait(task, Math.max(1, retryInMs)),
        troubled: () => undefined,
        giveBack: (task) => this.#wait(task, 0),
      },
      clock: { monotonic: () => performance.now() },
    });
    const share = new TransportShare(route, { name: 'out', transports: 1, contentBytes: 1000 });
    const takenAt = { wall: 0, monotonic: 0 };
    for (let count = 0; count < world.messages; count += 1) {
      const entry = spoolEntry({ id: `m${count}`, account: `account${count % world.accounts}` });
      const job = newJob({ entry, share, size: 1, recipientCount: 1, isClaimed: false, takenAt, claimEndsAt: 0 });
      job.content = { head: entry.head, body: entry.body };
      // Some come from the pipeline at once, the others are claimed.
      const task = { job, recipients: [{ address: 'x@hop.test', attempts: 0 }], deadConnections: 0 };
      if (count % 2 === 0) this.transport.push(task);
      else this.#wait(task, 0);
    }
  }

  /** Something waits that may go: it is in hand, or due. */
  get isWaiting(): boolean {
    const [view] = this.transport.destinations();
    return (view?.waiting ?? 0) > 0 || [...this.#due.values()].some((at) => at <= performance.now());
  }

  /** Claims as delivery does. */
  claim(): void {
    const now = performance.now();
    if (now < this.#claimsAt) return;
    const admission = this.transport.admits(undefined);
    if ('waitMs' in admission) this.#claimsAt = now + admission.waitMs;
    const due = [...this.#due].filter(([, at]) => at <= now).slice(0, admission.messages);
    for (const [task] of due) {
      this.#due.delete(task);
      this.transport.push({ ...task, deadConnections: 0 });
    }
  }

  #wait(task: Task, ms: number): void {
    this.#due.set(task, performance.now() + ms);
  }

  #nextHop(): NextHop {
    return {
      key: 'hop',
      label: 'out (hop)',
      connect: async () => {
        const end = this.hop.begin();
        const wire = new Wire(this.hop) as unknown as Socket;
        wire.on('error', () => undefined);
        try {
          return new SmtpConnection(await handshake(wire, options), options);
        } catch (thrown) {
          wire.destroy();
          if (!(thrown instanceof HandshakeFailure)) throw thrown;
          return { refused: thrown.reply, said: thrown.said ? [thrown.said] : [] };
        } finally {
          end();
        }
      },
    };
  }
}

/** Lets the streams and promises do what they can without time. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 4; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Lets time go by, in steps between which all that may happen does, and looks at each whether something stands still. */
async function pass(mail: Mail, ms: number, isDone: () => boolean = () => false): Promise<void> {
  const step = 100;
  for (let gone = 0; gone < ms && !isDone(); gone += step) {
    vi.advanceTimersByTime(step);
    if (gone % claimMs === 0) mail.claim();
    await settle();
    const [view] = mail.transport.destinations();
    if (mail.hop.underWay > 0 || mail.transport.active > 0 || !mail.isWaiting) {
      mail.hop.lastAt = performance.now();
      continue;
    }
    const idleMs = performance.now() - mail.hop.lastAt;
    if (idleMs > backoffSeconds * 1000 + 2 * claimMs + 1000)
      throw new Error(`Nothing was begun for ${idleMs} ms: ${JSON.stringify(view)}`);
    if (idleMs > step && (view?.waiting ?? 0) > 0 && view?.trouble === undefined && view?.waits === undefined)
      throw new Error(`It waits without a reason: ${JSON.stringify(view)}`);
  }
}

const answers = fc.constantFrom<Answer>('ok', 'ok', '421', 'rate', 'busy', 'drop', 'silent');
const phases: fc.Arbitrary<Phase> = fc.record({
  seconds: fc.integer({ min: 1, max: 20 }),
  most: fc.integer({ min: 0, max: 6 }),
  connect: fc.constantFrom('ok', 'ok', 'ok', 'refused', 'silent'),
  greeting: answers,
  mail: answers,
  dot: answers,
  slowMs: fc.constantFrom(0, 50, 300, 2000),
});
const worlds: fc.Arbitrary<World> = fc.record({
  phases: fc.array(phases, { maxLength: 4 }),
  most: fc.integer({ min: 1, max: 5 }),
  slowMs: fc.constantFrom(0, 100, 300),
  connections: fc.integer({ min: 1, max: 10 }),
  messagesPerConnection: fc.constantFrom(1, 3, 1000),
  messagesPerSecond: fc.constantFrom(undefined, undefined, 3),
  budget: fc.constantFrom(1, 3, 500),
  accounts: fc.integer({ min: 1, max: 3 }),
  messages: fc.integer({ min: 1, max: 40 }),
});

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] }));
afterEach(() => void vi.useRealTimers());

/** The next hop behaves as the phases say, and at last takes all mail. */
async function run(world: World): Promise<void> {
  const last = { seconds: 0, most: world.most, slowMs: world.slowMs } as const;
  const well: Phase = { ...last, connect: 'ok', greeting: 'ok', mail: 'ok', dot: 'ok' };
  const hop = new Hop(world.phases[0] ?? well);
  const mail = new Mail(world, hop);
  try {
    for (const phase of world.phases) {
      hop.phase = phase;
      await pass(mail, phase.seconds * 1000);
    }
    hop.phase = well;
    hop.refused = 0;
    const eachMs = Math.max(world.slowMs + 300, 1000 / (world.messagesPerSecond ?? 1000));
    const within = answerMs + retryMs + 2 * backoffSeconds * 1000 + world.messages * eachMs;
    await pass(mail, within, () => mail.delivered === world.messages);
    expect(mail.delivered).toBe(world.messages);
    // At first as many as may be open, then one at a time.
    expect(hop.refused).toBeLessThanOrEqual(world.connections + 6);
  } finally {
    mail.transport.abort();
    await settle();
  }
}

test('what may go to a next hop does go, whatever that does, and what waits has a reason', async () => {
  await fc.assert(fc.asyncProperty(worlds, run), { numRuns: 60 });
});
