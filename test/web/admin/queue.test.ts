// The queue by the API: who sees what, and what may be done to whose mail. The spool is a real one; nothing delivers.

import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import type { DestinationView } from '../../../src/delivery/transport.ts';
import type { Spool } from '../../../src/spool/spool.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { queueEndpoints } from '../../../src/web/admin/queue/queue-endpoints.ts';
import { createQueueLines } from '../../../src/web/admin/queue/queue-groups.ts';
import { findSelected } from '../../../src/web/admin/queue/queue-selection.ts';
import { type ConsoleApp, startConsole } from '../../support/console-app.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { countsOf } from '../../support/spool-counts.ts';
import { attemptOf, spoolEntry } from '../../support/spool-entry.ts';

const hop: DestinationView = {
  key: 'k',
  label: 'l',
  route: 'direct',
  domains: ['full.example'],
  ...{ connections: 1, allowed: 1, most: 2, waiting: 0, active: 0, waitMs: 60_000, trouble: 'down' },
  lastWords: { code: 451, text: 'no room for secret@full.example' },
};

interface Estate {
  readonly app: ConsoleApp;
  readonly spool: Spool;
  /** Asks as a credential of an account; of all accounts where the account is ''. */
  readonly ask: (as: string, path: string, body?: unknown) => ReturnType<ConsoleApp['ask']>;
  /** Accepts messages. @returns their ids */
  readonly accept: (account: string, recipients: readonly string[], count?: number) => Promise<string[]>;
}

async function start(): Promise<Estate> {
  const folder = scratchFolder();
  const spool = await SqliteSpool.open({
    file: join(folder, 'spool.db'),
    bodiesFolder: join(folder, 'bodies'),
    clock: systemClock,
  });
  onTestFinished(() => spool.close());
  const plugin = queueEndpoints({
    spool,
    lines: () => createQueueLines(spool, systemClock)(),
    destinations: () => [hop],
    routeOf: () => 'direct',
    newTimes: () => ({ now: Date.now(), expiresAt: Date.now() + 1e6 }),
    now: () => Date.UTC(2026, 10, 22),
    clock: systemClock,
    log: silentLog,
  });
  const app = await startConsole({ plugins: [plugin] });
  let made = 0;
  return {
    app,
    spool,
    async ask(as, path, body) {
      const Cookie = await app.signIn(as);
      const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
      return await app.ask(`/client/v4${path}`, { ...init, headers: { Cookie, 'Content-Type': 'application/json' } });
    },
    async accept(account, recipients, count = 1) {
      const entries = Array.from({ length: count }, () => {
        made += 1;
        const transports = recipients.map((address) => `direct#1/${address.split('@')[1]}`);
        return spoolEntry({ account, recipients: [...recipients], transports, acceptedAt: Date.now() + made });
      });
      await Promise.all(entries.map((entry) => spool.add(entry, 0)));
      return entries.map(({ id }) => id);
    },
  };
}

const dev = '/accounts/dev/email/sending/queue';
const all = '/email/sending/queue';
const result = (answer: Awaited<ReturnType<ConsoleApp['ask']>>) => answer.json.result as Record<string, unknown>;
const rows = (answer: Awaited<ReturnType<ConsoleApp['ask']>>) => answer.json.result as Record<string, unknown>[];

describe('what waits', () => {
  test('is grouped by destination; next hops speak of others’ mail to the operator alone', async () => {
    const { ask, accept } = await start();
    await accept('dev', ['a@full.example', 'b@other.example'], 3);
    await accept('other', ['c@full.example']);
    const own = rows(await ask('dev-reader', dev));
    expect(own.map(({ account, destination, depth }) => [account, destination, depth])).toEqual([
      ['dev', 'full.example', 3],
      ['dev', 'other.example', 3],
    ]);
    expect(own[0]).toMatchObject({
      route: 'direct',
      state: 'down',
      next_at: '2026-11-22T00:01:00.000Z',
      last_reply: null,
    });
    const every = rows(await ask('dev-boss', all));
    expect(every.length).toBe(3);
    expect(every.find(({ account }) => account === 'other')?.['last_reply']).toContain('secret@full.example');
    expect((await ask('dev-editor', all)).status).toBe(403);
    expect((await ask('dev-editor', '/accounts/other/email/sending/queue')).status).toBe(404);
  });

  test('is listed message by message, in pages, of one account alone', async () => {
    const { ask, accept } = await start();
    const own = await accept('dev', ['a@full.example'], 3);
    await accept('other', ['a@full.example'], 3);
    const first = await ask('dev-reader', `${dev}/messages?per_page=2`);
    const info = (JSON.parse(first.text) as { result_info: { cursor: string } }).result_info;
    const second = await ask('dev-reader', `${dev}/messages?per_page=2&cursor=${info.cursor}`);
    expect([...rows(first), ...rows(second)].map(({ id }) => id)).toEqual(own);
    expect(rows(first)[0]).toMatchObject({ account: 'dev', recipient: 'a@full.example', state: 'queued', hold: null });
    expect(rows(await ask('dev-reader', `${dev}/messages?destination=elsewhere.example`))).toEqual([]);
    expect(
      rows(await ask('dev-reader', `${dev}/messages?destination=FULL.example&route=direct&state=queued`)),
    ).toHaveLength(3);
    expect(rows(await ask('dev-reader', `${dev}/messages?search=${own[1]}`))).toHaveLength(1);
    for (const query of [
      'destination=a%20b',
      'per_page=0',
      'per_page=101',
      'limit=101',
      'cursor=x',
      'state=gone',
      'search=',
      'q=',
    ]) {
      expect([query, (await ask('dev-reader', `${dev}/messages?${query}`)).status]).toEqual([query, 400]);
    }
  });

  test('is selected by the route that mail of its account to the recipient takes', async () => {
    const { spool, accept } = await start();
    const [id] = await accept('dev', ['a@full.example', 'b@other.example']);
    await accept('other', ['a@full.example']);
    const routeOf = (account: string, recipient: string) =>
      account === 'dev' && recipient === 'a@full.example' ? 'direct' : 'another';
    const { selected } = await findSelected({ spool, routeOf }, { route: 'direct' }, { limit: 9 });
    const addresses = selected.map(({ item, recipients }) => [item.entry.id, ...recipients.map((one) => one.address)]);
    expect(addresses).toEqual([[id, 'a@full.example']]);
  });

  test('is read of the own account alone, however much others have', async () => {
    const { spool, accept } = await start();
    await accept('other', ['a@full.example'], 3);
    const own = await accept('dev', ['a@full.example'], 2);
    const read: string[] = [];
    const list: Spool['list'] = async (query) => {
      const page = await spool.list(query);
      read.push(...page.items.map(({ entry }) => entry.id));
      return page;
    };
    await findSelected({ spool: { list }, routeOf: () => 'direct' }, { account: 'dev' }, { limit: 9 });
    expect(read).toEqual(own);
  });

  test('is found by its id, while it waits and whose it is', async () => {
    const { ask, accept } = await start();
    const [id = ''] = await accept('dev', ['a@x.example', 'b@y.example']);
    const [foreign = ''] = await accept('other', ['a@x.example']);
    const found = async (as: string, path: string): Promise<unknown[]> =>
      rows(await ask(as, path)).map((row) => [row['id'], row['recipient_count']]);
    expect(await found('dev-reader', `${dev}/messages?id=${id.toUpperCase()}`)).toEqual([[id, 2]]);
    expect(await found('dev-reader', `${dev}/messages?id=${id}&destination=y.example`)).toEqual([[id, 1]]);
    expect(await found('dev-reader', `${dev}/messages?id=${id}&state=held`)).toEqual([]);
    expect(await found('dev-reader', `${dev}/messages?id=${foreign}`)).toEqual([]);
    expect(await found('dev-boss', `${all}/messages?id=${foreign}`)).toEqual([[foreign, 1]]);
    await ask('dev-editor', `${dev}/actions`, { action: 'drop', ids: [id] });
    expect(await found('dev-reader', `${dev}/messages?id=${id}`)).toEqual([]);
  });
});

describe('what is done', () => {
  test('is done to one’s own messages alone, whatever ids are named', async () => {
    const { ask, accept, spool } = await start();
    const [own = ''] = await accept('dev', ['a@full.example']);
    const [foreign = ''] = await accept('other', ['a@full.example']);
    const unknown = own.replaceAll(/[0-9]/g, '7');
    for (const action of ['retry', 'hold', 'release', 'drop']) {
      const answer = await ask('dev-editor', `${dev}/actions`, { action, ids: [foreign, unknown] });
      expect([action, result(answer)]).toEqual([
        action,
        { action, done: 0, recipients: 0, rule: false, skipped: 2, next: null },
      ]);
    }
    expect((await spool.show(foreign))?.recipients[0]?.hold).toBeUndefined();
    expect(
      result(await ask('dev-editor', `${dev}/actions`, { action: 'drop', ids: [own, own, foreign] })),
    ).toMatchObject({
      done: 1,
    });
    // Submitted twice.
    expect(result(await ask('dev-editor', `${dev}/actions`, { action: 'drop', ids: [own] }))).toMatchObject({
      done: 0,
    });
    expect(await countsOf(spool)).toEqual({ queued: 1, failed: 0 });
    expect(result(await ask('other-boss', `${all}/actions`, { action: 'drop', ids: [foreign] }))).toMatchObject({
      done: 1,
    });
  });

  test('is not done by who may only read, or may not act for all', async () => {
    const { ask, accept } = await start();
    const ids = await accept('dev', ['a@full.example']);
    const drop = { action: 'drop', ids };
    const statuses = await Promise.all([
      ask('dev-reader', `${dev}/actions`, drop),
      ask('dev-editor', `${all}/actions`, drop),
      ask('other-editor', `${dev}/actions`, drop),
    ]);
    expect(statuses.map(({ status }) => status)).toEqual([403, 403, 404]);
  });

  test('is refused where it is not clear to what', async () => {
    const { ask } = await start();
    const id = '0190f3c1-0000-7000-8000-000000000000';
    const bodies = [
      {},
      { action: 'drop' },
      { action: 'drop', ids: [] },
      { action: 'drop', ids: ['x'] },
      { action: 'explode', ids: [id] },
      { action: 'drop', ids: [id], filter: {} },
      { action: 'drop', filter: { destination: 'a b' } },
      { action: 'drop', filter: { sender: 'x' } },
      { action: 'drop', ids: Array.from({ length: 501 }, () => id) },
    ];
    for (const body of bodies) {
      expect([body, (await ask('dev-editor', `${dev}/actions`, body)).status]).toEqual([body, 400]);
    }
  });

  test('a selection is worked through; a message that waits for others besides is not dropped with it', async () => {
    const { ask, accept, spool } = await start();
    await accept('dev', ['a@full.example'], 250);
    const [both = ''] = await accept('dev', ['a@full.example', 'b@other.example']);
    await accept('other', ['a@full.example'], 5);
    const filter = { destination: 'full.example' };
    const [done, skipped] = [0, 0];
    const sum = { done, skipped };
    for (let after: unknown = undefined, turn = 0; after !== null && turn < 20; turn += 1) {
      const answer = result(
        await ask('dev-editor', `${dev}/actions`, { action: 'drop', filter, ...(after ? { after } : {}) }),
      );
      sum.done += Number(answer['done']);
      sum.skipped += Number(answer['skipped']);
      after = answer['next'];
    }
    expect(sum).toEqual({ done: 250, skipped: 1 });
    expect(await spool.show(both)).toBeDefined();
    expect(await countsOf(spool)).toEqual({ queued: 6, failed: 0 });
  });
});

describe('what has failed for good', () => {
  const said = { reply: { code: 550, text: 'no' }, host: 'h' };
  const place = { destination: 'full.example', route: 'direct' };

  /** Three messages that wait, two that have failed, and one with a recipient of each. */
  async function mixed() {
    const estate = await start();
    const { accept, spool } = estate;
    const waits = await accept('dev', ['a@full.example'], 3);
    const failed = await accept('dev', ['b@full.example'], 2);
    const [both = ''] = await accept('dev', ['a@full.example', 'b@full.example']);
    const entries = [...failed, both].map((id) => ({ ...spoolEntry({ account: 'dev' }), id }));
    await spool.record(
      entries.map((entry) => attemptOf(entry, { kind: 'failed', ...said }, { recipient: 'b@full.example' })),
    );
    const states = async (ids: readonly string[]) =>
      (await Promise.all(ids.map((id) => spool.show(id)))).flatMap(
        (item) => item?.recipients.map(({ state, hold }) => (hold ? 'held' : state)) ?? ['gone'],
      );
    const act = async (body: object, as = 'dev-editor') => result(await estate.ask(as, `${dev}/actions`, body));
    return { ...estate, waits, failed, both, states, act };
  }

  test.each(['dev-editor', 'dev-boss'])('is left alone by a destination’s buttons (%s)', async (as) => {
    const { waits, failed, both, states, act } = await mixed();
    expect(await act({ action: 'retry', filter: place }, as)).toMatchObject({ done: 4, recipients: 4, skipped: 0 });
    expect(await states([...failed, both])).toEqual(['failed', 'failed', 'queued', 'failed']);
    expect(await act({ action: 'hold', filter: place }, as)).toMatchObject({ done: 1, recipients: 4, rule: true });
    expect(await states([...waits, ...failed, both])).toEqual([
      'held',
      'held',
      'held',
      'failed',
      'failed',
      'held',
      'failed',
    ]);
    expect(await act({ action: 'release', filter: place }, as)).toMatchObject({ done: 1, recipients: 4, rule: true });
    // The message that is open besides is not removed with what waits.
    expect(await act({ action: 'drop', filter: place }, as)).toMatchObject({ done: 3, recipients: 3, skipped: 1 });
    expect(await states([...waits, ...failed, both])).toEqual([
      'gone',
      'gone',
      'gone',
      'failed',
      'failed',
      'queued',
      'failed',
    ]);
  });

  test('is tried, held and dropped where it is asked for by name', async () => {
    const { failed, both, states, act, spool } = await mixed();
    const filter = { ...place, state: 'failed' };
    // A hold is on all of a message: one that waits for another recipient is left alone.
    expect(await act({ action: 'hold', filter })).toMatchObject({ done: 2, recipients: 2, skipped: 1, rule: false });
    expect((await spool.holds()).map(({ value }) => value).toSorted()).toEqual(failed.toSorted());
    for (const { kind, value } of await spool.holds()) await spool.liftHold({ kind, value });
    // Nobody's hold is written over by another one.
    await spool.addHold({ kind: 'message', value: failed[0] ?? '', at: 1, by: 'root', why: 'a complaint' });
    expect(await act({ action: 'hold', filter: { ...filter, search: failed[0] } })).toMatchObject({
      done: 0,
      skipped: 1,
    });
    expect(await spool.holds()).toMatchObject([{ by: 'root' }]);
    await spool.liftHold({ kind: 'message', value: failed[0] ?? '' });
    expect(await act({ action: 'drop', filter: { ...filter, search: failed[0] } })).toMatchObject({
      done: 1,
      recipients: 1,
    });
    expect(await act({ action: 'drop', filter: { ...filter, search: both } })).toMatchObject({ done: 0, skipped: 1 });
    expect(await act({ action: 'retry', filter })).toMatchObject({ done: 2, recipients: 2, skipped: 0 });
    expect(await states([...failed, both])).toEqual(['gone', 'queued', 'queued', 'queued']);
  });

  test('is left alone in messages that are named, unless its state is named beside them', async () => {
    const { waits, failed, both, states, act, ask } = await mixed();
    const ids = [...waits, ...failed, both];
    expect(await act({ action: 'retry', ids })).toMatchObject({ done: 4, recipients: 4, skipped: 2 });
    expect(await act({ action: 'hold', ids })).toMatchObject({ done: 4, recipients: 4, skipped: 2 });
    // What is held is not tried.
    expect(await act({ action: 'retry', ids })).toMatchObject({ done: 0, recipients: 0, skipped: 6 });
    expect(await act({ action: 'release', ids })).toMatchObject({ done: 4, recipients: 4, skipped: 2 });
    expect(await states([...failed, both])).toEqual(['failed', 'failed', 'queued', 'failed']);
    expect(await act({ action: 'drop', ids: [both], state: 'failed' })).toMatchObject({ done: 0, skipped: 1 });
    expect(await act({ action: 'retry', ids, state: 'failed' })).toMatchObject({ done: 3, recipients: 3 });
    expect(await states([...failed, both])).toEqual(['queued', 'queued', 'queued', 'queued']);
    const both2 = { action: 'retry', filter: place, state: 'failed' };
    expect((await ask('dev-editor', `${dev}/actions`, both2)).status).toBe(400);
  });

  test('is not tried again where it fails between the look and the change', async () => {
    const { act, spool, waits, states, both } = await mixed();
    const retryMany = spool.retryMany.bind(spool);
    spool.retryMany = async (picks, times) => {
      const entries = waits.map((id) => ({ ...spoolEntry({ account: 'dev' }), id }));
      await spool.record(
        entries.map((entry) => attemptOf(entry, { kind: 'failed', ...said }, { recipient: 'a@full.example' })),
      );
      return await retryMany(picks, times);
    };
    expect(await act({ action: 'retry', filter: place })).toMatchObject({ done: 1, recipients: 1, skipped: 3 });
    expect(await states([...waits, both])).toEqual(['failed', 'failed', 'failed', 'queued', 'failed']);
  });
});

describe('holds', () => {
  const place = { destination: 'full.example', route: 'direct' };

  test('a destination that is held stays in the account’s list, also when nothing waits there', async () => {
    const { ask, accept, spool } = await start();
    const ids = await accept('dev', ['a@full.example', 'b@other.example'], 2);
    await accept('other', ['a@full.example']);
    const act = async (action: string, as = 'dev-editor') =>
      result(await ask(as, `${dev}/actions`, { action, filter: place }));
    const group = async (as: string, path = dev) =>
      rows(await ask(as, path)).find((each) => each['destination'] === 'full.example' && each['account'] === 'dev');
    expect(await act('hold')).toMatchObject({ done: 1, recipients: 2, rule: true });
    // What is held already is held by no hold more.
    const again = { action: 'hold', filter: { ...place, search: 'full.example' } };
    expect(result(await ask('dev-editor', `${dev}/actions`, again))).toMatchObject({ done: 0, skipped: 0 });
    const hold = { kind: 'line', by: 'console dev/editor', releasable: true };
    expect(await group('dev-reader')).toMatchObject({ depth: 2, held: 2, hold });
    expect(await group('dev-boss', all)).toMatchObject({ depth: 2, held: 2, hold });
    const others = await ask('other-reader', '/accounts/other/email/sending/queue');
    expect(rows(others)).toMatchObject([{ destination: 'full.example', depth: 1, held: 0, hold: null }]);
    // The message's other recipient and other accounts' mail go on; what comes later waits.
    const [later = ''] = await accept('dev', ['c@full.example']);
    expect((await spool.show(ids[0] ?? ''))?.recipients.map(({ hold: kept }) => kept?.kind)).toEqual([
      'line',
      undefined,
    ]);
    expect((await spool.show(later))?.recipients[0]?.hold?.kind).toBe('line');
    for (const id of [...ids, later]) await spool.drop(id);
    expect(await group('dev-reader')).toMatchObject({ depth: 0, held: 0, oldest_at: null, hold });
    expect(await act('release')).toMatchObject({ done: 1, recipients: 0, rule: true });
    expect(await group('dev-reader')).toBeUndefined();
    // Nothing waits there, so that nothing is held.
    expect(await act('hold')).toMatchObject({ done: 0, recipients: 0, rule: false });
    expect(await spool.holds()).toEqual([]);
  });

  test('the operator’s hold on a destination is shown, and not lifted by the account', async () => {
    const { ask, accept, spool } = await start();
    await accept('dev', ['a@full.example'], 2);
    const act = async (as: string, action: string) =>
      result(await ask(as, `${dev}/actions`, { action, filter: place }));
    expect(await act('dev-boss', 'hold')).toMatchObject({ done: 1, recipients: 2 });
    expect(rows(await ask('dev-reader', dev))).toMatchObject([
      { held: 2, hold: { kind: 'line', by: null, why: null, releasable: false } },
    ]);
    expect(await act('dev-editor', 'release')).toMatchObject({ done: 0, recipients: 0 });
    expect(await act('dev-editor', 'hold')).toMatchObject({ done: 0, recipients: 0 });
    expect(await spool.holds()).toMatchObject([{ by: 'admin dev/boss' }]);
    // Under two holds, lifting one lets nothing go.
    await spool.addHold({ kind: 'destination', value: 'full.example', at: 1, by: 'root', why: '' });
    expect(await act('dev-boss', 'release')).toMatchObject({ done: 1, recipients: 0 });
  });

  test('an account makes so many holds of single messages and lines, and no more', async () => {
    const { ask, accept, spool } = await start();
    for (let at = 0; at < 52; at += 1) await accept('dev', [`a@d${at}.example`]);
    const act = async (at: number, as = 'dev-editor') => {
      const filter = { destination: `d${at}.example`, route: 'direct' };
      return result(await ask(as, `${dev}/actions`, { action: 'hold', filter }))['done'];
    };
    const done: unknown[] = [];
    for (let at = 0; at < 51; at += 1) done.push(await act(at));
    expect(done).toEqual([...Array.from({ length: 50 }, () => 1), 0]);
    expect(await act(51, 'dev-boss')).toBe(1);
    expect(result(await ask('dev-editor', `${dev}/actions`, { action: 'hold', filter: {} }))['done']).toBe(1);
    expect(await spool.holds()).toHaveLength(52);
  });

  test('what many accounts hold leaves room to the operator', async () => {
    const { ask, accept, spool } = await start();
    const [one = ''] = await accept('dev', ['a@full.example']);
    const others = Array.from({ length: 900 }, (_, at) => ({ value: `m${at}`, by: `console a${at % 18}/editor` }));
    await Promise.all(others.map((other) => spool.addHold({ ...other, kind: 'message', at: 1, why: '' })));
    for (const what of [{ ids: [one] }, { filter: {} }, { filter: { destination: 'full.example', route: 'direct' } }]) {
      const act = async (as: string, action: string) =>
        result(await ask(as, `${dev}/actions`, { action, ...what }))['done'];
      const done = [await act('dev-editor', 'hold'), await act('dev-boss', 'hold'), await act('dev-boss', 'release')];
      expect([what, done]).toEqual([what, [0, 1, 1]]);
    }
    // Of two in one request the second finds no room any more.
    const [two = ''] = await accept('dev', ['a@full.example']);
    await spool.liftHold({ kind: 'message', value: 'm0' });
    expect(result(await ask('dev-editor', `${dev}/actions`, { action: 'hold', ids: [one, two] }))['done']).toBe(1);
  });

  test('a filter holds and releases no message that has recipients besides', async () => {
    const { ask, accept, spool } = await start();
    const [alone = '', both = ''] = [
      ...(await accept('dev', ['a@full.example'])),
      ...(await accept('dev', ['a@full.example', 'b@other.example'])),
    ];
    const act = async (body: object) => result(await ask('dev-editor', `${dev}/actions`, body));
    // Such a filter is no rule.
    const filter = { destination: 'full.example' };
    expect(await act({ action: 'hold', filter })).toMatchObject({ done: 1, recipients: 1, skipped: 1 });
    expect(await act({ action: 'hold', ids: [both] })).toMatchObject({ done: 1, recipients: 2 });
    expect((await spool.holds()).map(({ value }) => value).toSorted()).toEqual([alone, both].toSorted());
    expect(await act({ action: 'release', filter })).toMatchObject({ done: 1, recipients: 1, skipped: 1 });
    expect((await spool.holds()).map(({ value }) => value)).toEqual([both]);
  });

  test('an account holds and releases its own, and never lifts those of the operator', async () => {
    const { ask, accept, spool } = await start();
    const [one = '', two = ''] = await accept('dev', ['a@full.example'], 2);
    const act = async (as: string, action: string, ids: string[]) =>
      result(await ask(as, `${dev}/actions`, { action, ids }))['done'];
    await spool.addHold({ kind: 'message', value: two, at: 1, by: 'root', why: 'a complaint about bob@x.example' });
    expect(await act('dev-editor', 'hold', [one, two])).toBe(1);
    const held = rows(await ask('dev-reader', `${dev}/messages?state=held`));
    expect(held.map(({ hold }) => hold)).toEqual([
      expect.objectContaining({ kind: 'message', by: 'console dev/editor', releasable: true }),
      expect.objectContaining({ kind: 'message', by: null, why: null, releasable: false }),
    ]);
    expect(await act('dev-editor', 'release', [one, two])).toBe(1);
    expect(await act('dev-boss', 'release', [two])).toBe(1);
    expect(await spool.holds()).toEqual([]);
  });

  test('of two accounts each has holds of its own, however many the other has and whatever it is called', async () => {
    const { ask, accept, spool } = await start();
    const others = await accept('other', ['a@full.example'], 60);
    const [one = '', two = '', three = ''] = await accept('dev', ['a@full.example'], 3);
    const other = dev.replace('dev', 'other');
    const act = async (as: string, path: string, body: object) =>
      result(await ask(as, `${path}/actions`, body))['done'];
    expect(await act('other-editor', other, { action: 'hold', ids: others })).toBe(50);
    const before = (await spool.holds()).length;
    // An account whose name begins like this one's, and another one's.
    const rule = { kind: 'message', at: 1, why: '' } as const;
    await spool.addHold({ ...rule, value: two, by: 'console developer/editor' });
    await spool.addHold({ ...rule, value: three, by: 'console other/editor' });
    for (const action of ['hold', 'release'])
      expect([action, await act('dev-editor', dev, { action, ids: [two, three] })]).toEqual([action, 0]);
    expect(await act('dev-editor', dev, { action: 'hold', ids: [one] })).toBe(1);
    expect(await spool.holds()).toHaveLength(before + 3);
    // Holding all that it has is a rule of its own.
    expect(await act('other-editor', other, { action: 'hold', filter: {} })).toBe(1);
    expect(await act('dev-editor', dev, { action: 'hold', filter: {} })).toBe(1);
    expect(await act('dev-editor', dev, { action: 'release', filter: {} })).toBe(1);
    const rules = (await spool.holds()).filter(({ kind }) => kind === 'account');
    expect(rules.map(({ value, by }) => [value, by])).toEqual([['other', 'console other/editor']]);
  });

  test('an account may hold all that it has, and some messages; the operator’s rule stays', async () => {
    const { ask, accept, spool } = await start();
    await accept('dev', ['a@full.example'], 60);
    const act = async (as: string, path: string, body: object) => result(await ask(as, `${path}/actions`, body));
    expect(await act('dev-editor', dev, { action: 'hold', filter: { destination: 'full.example' } })).toMatchObject({
      done: 50,
      skipped: 10,
    });
    expect(await act('dev-editor', dev, { action: 'release', filter: {} })).toMatchObject({ done: 50 });
    expect(await act('dev-editor', dev, { action: 'hold', filter: {} })).toMatchObject({ done: 1 });
    expect((await spool.holds()).map(({ kind, value }) => [kind, value])).toEqual([['account', 'dev']]);
    expect(await act('dev-editor', dev, { action: 'release', filter: {} })).toMatchObject({ done: 1 });
    expect(await act('dev-boss', all, { action: 'hold', filter: { destination: 'full.example' } })).toMatchObject({
      done: 1,
    });
    expect(await act('dev-editor', dev, { action: 'release', filter: { destination: 'full.example' } })).toMatchObject({
      done: 0,
    });
    await act('dev-boss', dev, { action: 'hold', filter: {} });
    expect(await act('dev-editor', dev, { action: 'release', filter: {} })).toMatchObject({ done: 0 });
    expect((await spool.holds()).map(({ kind }) => kind).sort()).toEqual(['account', 'destination']);
  });
});

test('reading what waits is shared, and takes a share of the time', async () => {
  const { spool } = await start();
  let now = 0;
  let reads = 0;
  const slow: Pick<Spool, 'waiting' | 'holds'> = {
    waiting(limit) {
      reads += 1;
      now += 400;
      return spool.waiting(limit);
    },
    holds: () => spool.holds(),
  };
  const lines = createQueueLines(slow, { monotonic: () => now });
  await Promise.all([lines(), lines(), lines()]);
  now += 19_999;
  await lines();
  expect(reads).toBe(1);
  now += 2;
  await lines();
  expect(reads).toBe(2);
});

test('a message tells how many of its recipients are in each state', async () => {
  const { ask, spool } = await start();
  const recipients = ['a@full.example', 'b@full.example', 'c@full.example', 'd@full.example'];
  const entry = spoolEntry({ recipients, transports: recipients.map(() => 'direct#1/full.example') });
  await spool.add(entry, 0);
  const said = { reply: { code: 451, text: 'no' }, host: 'h' };
  const later = { nextAttemptAt: Date.now() + 1e6 };
  await spool.record([
    attemptOf(entry, { kind: 'delivered', ...said }, { recipient: 'a@full.example' }),
    attemptOf(entry, { kind: 'deferred', ...said }, { recipient: 'b@full.example', ...later }),
    attemptOf(entry, { kind: 'failed', ...said }, { recipient: 'c@full.example' }),
  ]);
  const { json } = await ask('dev-reader', '/accounts/dev/email/sending/queue/messages');
  expect(json.result).toMatchObject([
    { state: 'deferred', recipient_count: 3, states: { queued: 1, deferred: 1, held: 0, failed: 1 } },
  ]);
});
