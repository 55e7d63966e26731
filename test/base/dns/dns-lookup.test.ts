// Asking DNS: a real server on loopback, that tells the truth, lies, is silent or overflows.

import { createSocket } from 'node:dgram';
import { describe, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { createDnsLookup, type DnsLookup } from '../../../src/base/dns/dns-lookup.ts';
import { type DnsName, startDnsServer } from '../../support/dns-server.ts';
import { manualClock } from '../../support/manual-clock.ts';

async function lookupOf(names: Readonly<Record<string, DnsName>>, validates = false) {
  const server = await startDnsServer(names);
  const clock = manualClock();
  const lookup = createDnsLookup({ servers: [server.address], validates, clock, tryMs: 2000 });
  return { server, clock, lookup };
}

describe('records', () => {
  test('of each type are read', async () => {
    const { lookup } = await lookupOf({
      'x.test': {
        a: ['192.0.2.1', '192.0.2.2'],
        aaaa: ['2001:db8::1'],
        mx: ['10 MX1.x.test', '5 mx2.x.test'],
        txt: ['v=1', 'y'.repeat(600)],
      },
      '_25._tcp.mx1.x.test': { tlsa: ['3 1 1 00ff'] },
    });
    expect(await lookup.find('X.test', 'A')).toMatchObject({ kind: 'found', records: ['192.0.2.1', '192.0.2.2'] });
    expect(await lookup.find('x.test', 'AAAA')).toMatchObject({ records: ['2001:db8::1'] });
    expect(await lookup.find('x.test', 'MX')).toMatchObject({
      records: [
        { preference: 10, exchange: 'mx1.x.test' },
        { preference: 5, exchange: 'mx2.x.test' },
      ],
    });
    expect(await lookup.find('x.test', 'TXT')).toMatchObject({ records: ['v=1', 'y'.repeat(600)] });
    expect(await lookup.find('_25._tcp.mx1.x.test', 'TLSA')).toMatchObject({
      records: [{ usage: 3, selector: 1, matching: 1, data: Buffer.from('00ff', 'hex') }],
    });
  });

  test('that are not there are told apart from a name that is not', async () => {
    const { lookup } = await lookupOf({ 'x.test': { a: ['192.0.2.1'] } });
    expect(await lookup.find('x.test', 'MX')).toEqual({ kind: 'none', isSecure: false });
    expect(await lookup.find('gone.test', 'MX')).toEqual({ kind: 'missing', isSecure: false });
    expect(await lookup.find(`${'a'.repeat(64)}.test`, 'A')).toEqual({ kind: 'missing', isSecure: false });
  });

  test('a null MX is the root', async () => {
    const { lookup } = await lookupOf({ 'x.test': { mx: ['0 .'] } });
    expect(await lookup.find('x.test', 'MX')).toMatchObject({ records: [{ preference: 0, exchange: '.' }] });
  });

  test('are secure where the server says so and is believed, aliases included', async () => {
    const names = {
      'x.test': { a: ['192.0.2.1'], secure: true },
      'y.test': { a: ['192.0.2.1'] },
      'alone.test': { cname: 'y.test', aliasAlone: true, secure: true },
    };
    const { lookup } = await lookupOf(names, true);
    expect(await lookup.find('x.test', 'A')).toMatchObject({ kind: 'found', isSecure: true });
    expect(await lookup.find('y.test', 'A')).toMatchObject({ kind: 'found', isSecure: false });
    expect(await lookup.find('alone.test', 'A')).toMatchObject({ kind: 'found', name: 'y.test', isSecure: false });
    const unbelieved = await lookupOf(names);
    expect(await unbelieved.lookup.find('x.test', 'A')).toMatchObject({ kind: 'found', isSecure: false });
  });
});

describe('a hostile or broken server', () => {
  test('aliases are followed, and a circle of them ends', async () => {
    const { lookup } = await lookupOf({
      'a.test': { cname: 'b.test' },
      'b.test': { cname: 'c.test' },
      'c.test': { a: ['192.0.2.1'] },
      'one.test': { cname: 'two.test' },
      'two.test': { cname: 'one.test' },
      'self.test': { cname: 'self.test', aliasAlone: true },
    });
    expect(await lookup.find('a.test', 'A')).toMatchObject({ kind: 'found', name: 'c.test' });
    expect(await lookup.find('one.test', 'A')).toEqual({
      kind: 'failed',
      why: 'A of one.test: more than 8 aliases in a row',
    });
    expect(await lookup.find('self.test', 'A')).toMatchObject({ kind: 'failed' });
  });

  test('what is no answer to the question is passed over', async () => {
    const { lookup } = await lookupOf({ 'x.test': { a: ['192.0.2.1'], forged: true } });
    expect(await lookup.find('x.test', 'A')).toMatchObject({ kind: 'found', records: ['192.0.2.1'] });
  });

  test('what does not fit is asked for by TCP, and of thousands of MX records the fifty best are kept', async () => {
    // 65,535 octets of TCP have room for no more of these.
    const mx = Array.from({ length: 2500 }, (_, index) => `${2500 - index} m${index}.x`);
    const { lookup, server } = await lookupOf({ x: { mx } });
    const found = await lookup.find('x', 'MX');
    const best = Array.from({ length: 50 }, (_, index) => ({ preference: index + 1, exchange: `m${2499 - index}.x` }));
    expect(found).toMatchObject({ kind: 'found', records: best });
    expect(server.asked).toEqual(['MX x', 'MX x']);
  });

  test('names that nothing can be called are left out', async () => {
    const { lookup } = await lookupOf({ 'x.test': { mx: ['1 bad!name.test', '2 -x.test', '3 good.test'] } });
    expect(await lookup.find('x.test', 'MX')).toMatchObject({ records: [{ preference: 3, exchange: 'good.test' }] });
  });

  test('where nothing else is left, that is a failure and no absence', async () => {
    const { lookup } = await lookupOf({ 'x.test': { mx: ['1 bad!name.test'] }, 'y.test': { cname: 'bad!name.test' } });
    expect(await lookup.find('x.test', 'MX')).toEqual({
      kind: 'failed',
      why: 'MX of x.test: its records name no host',
    });
    expect(await lookup.find('y.test', 'A')).toMatchObject({ kind: 'failed', why: expect.stringContaining('alias') });
  });

  test.each([
    ['SERVFAIL', 'the name server answered SERVFAIL'],
    ['REFUSED', 'the name server refused the query'],
  ] as const)('%s is a failure', async (fails, words) => {
    const { lookup, server } = await lookupOf({ 'x.test': { fails } });
    expect(await lookup.find('x.test', 'A')).toEqual({ kind: 'failed', why: `A of x.test: ${words}` });
    expect(server.asked).toHaveLength(2);
  });

  test('silence is a failure, after two tries', async () => {
    const server = await startDnsServer({ 'x.test': { fails: 'silence' } });
    const lookup = createDnsLookup({ servers: [server.address], clock: systemClock, tryMs: 100 });
    expect(await lookup.find('x.test', 'A')).toEqual({
      kind: 'failed',
      why: 'A of x.test: the name server did not answer in time',
    });
    expect(server.asked).toHaveLength(2);
  });

  test('a server that is down is passed over for the next', async () => {
    const server = await startDnsServer({ 'x.test': { a: ['192.0.2.1'] } });
    const closed = createSocket('udp4');
    await new Promise<void>((resolve) => closed.bind(0, '127.0.0.1', resolve));
    const down = `127.0.0.1:${closed.address().port}`;
    await new Promise<void>((resolve) => closed.close(() => resolve()));
    const lookup = createDnsLookup({ servers: [down, server.address], clock: systemClock, tryMs: 2000 });
    expect(await lookup.find('x.test', 'A')).toMatchObject({ kind: 'found' });
  });

  test('an answer whose names lead through thousands of pointers is passed over', async () => {
    const socket = createSocket('udp4');
    socket.on('message', (query, from) => {
      const header = Buffer.concat([query.subarray(0, 2), Buffer.from('81800001000000000000', 'hex')]);
      const question = query.subarray(12, query.indexOf(0, 12) + 5);
      const start = header.length + question.length;
      // One record of an unknown type holds pointers, each to the one before; the names of the others are the last of them.
      const pointers = Buffer.alloc(10_000);
      for (let at = 2; at < pointers.length; at += 2) pointers.writeUInt16BE(0xc000 | (start + 11 + at - 2), at);
      const chain = Buffer.concat([Buffer.from('0003e70001000000002710', 'hex'), pointers]);
      const other = Buffer.from('c0000001000100000000000400000000', 'hex');
      other.writeUInt16BE(0xc000 | (start + 11 + pointers.length - 2), 0);
      header.writeUInt16BE(1001, 6);
      socket.send(Buffer.concat([header, question, chain, ...Array.from({ length: 1000 }, () => other)]), from.port);
      const answer = Buffer.from('c00c000100010000003c0004c0000201', 'hex');
      header.writeUInt16BE(1, 6);
      socket.send(Buffer.concat([header, question, answer]), from.port);
    });
    await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
    onTestFinished(() => new Promise<void>((resolve) => socket.close(() => resolve())));
    const servers = [`127.0.0.1:${socket.address().port}`];
    const lookup = createDnsLookup({ servers, clock: systemClock, tryMs: 5000 });
    expect(await lookup.find('x.test', 'A')).toMatchObject({ kind: 'found', records: ['192.0.2.1'] });
  });

  test('a flood of packets that are no answer ends the question', async () => {
    const socket = createSocket('udp4');
    socket.on('message', (_, from) => {
      for (let count = 0; count < 150; count += 1) socket.send(Buffer.from('noise'), from.port, from.address);
    });
    await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
    onTestFinished(() => new Promise<void>((resolve) => socket.close(() => resolve())));
    const servers = [`127.0.0.1:${socket.address().port}`];
    const lookup = createDnsLookup({ servers, clock: systemClock, tryMs: 30_000 });
    expect(await lookup.find('x.test', 'A')).toEqual({
      kind: 'failed',
      why: 'A of x.test: the name server sent what is no answer',
    });
  });
});

describe('what is kept', () => {
  test('counts for its time to live, and many who ask at once are one question', async () => {
    const { lookup, server, clock } = await lookupOf({ 'x.test': { a: ['192.0.2.1'], ttl: 30 } });
    await Promise.all(Array.from({ length: 50 }, () => lookup.find('x.test', 'A')));
    clock.pass(29);
    await lookup.find('x.test', 'A');
    expect(server.asked).toHaveLength(1);
    clock.pass(2);
    server.names.set('x.test', { a: ['192.0.2.9'] });
    expect(await lookup.find('x.test', 'A')).toMatchObject({ records: ['192.0.2.9'] });
  });

  test('a failure is kept for 5 seconds, and a clock that is set changes nothing', async () => {
    const { lookup, server, clock } = await lookupOf({ 'x.test': { fails: 'SERVFAIL' } });
    await lookup.find('x.test', 'A');
    clock.jump(86_400);
    await lookup.find('x.test', 'A');
    expect(server.asked).toHaveLength(2);
    server.names.set('x.test', { a: ['192.0.2.1'] });
    clock.pass(6);
    expect(await lookup.find('x.test', 'A')).toMatchObject({ kind: 'found' });
  });

  test('a name that can never be found out is asked for less and less often, until it can', async () => {
    const { lookup, server, clock } = await lookupOf({ 'x.test': { fails: 'SERVFAIL' } });
    const questions: number[] = [];
    for (let minutes = 0; minutes < 4; minutes += 1) {
      const before = server.asked.length;
      for (let seconds = 0; seconds < 60; seconds += 1) {
        await lookup.find('x.test', 'A');
        clock.pass(1);
      }
      // Each time the server is asked twice.
      questions.push((server.asked.length - before) / 2);
    }
    expect(questions).toEqual([4, 1, 1, 1]);
    server.names.set('x.test', { a: ['192.0.2.1'], ttl: 1 });
    clock.pass(60);
    expect(await lookup.find('x.test', 'A')).toMatchObject({ kind: 'found' });
    server.names.set('x.test', { fails: 'SERVFAIL' });
    clock.pass(6);
    await lookup.find('x.test', 'A');
    const before = server.asked.length;
    clock.pass(6);
    await lookup.find('x.test', 'A');
    expect(server.asked.length).toBe(before + 2);
  });

  test('who asks much for names whose server is silent keeps itself waiting alone', async () => {
    const server = await startDnsServer({ 'x.test': { a: ['192.0.2.1'] } });
    const lookup = createDnsLookup({ servers: [server.address], clock: systemClock, tryMs: 1000 });
    const greedy = lookup.askedBy('greedy');
    let ended = 0;
    for (let index = 0; index < 120; index += 1) {
      server.names.set(`n${index}.test`, { fails: 'silence' });
      void greedy.find(`n${index}.test`, 'A').then(() => (ended += 1));
    }
    // It waits for this name as well, which is no reason for another to wait with it.
    const waiting = greedy.find('x.test', 'A');
    expect(await lookup.askedBy('other').find('x.test', 'A')).toMatchObject({ kind: 'found' });
    expect(ended).toBe(0);
    expect(server.asked.filter((question) => question === 'A x.test')).toHaveLength(1);
    await waiting;
    expect(server.asked.filter((question) => question === 'A x.test')).toHaveLength(1);
  });

  test('twelve thousand names do not stay, and are asked a hundred at a time', async () => {
    const { lookup, server } = await lookupOf({});
    const findAll = (it: DnsLookup) =>
      Promise.all(Array.from({ length: 12_000 }, (_, index) => it.find(`n${index}.test`, 'A')));
    const found = await findAll(lookup);
    expect(found.every(({ kind }) => kind === 'missing')).toBe(true);
    const before = server.asked.length;
    await lookup.find('n11999.test', 'A');
    expect(server.asked.length).toBe(before);
    await lookup.find('n0.test', 'A');
    expect(server.asked.length).toBe(before + 1);
  });
  test('names with large records stay as long as they have room together', async () => {
    const large = Array.from({ length: 40 }, (_, index) => `${index} `.padEnd(1024, 'x'));
    const names = Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`n${index}.test`, { txt: large }]));
    const { lookup, server } = await lookupOf({ ...names, 'small.test': { txt: ['small'] } });
    // Of 80 KiB each a hundred have room in 8 MiB.
    for (const name of ['small.test', ...Object.keys(names)]) await lookup.find(name, 'TXT');
    const isAsked = async (name: string): Promise<boolean> => {
      const before = server.asked.length;
      expect(await lookup.find(name, 'TXT')).toMatchObject({ kind: 'found' });
      return server.asked.length > before;
    };
    expect(await isAsked('n199.test')).toBe(false);
    expect(await isAsked('n110.test')).toBe(false);
    expect(await isAsked('n90.test')).toBe(true);
    expect(await isAsked('small.test')).toBe(true);
  });
});
