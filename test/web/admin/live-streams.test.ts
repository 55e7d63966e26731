// Live streams among many: no account takes the places of others, and a client that does not read harms nobody.

import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { SharedPlaces } from '../../../src/app/processes/shared-places.ts';
import { systemClock } from '../../../src/base/clock.ts';
import type { JournalItem } from '../../../src/spool/journal/journal.ts';
import { LiveStreams, liveEndpoints } from '../../../src/web/admin/journal/live-endpoint.ts';
import { createStreamSlots } from '../../../src/web/admin/journal/live-hub.ts';
import { startConsole } from '../../support/console-app.ts';
import { MemorySpool } from '../../support/memory-spool/memory-spool.ts';

type StreamSlots = ReturnType<typeof createStreamSlots>;

async function takeAll(takePlace: StreamSlots, account: string | undefined): Promise<number> {
  let taken = 0;
  while (await takePlace(account)) taken += 1;
  return taken;
}

/** Places of one process, or of two that count together. */
function twoProcesses(): readonly [StreamSlots, StreamSlots] {
  const counts = new SharedPlaces();
  const ofProcess = (): StreamSlots => {
    const process = {};
    return createStreamSlots({
      take: async (wanted) => counts.take(process, wanted),
      ask: async (wanted) => counts.ask(wanted),
      giveBack: (keys) => counts.giveBack(process, keys),
    });
  };
  return [ofProcess(), ofProcess()];
}

test.each([1, 2])(
  'however many streams ten accounts want, others and the operator get theirs: processes %i',
  async (n) => {
    const one = createStreamSlots(undefined);
    const [first, second] = n === 1 ? [one, one] : twoProcesses();
    let taken = 0;
    for (let at = 0; at < 10; at += 1) taken += await takeAll(at % 2 === 0 ? first : second, `greedy-${at}`);
    expect(taken).toBeLessThanOrEqual(140);
    expect(taken).toBeGreaterThanOrEqual(100);
    // An account that comes later gets some, and so do more accounts than there are.
    for (let at = 0; at < 10; at += 1) expect(await takeAll(second, `late-${at}`)).toBe(4);
    expect(await takeAll(first, 'last')).toBe(180 - taken - 40 > 0 ? 4 : 0);
    for (let at = 0; at < 50; at += 1) await takeAll(second, `more-${at}`);
    const leave = await first(undefined);
    expect(leave).toBeDefined();
    expect(await takeAll(second, undefined)).toBe(19);
    leave?.();
    expect(await takeAll(second, undefined)).toBe(1);
  },
);

test('an account’s streams take none of the operator’s places, nor the operator’s those of an account', async () => {
  const spool = new MemorySpool(systemClock);
  const streams = new LiveStreams({ journal: { rows: async () => [] }, events: spool.events }, () => true);
  const app = await startConsole({ plugins: [liveEndpoints(streams, true)] });
  const leave = new AbortController();
  // An answer that nobody holds may be collected as garbage, and its connection is closed with it.
  const answers: Response[] = [];
  onTestFinished(() => {
    leave.abort();
    answers.length = 0;
  });
  const open = async (token: string): Promise<number> => {
    const headers = { Authorization: `Bearer ${token}` };
    const url = `${app.base}/client/v4/accounts/dev/email/sending/live`;
    const answer = await fetch(url, { headers, signal: leave.signal });
    answers.push(answer);
    return answer.status;
  };
  for (let count = 0; count < 20; count += 1) expect(await open('dev-boss')).toBe(200);
  expect([await open('dev-boss'), await open('dev-reader')]).toEqual([429, 200]);
});

test('a stream ends where its token may watch no more, whatever session its request shows besides', {
  timeout: 60_000,
}, async () => {
  const spool = new MemorySpool(systemClock);
  const streams = new LiveStreams({ journal: { rows: async () => [] }, events: spool.events }, () => true);
  const app = await startConsole({ plugins: [liveEndpoints(streams, true)] });
  const Cookie = await app.signIn('dev-boss');
  const make = async (): Promise<{ readonly id: string; readonly token: string }> => {
    const scopes = ['console:edit'] as const;
    const { record, token } = await app.tokens.create({
      account: 'a1'.repeat(16),
      credential: 'editor',
      createdAt: 1,
      scopes,
    });
    return { id: record.id, token };
  };
  const [revoked, narrowed, kept] = [await make(), await make(), await make()];
  const ended: string[] = [];
  const leave = new AbortController();
  onTestFinished(() => leave.abort());
  for (const { id, token } of [revoked, narrowed, kept]) {
    const headers = { Authorization: `Bearer ${token}`, Cookie, 'X-Postern-Console': '1', Origin: app.base };
    const path = '/client/v4/accounts/dev/email/sending/live';
    const answer = await fetch(`${app.base}${path}`, { headers, signal: leave.signal });
    expect(answer.status).toBe(200);
    void answer.text().then(
      () => ended.push(id),
      () => undefined,
    );
  }
  await app.tokens.revoke({ id: revoked.id, now: app.clock.now() });
  await app.database.run("UPDATE tokens SET scopes = 'email:send' WHERE id = $1", [narrowed.id]);
  await vi.waitFor(() => expect(ended.toSorted()).toEqual([revoked.id, narrowed.id].toSorted()), 20_000);
});

test('a client that stops reading is cut off, and the others are told of every row', { timeout: 30_000 }, async () => {
  const spool = new MemorySpool(systemClock);
  const subject = 'long '.repeat(4000);
  const rows = async (ids: readonly string[]): Promise<JournalItem[]> =>
    ids.map((id, seq) => {
      const facts = { recipients: [], count: 0, subject };
      return { seq, id, at: 0, account: 'dev', outcome: 'refused', facts };
    });
  const streams = new LiveStreams({ journal: { rows }, events: spool.events }, () => true);
  const app = await startConsole({ plugins: [liveEndpoints(streams, true)] });
  const path = '/client/v4/accounts/dev/email/sending/live';
  const head = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${app.port}\r\nAuthorization: Bearer dev-reader\r\n\r\n`;
  const deaf = connect(app.port, '127.0.0.1');
  onTestFinished(() => void deaf.destroy());
  deaf.on('error', () => undefined);
  deaf.write(head);
  const [begun] = await once(deaf, 'data');
  expect(String(begun)).toContain('200 OK');
  deaf.pause();
  const ended = new AbortController();
  onTestFinished(() => ended.abort());
  const headers = { Authorization: 'Bearer dev-reader' };
  const good = await fetch(`${app.base}${path}`, { headers, signal: ended.signal });
  let told = 0;
  const listening = (async () => {
    for await (const chunk of good.body?.pipeThrough(new TextDecoderStream()) ?? [])
      told += chunk.split('event: row').length - 1;
  })().catch(() => undefined);
  const all = 800;
  for (let at = 0; at < all; at += 1) {
    spool.events.refuse({
      ...{ account: 'dev', credential: 'default', sessionId: 's', via: 'smtp', clientAddress: '192.0.2.1' },
      ...{ stage: 'message', journalId: `row-${at}`, recipients: [], violations: [], violationCount: 0 },
    });
    if (at % 20 === 19) await vi.waitFor(() => expect(told).toBeGreaterThan(at - 20), { timeout: 10_000, interval: 5 });
  }
  await vi.waitFor(() => expect(told).toBe(all), { timeout: 10_000, interval: 20 });
  // Of 16 MB it gets what the system had taken for it, and then the end.
  let got = 0;
  deaf.on('data', (chunk: Buffer) => void (got += chunk.length));
  const closed = once(deaf, 'close');
  deaf.resume();
  await closed;
  expect(got).toBeLessThan(all * subject.length * 0.7);
  ended.abort();
  await listening;
});
