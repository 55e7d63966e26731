// What a transaction tells, as it is kept until it is filed.

import { deflateRawSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { decodeTold, encodeTold, type Told } from '../../src/spool/postgres/events/event-filer.ts';
import { emptyTally, tallyOf } from '../../src/spool/tally.ts';

test('what is told is the same once it is read, whatever texts it has', () => {
  const text = 'a\n\r\u2028"\\\0\ud83d\ude00 e j t';
  const tally = { account: text, ...tallyOf(5, { queued: 0, delivered: 1, failed: 2 }) };
  const event = { at: 1, account: text, kind: 'accepted', message: null, json: JSON.stringify({ text }) } as const;
  const facts = JSON.stringify({ subject: text });
  const row = { id: 'x', at: 3, account: text, outcome: 1, waiting: 2, octets: 4, facts, more: '{}' };
  const told: Told = { events: [event, { ...event, message: 'm' }], rows: [row, row], tallies: [tally] };
  expect(decodeTold(encodeTold(told))).toEqual(told);
  const nothing: Told = { events: [], rows: [], tallies: [] };
  expect(decodeTold(encodeTold(nothing))).toEqual(nothing);
});

test('what was packed without a dictionary is read as well', () => {
  const tally = { account: 'dev', ...emptyTally };
  const told = deflateRawSync(`t${JSON.stringify(tally)}`, { level: 1 });
  expect(decodeTold(told)).toEqual({ events: [], rows: [], tallies: [tally] });
});

test('what is damaged is not taken for something else', () => {
  const told = encodeTold({ events: [], rows: [], tallies: [{ account: 'dev', ...emptyTally }] });
  expect(() => decodeTold(told.subarray(0, 10))).toThrow();
});
