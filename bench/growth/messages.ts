// How the cost of a message grows: with its size, its header fields, its recipients and its MIME parts.

import type { UnderTestOptions } from '../postern-under-test.ts';
import type { GrowthCase, Point } from './case.ts';
import { type Batch, type BatchCost, costOf, warmGateway } from './gateway.ts';

const head = 'From: bench@example.com\r\nTo: rcpt@example.net\r\nSubject: A message of the benchmark\r\n';

/** So many messages that their sum is enough to measure and does not take long. */
function enough(pieces: number, each: number, most = 600): number {
  return Math.max(6, Math.min(most, Math.round(pieces / each)));
}

/** A case whose sizes each are a batch to one gateway. */
async function* batches(
  sizes: readonly number[],
  batch: (size: number) => Batch,
  figures: (cost: BatchCost, size: number) => Point['figures'],
  options: Partial<UnderTestOptions> = {},
): AsyncGenerator<Point> {
  const postern = await warmGateway(options);
  try {
    for (const size of sizes) {
      // The first of a size compile what only it needs.
      const asked = batch(size);
      await costOf(postern, { ...asked, messages: Math.ceil(asked.messages / 4) });
      const cost = await costOf(postern, asked);
      const isRefused = cost.refusal !== undefined && asked.recipients === undefined;
      yield { size, figures: isRefused ? {} : figures(cost, size), refusal: cost.refusal };
    }
  } finally {
    await postern.stop();
  }
}

const kibibyte = 1024;

const size: GrowthCase = {
  name: 'size',
  title: 'Size of a message',
  unit: 'octets',
  sizes: [1, 4, 16, 64, 256, 1024, 4096, 10_240, 25_600].map((octets) => octets * kibibyte),
  small: [kibibyte, 64 * kibibyte, 1024 * kibibyte],
  note: 'Plain text in four sessions, with `smtp.limits.messageBytes` of 32 MiB (by default more than 5 MiB are refused).',
  plot: { y: 'CPU us, and ms until the reply', columns: ['CPU us a message', 'ms until the reply'] },
  measure: (sizes) =>
    batches(
      sizes,
      (octets) => ({ size: octets, messages: enough(64 * kibibyte * kibibyte, octets) }),
      ({ cpu, p50, mebibytes }, octets) => ({
        'CPU us a message': cpu,
        'CPU us a KB': cpu / (octets / kibibyte),
        'ms until the reply': p50,
        'MiB more at the peak': mebibytes,
      }),
      { smtpLimits: { messageBytes: 32 * kibibyte * kibibyte } },
    ),
};

const fields: GrowthCase = {
  name: 'fields',
  title: 'Header fields',
  unit: 'fields',
  sizes: [4, 10, 30, 100, 300, 1000, 1990, 2500],
  small: [10, 300, 2500],
  note: 'Fields `X-Bench-N` of 40 octets beside From, To and Subject, all of which pass.',
  plot: { y: 'us', columns: ['CPU us a message', 'CPU us a field'] },
  measure: (sizes) =>
    batches(
      sizes,
      (count) => {
        const more = Array.from({ length: Math.max(0, count - 3) }, (_, at) => `X-Bench-${at}: ${'v'.repeat(28)}\r\n`);
        return { text: `${head}${more.join('')}\r\nHello.\r\n`, messages: enough(60_000, count, 400) };
      },
      ({ cpu, p50 }, count) => ({
        'CPU us a message': cpu,
        'CPU us a field': cpu / count,
        'ms until the reply': p50,
      }),
    ),
};

const recipients: GrowthCase = {
  name: 'recipients',
  title: 'Recipients of a message',
  unit: 'recipients',
  sizes: [1, 3, 10, 30, 100, 300, 1000, 1500],
  small: [1, 30, 1500],
  note: 'Recipients of one domain, handed in by PIPELINING. Above `smtp.limits.recipients`, 1,000 by default, the surplus is put off and the load gives the message up.',
  plot: { y: 'us', columns: ['CPU us a message', 'CPU us a recipient'] },
  measure: (sizes) =>
    batches(
      sizes,
      (count) => ({ size: 4096, recipients: count, messages: enough(6000, count, 400) }),
      ({ cpu, p50, refusal }, count) => ({
        ...(refusal === undefined ? { 'CPU us a message': cpu, 'CPU us a recipient': cpu / count } : {}),
        ...(refusal === undefined ? { 'ms until the reply': p50 } : {}),
      }),
    ),
};

const parts: GrowthCase = {
  name: 'parts',
  title: 'MIME parts',
  unit: 'parts',
  sizes: [1, 10, 30, 100, 300, 1000, 3000, 5000, 11_000],
  small: [1, 100, 11_000],
  note: 'Parts of 100 octets of 8-bit text in one multipart, each of which is read.',
  plot: { y: 'us', columns: ['CPU us a message', 'CPU us a part'] },
  measure: (sizes) =>
    batches(
      sizes,
      (count) => {
        const part = `--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGr\xc3\xbc\xc3\x9fe ${'x'.repeat(44)}\r\n`;
        const type = 'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n';
        return { text: `${head}${type}\r\n${part.repeat(count)}--b--\r\n`, messages: enough(20_000, count, 400) };
      },
      ({ cpu, p50, mebibytes }, count) => ({
        'CPU us a message': cpu,
        'CPU us a part': cpu / count,
        'ms until the reply': p50,
        'MiB more at the peak': mebibytes,
      }),
    ),
};

/** The cases of a message. */
export const messageCases: readonly GrowthCase[] = [size, fields, recipients, parts];
