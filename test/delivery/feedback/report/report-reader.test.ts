// The reader's process: reports that cost too much are given up, and those behind them are read.

import { afterEach, expect, test } from 'vitest';
import { Unavailable } from '../../../../src/base/errors.ts';
import { createReportReader, type ReportReader } from '../../../../src/delivery/feedback/report/report-reader.ts';
import { deliveryReport } from '../../../support/bounce-gateway.ts';

const readers: ReportReader[] = [];

afterEach(async () => {
  for (const reader of readers.splice(0)) await reader.close();
});

function open(...limits: Parameters<typeof createReportReader>): ReportReader {
  const reader = createReportReader(...limits);
  readers.push(reader);
  return reader;
}

const from = { isFromNobody: true, from: '192.0.2.1' };
const report = Buffer.from(
  deliveryReport(['a@example.org'], ['Action: failed', 'Status: 5.1.1']).replaceAll('\n', '\r\n'),
);

test('many reports at once are read, each by itself', async () => {
  const reader = open();
  const read = await Promise.all(Array.from({ length: 50 }, () => reader.read(Buffer.from(report), from)));
  expect(read.map(({ kind }) => kind)).toEqual(Array.from({ length: 50 }, () => 'delivery'));
});

test('a report that takes too long is to come again, and is given up when it takes too long again', async () => {
  const patient = { milliseconds: 20_000, heapMebibytes: 128 };
  const reader = open({ ...patient, milliseconds: 1 });
  await expect(reader.read(Buffer.from(report), from)).rejects.toThrow(Unavailable);
  const other = Buffer.concat([report, Buffer.from('x')]);
  await expect(reader.read(other, from)).rejects.toThrow('too long');
  expect(await reader.read(Buffer.from(report), from)).toMatchObject({
    kind: 'unreadable',
    why: expect.stringContaining('too long'),
  });
  expect(await open(patient).read(Buffer.from(report), from)).toMatchObject({ kind: 'delivery' });
});

test('one that takes too much memory costs its process and no other report', async () => {
  const reader = open({ milliseconds: 20_000, heapMebibytes: 40 });
  const nested = Buffer.from(`From: MAILER-DAEMON@x\r\n${'X-Field: y\r\n'.repeat(800_000)}\r\n`);
  const [large, small] = await Promise.all([reader.read(nested, from), reader.read(Buffer.from(report), from)]);
  expect(large.kind).toBe('unreadable');
  expect(small.kind).toBe('delivery');
});

test('addresses have their turns: one that sends many does not keep another waiting for all of them', async () => {
  const reader = open();
  const order: string[] = [];
  const read = async (address: string): Promise<void> => {
    await reader.read(Buffer.from(report), { isFromNobody: true, from: address });
    order.push(address);
  };
  const many = Array.from({ length: 10 }, () => read('192.0.2.1'));
  await Promise.all([...many, read('192.0.2.2'), read('192.0.2.3')]);
  expect(order.slice(0, 4)).toEqual(['192.0.2.1', '192.0.2.1', '192.0.2.2', '192.0.2.3']);
});

test('one that takes all memory at once ends neither the gateway nor the reading', { timeout: 180_000 }, async () => {
  // It ends by memory after a second or two. The time is long, so that a busy machine does not end it first.
  const reader = open({ milliseconds: 120_000, heapMebibytes: 80 });
  const groups = Buffer.from(`From: MAILER-DAEMON@x\r\nTo: ${'a:;'.repeat(340_000)}\r\n\r\nx`);
  const [large, small] = await Promise.all([reader.read(groups, from), reader.read(Buffer.from(report), from)]);
  expect(large).toMatchObject({ kind: 'unreadable', why: expect.stringContaining('memory') });
  expect(small.kind).toBe('delivery');
});

test('what is not read when it is closed is to come again later, also what comes afterwards', async () => {
  const reader = open();
  const reading = [reader.read(Buffer.from(report), from), reader.read(Buffer.from(report), from)];
  const read = Promise.allSettled(reading);
  await reader.close();
  const late = reader.read(Buffer.from(report), from);
  for (const one of [...(await read), ...(await Promise.allSettled([late]))]) {
    expect(one).toMatchObject({ status: 'rejected', reason: expect.any(Unavailable) });
  }
});
