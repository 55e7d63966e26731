// postern queue shows and changes what waits and what failed, beside a running server (D94).

import { UsageError } from '../../base/errors.ts';
import type { QueueItem, SpooledRecipient } from '../../spool/spool.ts';
import { type AccountTally, type Tally, totalOf } from '../../spool/tally.ts';
import { columns, configOption, defineCommand } from '../command/command.ts';
import { defineGroup } from '../command/command-table.ts';
import { printable } from '../command/printable.ts';
import { items, missing, notFound, stateOption, withQueue } from './open-queue.ts';
import { compact } from './queue-compact.ts';
import { destinations } from './queue-destinations.ts';
import { hasFields, roughly } from './queue-fields.ts';
import { hold, holds, holdText, release } from './queue-hold.ts';
import { retry } from './queue-retry.ts';

function iso(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

function replyText({ lastReply, lastHost }: SpooledRecipient): string {
  if (!lastReply) return '';
  const words = printable(lastReply.text.replaceAll('\n', ' / '));
  return `${lastHost ?? 'Postern'} said ${lastReply.code} ${lastReply.enhanced ?? ''} ${words}`.replace(/ {2,}/g, ' ');
}

function recipientLine(recipient: SpooledRecipient): string {
  const { address, state, attempts, nextAttemptAt } = recipient;
  const next = state === 'queued' ? `, next attempt ${iso(nextAttemptAt)}` : '';
  const held = recipient.hold ? `, ${holdText(recipient.hold)}` : '';
  const reply = replyText(recipient);
  return `  ${address}: ${state}, ${attempts} attempt${attempts === 1 ? '' : 's'}${next}${held}${reply ? `; ${reply}` : ''}`;
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

/** The totals of the whole queue, as one line. */
function totalLine({ messages, recipients }: Tally): string {
  const { queued, delivered, failed } = recipients;
  return `In all: ${messages.queued} messages queued, ${messages.failed} failed; recipients: ${queued} queued, ${delivered} delivered, ${failed} failed`;
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
    'message-id': { value: 'ID', summary: 'only the message with this Message-ID, ours or the client’s' },
    recipient: { value: 'ADDRESS', summary: 'only messages to exactly this recipient' },
    sender: { value: 'ADDRESS', summary: 'only messages with exactly this reverse-path' },
    limit: { value: 'N', summary: 'at most this many (default 100)' },
    json: { summary: 'one JSON object a line' },
    ...configOption,
  },
  examples: [
    'postern queue list',
    'postern queue list --state failed',
    'postern queue list --search partner.example --json',
    'postern queue list --recipient you@partner.example --state queued',
  ],
  exitCodes: { 78: 'the configuration is wrong' },
  run: ({ options }, io) => {
    const state = stateOption(options.state);
    const fields = {
      messageId: options['message-id'],
      recipient: options.recipient,
      sender: options.sender,
      ...state,
    };
    const search = options.search ?? roughly(fields);
    const limit = Number(options.limit ?? 100);
    if (!Number.isSafeInteger(limit) || limit < 1)
      throw new UsageError(`--limit wants a whole number from 1, got "${options.limit}"`);
    return withQueue(options.config, io, async ({ spool }) => {
      let shown = 0;
      for await (const item of items(spool, { ...state, ...(search === undefined ? {} : { search }) })) {
        if (!hasFields(item, fields)) continue;
        io.stdout.write(options.json ? itemJson(item) : itemLines(item));
        shown += 1;
        if (shown === limit) break;
      }
      if (!options.json) io.stdout.write(`${shown} shown. ${totalLine(totalOf(await spool.tallies()))}\n`);
      return 0;
    });
  },
});

function summaryLines(tallies: readonly AccountTally[]): string[] {
  const rows = tallies.map(({ account, messages, octets, recipients }) => [
    account,
    ...[messages.queued, messages.failed, octets.queued, octets.failed].map(String),
    ...[recipients.queued, recipients.delivered, recipients.failed].map(String),
  ]);
  const head = ['account', 'queued', 'failed', 'octets queued', 'octets failed', 'recipients queued', 'delivered'];
  return columns([[...head, 'failed'], ...rows]);
}

const summary = defineCommand({
  name: 'summary',
  summary: 'Tell how much each account has in the queue, by messages, octets and recipients',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details: `A message is queued while one of its recipients is; recipients count each by their own state, so that a message
that failed in part shows. The numbers are kept, not counted: the answer comes at once, however long the queue is.`,
  options: { json: { summary: 'one JSON object an account and line' }, ...configOption },
  examples: ['postern queue summary', 'postern queue summary --json'],
  exitCodes: { 78: 'the configuration is wrong' },
  run: ({ options }, io) =>
    withQueue(options.config, io, async ({ spool }) => {
      const tallies = await spool.tallies();
      if (options.json) {
        for (const tally of tallies) io.stdout.write(`${JSON.stringify(tally)}\n`);
        return 0;
      }
      if (tallies.length > 0) io.stdout.write(`${summaryLines(tallies).join('\n')}\n`);
      io.stdout.write(`${totalLine(totalOf(tallies))}\n`);
      for (const rule of await spool.holds()) io.stdout.write(`${holdText(rule)}\n`);
      return 0;
    }),
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
    withQueue(options.config, io, async ({ spool }) => {
      const item = await spool.show(id);
      const octets = item && (options.headers || options.message) ? await spool.load(id) : undefined;
      if (!item) return missing(id, io);
      if (options.message && octets) {
        // D20: the body is 7-bit, and so is the head, except for addresses of an SMTPUTF8 message.
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
    withQueue(options.config, io, async ({ spool }) => {
      let exitCode = 0;
      for (const id of args) {
        if (await spool.drop(id)) io.stdout.write(`${id} dropped\n`);
        else exitCode = missing(id, io);
      }
      return exitCode;
    }),
});

/** postern queue list | summary | destinations | show | retry | hold | release | holds | drop | compact */
export const queueCommands = defineGroup(
  'queue',
  { summary: 'Look at and act on the messages that wait or failed' },
  {
    list: { summary: list.summary, load: () => Promise.resolve(list) },
    summary: { summary: summary.summary, load: () => Promise.resolve(summary) },
    show: { summary: show.summary, load: () => Promise.resolve(show) },
    retry: { summary: retry.summary, load: () => Promise.resolve(retry) },
    destinations: { summary: destinations.summary, load: () => Promise.resolve(destinations) },
    hold: { summary: hold.summary, load: () => Promise.resolve(hold) },
    release: { summary: release.summary, load: () => Promise.resolve(release) },
    holds: { summary: holds.summary, load: () => Promise.resolve(holds) },
    drop: { summary: drop.summary, load: () => Promise.resolve(drop) },
    compact: { summary: compact.summary, load: () => Promise.resolve(compact) },
  },
);
