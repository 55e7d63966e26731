// postern queue: what waits and what failed, beside a running server (D94).

import { UsageError } from '../base/errors.ts';
import { openSpool } from '../gateway.ts';
import type { QueueItem, Spool, SpooledRecipient } from '../spool/spool.ts';
import { type CommandIo, configOption, defineCommand } from './command.ts';
import { defineGroup } from './command-table.ts';
import { configFor } from './load-config.ts';

const notFound = { 1: 'there is no such message', 78: 'the configuration is wrong' } as const;

async function withSpool<T>(
  config: string | undefined,
  io: CommandIo,
  use: (spool: Spool, expireAfterSeconds: number) => Promise<T>,
): Promise<T> {
  const settings = configFor(io, config);
  const spool = await openSpool(settings);
  try {
    return await use(spool, settings.delivery.retry.expireAfterSeconds);
  } finally {
    await spool.close();
  }
}

function iso(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** Text of a client or a next hop without what would steer the terminal. */
function printable(text: string): string {
  return text.replaceAll(/[\0-\x1f\x7f-\x9f]/g, '?');
}

function replyText({ lastReply, lastHost }: SpooledRecipient): string {
  if (!lastReply) return '';
  const words = printable(lastReply.text.replaceAll('\n', ' / '));
  return `${lastHost ?? 'Postern'} said ${lastReply.code} ${lastReply.enhanced ?? ''} ${words}`.replace(/ {2,}/g, ' ');
}

function recipientLine(recipient: SpooledRecipient): string {
  const { address, state, attempts, nextAttemptAt } = recipient;
  const next = state === 'queued' ? `, next attempt ${iso(nextAttemptAt)}` : '';
  const reply = replyText(recipient);
  return `  ${address}: ${state}, ${attempts} attempt${attempts === 1 ? '' : 's'}${next}${reply ? `; ${reply}` : ''}`;
}

function itemLines({ entry, size, recipients }: QueueItem): string {
  return [
    `${entry.id}  ${iso(entry.acceptedAt)}  ${size} octets  ${entry.account}/${entry.credential}  from <${entry.senderPath}>`,
    ...recipients.map(recipientLine),
    '',
  ].join('\n');
}

function itemJson({ entry, size, recipients }: QueueItem): string {
  return `${JSON.stringify({ ...entry, size, recipients })}\n`;
}

const list = defineCommand({
  name: 'list',
  summary: 'List queued and failed messages, oldest first',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details: 'A message that has been delivered to all its recipients is no longer in the queue; the log tells of it.',
  options: {
    state: { value: 'STATE', summary: 'only messages with a recipient that is queued, or failed' },
    search: {
      value: 'TEXT',
      summary: 'only messages with this in an id, a Message-ID (ours or the client’s), sender or recipient',
    },
    limit: { value: 'N', summary: 'at most this many (default 100)' },
    json: { summary: 'one JSON object a line' },
    ...configOption,
  },
  examples: [
    'postern queue list',
    'postern queue list --state failed',
    'postern queue list --search partner.example --json',
  ],
  exitCodes: { 78: 'the configuration is wrong' },
  run: ({ options }, io) => {
    const { state, search } = options;
    if (state !== undefined && state !== 'queued' && state !== 'failed')
      throw new UsageError(`--state wants queued or failed, got "${state}"`);
    const limit = Number(options.limit ?? 100);
    if (!Number.isSafeInteger(limit) || limit < 1)
      throw new UsageError(`--limit wants a whole number from 1, got "${options.limit}"`);
    return withSpool(options.config, io, async (spool) => {
      const items = await spool.list({
        limit,
        ...(state === undefined ? {} : { state }),
        ...(search === undefined ? {} : { search }),
      });
      for (const item of items) io.stdout.write(options.json ? itemJson(item) : itemLines(item));
      if (!options.json) {
        const counts = await spool.counts();
        io.stdout.write(`${items.length} shown; ${counts.queued} queued, ${counts.failed} failed in all\n`);
      }
      return 0;
    });
  },
});

const show = defineCommand({
  name: 'show',
  summary: 'Show one message of the queue',
  synopsis: 'ID',
  arguments: { min: 1, max: 1 },
  options: {
    headers: { summary: 'print the header fields that leave, too' },
    message: { summary: 'print nothing but the whole message as it leaves' },
    json: { summary: 'one JSON object' },
    ...configOption,
  },
  examples: ['postern queue show 0199f3c1-...', 'postern queue show --message 0199f3c1-... > message.eml'],
  exitCodes: notFound,
  run: ({ options, args: [id = ''] }, io) =>
    withSpool(options.config, io, async (spool) => {
      const item = await spool.show(id);
      const octets = item && (options.headers || options.message) ? await spool.load(id) : undefined;
      if (!item) return missing(id, io);
      if (options.message && octets) {
        // D20: the body is 7-bit; the head is too, but for addresses of an SMTPUTF8 message
        io.stdout.write(octets.head.toString('utf8') + octets.body.toString('latin1'));
        return 0;
      }
      if (options.json) {
        io.stdout.write(itemJson(item));
        return 0;
      }
      const { entry } = item;
      io.stdout.write(itemLines(item));
      io.stdout.write(
        `  Message-ID ${entry.messageId}${entry.clientMessageId ? `, the client's was ${printable(entry.clientMessageId)}` : ''}\n`,
      );
      io.stdout.write(`  leaves with MAIL FROM:<${entry.reversePath}>, is given up ${iso(entry.expiresAt)}\n`);
      if (octets) io.stdout.write(`\n${octets.head.toString('utf8')}`);
      return 0;
    }),
});

function missing(id: string, io: CommandIo): number {
  io.stderr.write(`There is no message "${id}" in the queue; postern queue list shows them\n`);
  return 1;
}

const retry = defineCommand({
  name: 'retry',
  summary: 'Try a message again now; failed recipients are queued again',
  synopsis: 'ID...',
  arguments: { min: 1, max: 1000 },
  details: 'A running server notices within a second.',
  options: { ...configOption },
  examples: ['postern queue retry 0199f3c1-...'],
  exitCodes: notFound,
  run: ({ options, args }, io) =>
    withSpool(options.config, io, async (spool, expireAfterSeconds) => {
      let exitCode = 0;
      for (const id of args) {
        const now = Date.now();
        const found = await spool.retry(id, { now, expiresAt: now + expireAfterSeconds * 1000 });
        if (found) io.stdout.write(`${id} is due now\n`);
        else exitCode = missing(id, io);
      }
      return exitCode;
    }),
});

const drop = defineCommand({
  name: 'drop',
  summary: 'Remove a message from the queue for good, undelivered',
  synopsis: 'ID...',
  arguments: { min: 1, max: 1000 },
  details: 'An attempt that is under way is not stopped.',
  options: { ...configOption },
  examples: ['postern queue drop 0199f3c1-...'],
  exitCodes: notFound,
  run: ({ options, args }, io) =>
    withSpool(options.config, io, async (spool) => {
      let exitCode = 0;
      for (const id of args) {
        if (await spool.drop(id)) io.stdout.write(`${id} dropped\n`);
        else exitCode = missing(id, io);
      }
      return exitCode;
    }),
});

/** postern queue list | show | retry | drop */
export const queueCommands = defineGroup(
  'queue',
  { summary: 'Look at and act on the messages that wait or failed' },
  {
    list: { summary: list.summary, load: () => Promise.resolve(list) },
    show: { summary: show.summary, load: () => Promise.resolve(show) },
    retry: { summary: retry.summary, load: () => Promise.resolve(retry) },
    drop: { summary: drop.summary, load: () => Promise.resolve(drop) },
  },
);
