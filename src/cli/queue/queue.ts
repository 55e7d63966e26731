import { UsageError } from '../../base/errors.ts';
import { comparableMailbox } from '../../mail/address/path.ts';
import { bareId } from '../../mail/message-ids.ts';
import type { QueueItem, SpooledRecipient } from '../../spool/spool.ts';
import { compactSpool } from '../../spool/sqlite/file/compact.ts';
import { type AccountTally, type Tally, totalOf } from '../../spool/tally.ts';
import { columns, defineCommand, defineGroup, fail, listOptions, print, printJson } from '../command/command.ts';
import { counted, isoSeconds, printable } from '../command/printable.ts';
import { parseCount } from '../command/span.ts';
import { items, missing, notFound, stateOption, withQueue } from './open-queue.ts';
import { destinations } from './queue-destinations.ts';
import { hold, holds, holdText, release } from './queue-hold.ts';
import { retry } from './queue-retry.ts';

const compact = defineCommand({
  summary: 'Give the room of messages that are gone back to the file system',
  details: `A running server does so by itself, in small steps while nothing is written. A database made by a release before
that is written anew once, for which no server may run and there must be room for a second copy.`,
  options: {},
  examples: ['postern queue compact'],
  exitCodes: { 1: 'the database must be written anew, and a server runs' },
  run: async ({ readConfig }, io) => {
    const { database } = readConfig();
    if (database.engine !== 'sqlite')
      throw new UsageError('postern queue compact is for SQLite: PostgreSQL tidies up by itself (autovacuum)');
    const compacted = await compactSpool(database.file);
    if (!compacted) return fail(io, 'The database must be written anew, and a server works on it: stop that first');
    return print(io, `The database had ${compacted.beforeBytes} octets and has ${compacted.afterBytes}`);
  },
});

/** What a message must have; what is undefined does not matter. */
interface QueueFields {
  /** Ours or the client's own, with or without brackets. */
  readonly messageId: string | undefined;
  /** An address in any spelling, in the state that is named if one is. */
  readonly recipient: string | undefined;
  /** The reverse-path that the client gave, in any spelling; `<>` and '' are null. */
  readonly sender: string | undefined;
  readonly state?: 'queued' | 'failed';
}

/** A part of a text that the messages have that are meant, for the store to search by; undefined where none is certain. */
function roughly({ messageId, recipient }: QueueFields): string | undefined {
  if (messageId !== undefined && messageId !== '') return bareId(messageId);
  // A local part may be written in several ways; a domain is kept in one.
  const domain = recipient === undefined ? undefined : comparableMailbox(recipient).split('@').at(-1);
  return domain === '' ? undefined : domain;
}

function hasFields({ entry, recipients }: QueueItem, wanted: QueueFields): boolean {
  const { messageId, recipient, sender, state } = wanted;
  const ids = [entry.messageId, entry.clientMessageId ?? ''].map(bareId);
  if (messageId !== undefined && !ids.includes(bareId(messageId))) return false;
  if (sender !== undefined && comparableMailbox(bareId(sender)) !== comparableMailbox(entry.senderPath)) return false;
  if (recipient === undefined) return true;
  const address = comparableMailbox(recipient);
  return recipients.some((one) => comparableMailbox(one.address) === address && (state ?? one.state) === one.state);
}

function replyText({ lastReply, lastHost }: SpooledRecipient): string {
  if (!lastReply) return '';
  const words = printable(lastReply.text.replaceAll('\n', ' / '));
  return `${lastHost ?? 'Postern'} said ${lastReply.code} ${lastReply.enhanced ?? ''} ${words}`.replace(/ {2,}/g, ' ');
}

function recipientLine(recipient: SpooledRecipient): string {
  const { address, state, attempts, nextAttemptAt } = recipient;
  const next = state === 'queued' ? `, next attempt ${isoSeconds(nextAttemptAt)}` : '';
  const held = recipient.hold ? `, ${holdText(recipient.hold)}` : '';
  const reply = replyText(recipient);
  return `  ${address}: ${state}, ${counted(attempts, 'attempt')}${next}${held}${reply ? `; ${reply}` : ''}`;
}

function itemLines({ entry, size, recipients }: QueueItem): string[] {
  return [
    `${entry.id}  ${isoSeconds(entry.acceptedAt)}  ${size} octets  ${entry.account}/${entry.credential}  from <${entry.senderPath}>`,
    ...recipients.map(recipientLine),
  ];
}

function itemJson({ entry, size, recipients }: QueueItem) {
  return { ...entry, size, recipients };
}

function totalLine({ messages, recipients }: Tally): string {
  const { queued, delivered, failed } = recipients;
  return `In all: ${messages.queued} messages queued, ${messages.failed} failed; recipients: ${queued} queued, ${delivered} delivered, ${failed} failed`;
}

const list = defineCommand({
  summary: 'List queued and failed messages, oldest first',
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
    ...listOptions,
  },
  examples: [
    'postern queue list',
    'postern queue list --state failed',
    'postern queue list --search partner.example --json',
    'postern queue list --recipient you@partner.example --state queued',
  ],
  run: ({ options, readConfig }, io) => {
    const state = stateOption(options.state);
    const { recipient, sender } = options;
    const fields = { messageId: options['message-id'], recipient, sender, ...state };
    const search = options.search ?? roughly(fields);
    const limit = parseCount(options.limit, '--limit', { fallback: 100 });
    return withQueue(readConfig(), async ({ spool }) => {
      let shown = 0;
      for await (const item of items(spool, { ...state, ...(search === undefined ? {} : { search }) })) {
        if (!hasFields(item, fields)) continue;
        if (options.json) printJson(io, [itemJson(item)]);
        else print(io, itemLines(item));
        shown += 1;
        if (shown === limit) break;
      }
      return options.json ? 0 : print(io, `${shown} shown. ${totalLine(totalOf(await spool.tallies()))}`);
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
  summary: 'Tell how much each account has in the queue, by messages, octets and recipients',
  details: `A message is queued while one of its recipients is; recipients count each by their own state, so that a message
that failed in part shows. The numbers are kept, not counted: the answer comes at once, however long the queue is.`,
  options: { json: { summary: 'one JSON object an account and line' } },
  examples: ['postern queue summary', 'postern queue summary --json'],
  run: ({ options, readConfig }, io) =>
    withQueue(readConfig(), async ({ spool }) => {
      const tallies = await spool.tallies();
      if (options.json) return printJson(io, tallies);
      const rows = tallies.length > 0 ? summaryLines(tallies) : [];
      return print(io, [...rows, totalLine(totalOf(tallies)), ...(await spool.holds()).map(holdText)]);
    }),
});

const show = defineCommand({
  summary: 'Show one message of the queue',
  synopsis: 'ID',
  options: {
    headers: { summary: 'print the header fields that leave, too' },
    message: { summary: 'print nothing but the whole message as it leaves' },
    json: { summary: 'one JSON object' },
  },
  examples: ['postern queue show 0199f3c1-...', 'postern queue show --message 0199f3c1-... > message.eml'],
  exitCodes: notFound,
  run: ({ options, args: [id = ''], readConfig }, io) =>
    withQueue(readConfig(), async ({ spool }) => {
      const item = await spool.show(id);
      const octets = item && (options.headers || options.message) ? await spool.load(id) : undefined;
      if (!item) return missing(id, io);
      if (options.message && octets) {
        // D20: the body is 7-bit, and so is the head, except for addresses of an SMTPUTF8 message.
        io.stdout.write(octets.head.toString('utf8') + octets.body.toString('latin1'));
        return 0;
      }
      if (options.json) return printJson(io, [itemJson(item)]);
      const { messageId, clientMessageId, reversePath, expiresAt } = item.entry;
      const theirs = clientMessageId ? `, the client's was ${printable(clientMessageId)}` : '';
      print(io, [
        ...itemLines(item),
        `  Message-ID ${messageId}${theirs}`,
        `  leaves with MAIL FROM:<${reversePath}>, is given up ${isoSeconds(expiresAt)}`,
      ]);
      if (octets) io.stdout.write(`\n${octets.head.toString('utf8')}`);
      return 0;
    }),
});

const drop = defineCommand({
  summary: 'Remove a message from the queue for good, undelivered',
  synopsis: 'ID...',
  details: 'An attempt that is under way is not stopped.',
  options: {},
  examples: ['postern queue drop 0199f3c1-...'],
  exitCodes: notFound,
  run: ({ args, readConfig }, io) =>
    withQueue(readConfig(), async ({ spool }) => {
      let exitCode = 0;
      for (const id of args) {
        if (await spool.drop(id)) print(io, `${id} dropped`);
        else exitCode = missing(id, io);
      }
      return exitCode;
    }),
});

/** postern queue shows and changes what waits and what failed, beside a running server (D94). */
export const command = defineGroup({ list, summary, show, retry, destinations, hold, release, holds, drop, compact });
