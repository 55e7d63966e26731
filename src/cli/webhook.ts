import type { Config } from '../app/config/config.ts';
import { systemClock } from '../base/clock.ts';
import type { Database } from '../base/database/database.ts';
import { UsageError } from '../base/errors.ts';
import { makeSecret } from '../delivery/webhooks/secret.ts';
import { type DeliveryRecord, type Webhook, webhooksPerAccount } from '../delivery/webhooks/webhook.ts';
import { openWebhookStore, replayRange, type WebhookStore } from '../delivery/webhooks/webhook-store.ts';
import { createAddressGuard, urlFault } from '../delivery/webhooks/webhook-url.ts';
import { type EventKind, isEventKind, toldKinds } from '../spool/events/mail-event.ts';
import { deliveryJson } from '../web/admin/webhooks/webhook-endpoints.ts';
import { accountOption, isoTime, withStoreOf } from './command/choose-account.ts';
import {
  type Command,
  type CommandIo,
  defineCommand,
  defineGroup,
  fail,
  jsonOption,
  listOptions,
  print,
  printJson,
} from './command/command.ts';
import { counted, printable } from './command/printable.ts';
import { parseCount, parseSpan } from './command/span.ts';
import { withQueue } from './queue/open-queue.ts';

/** Exit codes of the commands that name a webhook. */
const notFound = { 1: 'there is no such webhook that a command may change' } as const;

const open = (database: Database): Promise<WebhookStore> => openWebhookStore(database, systemClock);

function missing(id: string, account: string, io: CommandIo): number {
  return fail(io, `${account} has no such webhook "${id}" that a command may change; postern webhook list shows them`);
}

const replay = defineCommand({
  summary: 'Send events to a webhook once more',
  synopsis: 'ID',
  details: 'Those of the kinds that it is told of. They have the webhook-id that they had before.',
  options: {
    ...accountOption,
    event: { value: 'EVENT', summary: 'this event' },
    since: { value: 'SPAN', summary: 'the events of the last 2h, 3d ...' },
  },
  examples: [
    'postern webhook replay --account dev --since 2d 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e',
    'postern webhook replay --account dev --event 4711 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e',
  ],
  exitCodes: notFound,
  run({ options, args: [id = ''], readConfig }, io) {
    const { event, since } = options;
    if ((event === undefined) === (since === undefined)) throw new UsageError('want one of --event and --since');
    if (event !== undefined && !/^[1-9]\d{0,14}$/.test(event))
      throw new UsageError(`--event wants the number of an event, got "${event}"`);
    const wish =
      since === undefined ? { event: Number(event) } : { since: systemClock.now() - parseSpan(since, '--since') };
    const config = readConfig();
    return withStoreOf(config, options, open, async (store, account) => {
      if (!(await store.find(account.id, id))) return missing(id, account.name, io);
      const range = await withQueue(config, ({ spool }) => replayRange(spool.events, account.name, wish));
      if (!range) return fail(io, 'There are no such events');
      await store.replay(account.id, id, range);
      return print(io, `The events behind ${range.after} up to ${range.until} are sent once more`);
    });
  },
});

/** Requests that the log keeps of one webhook at most. */
const most = 1000;

function recordLine({ event, kind, attempt, at, durationMs, result, status, error }: DeliveryRecord): string {
  const answer = status === undefined ? printable(error ?? '') : `${status}`;
  return `${isoTime(at)}  event ${event} ${kind}, attempt ${attempt}: ${result.replace('_', ' ')}, ${answer}, ${durationMs} ms`;
}

const log = defineCommand({
  summary: 'Print the last requests of a webhook, the newest first',
  synopsis: 'ID',
  options: { ...accountOption, ...listOptions },
  examples: ['postern webhook log --account dev 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e'],
  exitCodes: notFound,
  run({ options, args: [id = ''], readConfig }, io) {
    const limit = parseCount(options.limit, '--limit', { fallback: 100 });
    return withStoreOf(readConfig(), options, open, async (store, account) => {
      if (!(await store.find(account.id, id))) return missing(id, account.name, io);
      const { deliveries } = await store.deliveries(id, { limit: Math.min(limit, most) });
      return options.json ? printJson(io, deliveries, deliveryJson) : print(io, deliveries.map(recordLine));
    });
  },
});

function stateOf({ isEnabled, disabledReason, failures }: Webhook): string {
  if (!isEnabled) return `disabled${disabledReason === undefined ? '' : `: ${disabledReason}`}`;
  return failures === 0 ? 'enabled' : `enabled, its last ${counted(failures, 'request')} failed`;
}

function lineOf(webhook: Webhook): string {
  const { id, url, kinds, note, source } = webhook;
  const about = note === '' ? '' : `  ${printable(note)}`;
  return `${id}  ${url}  ${kinds?.join(',') ?? 'all events'}; of the ${source}; ${stateOf(webhook)}${about}`;
}

function jsonOf({ id, url, kinds, note, source, createdAt, isEnabled, disabledReason, failures }: Webhook) {
  return {
    ...{ id, url, kinds: kinds ?? null, note, source, enabled: isEnabled, failures },
    disabled_reason: disabledReason ?? null,
    created_at: isoTime(createdAt),
  };
}

function kindsOf(text: string | undefined): readonly EventKind[] | undefined {
  if (text === undefined) return undefined;
  const words = text.split(',').map((word) => word.trim());
  const unknown = words.find((word) => !toldKinds.some((kind) => kind === word));
  if (unknown === undefined) return words.filter(isEventKind);
  throw new UsageError(`--kinds wants some of ${toldKinds.join(', ')}, got "${unknown}"`);
}

/** @throws UsageError where the configuration does not let webhooks go there */
function checkUrl({ webhooks }: Config, url: string): void {
  const { allowHttp, allowNetworks } = webhooks;
  const fault = urlFault(url, { allowHttp, refuse: createAddressGuard({ allowNetworks }) });
  if (fault !== undefined) throw new UsageError(`The URL ${fault}`);
}

const list = defineCommand({
  summary: "List an account's webhooks",
  options: { ...accountOption, ...jsonOption },
  examples: ['postern webhook list --account dev'],
  run({ options, readConfig }, io) {
    return withStoreOf(readConfig(), options, open, async (store, account) => {
      const webhooks = await store.list(account.id);
      if (webhooks.length === 0 && !options.json) io.stderr.write('No webhooks.\n');
      return options.json ? printJson(io, webhooks, jsonOf) : print(io, webhooks.map(lineOf));
    });
  },
});

const add = defineCommand({
  summary: 'Make a webhook and print its secret, this once',
  synopsis: 'URL',
  details: 'It is told of what happens from now on. A running server begins within seconds.',
  options: {
    ...accountOption,
    kinds: { value: 'KINDS', summary: 'which events, with commas between (default: all)' },
    note: { value: 'TEXT', summary: 'what it is for, shown by webhook list' },
  },
  examples: ['postern webhook add --account dev --kinds delivered,failed https://hooks.example.com/postern'],
  exitCodes: { 1: 'the account has as many webhooks as it may' },
  run({ options, args: [url = ''], readConfig }, io) {
    const config = readConfig();
    const kinds = kindsOf(options.kinds);
    checkUrl(config, url);
    const note = options.note ?? '';
    if (!/^\P{Cc}{0,500}$/u.test(note)) throw new UsageError('--note: want at most 500 characters without line ends');
    return withStoreOf(config, options, open, async (store, account) => {
      const newest = await withQueue(config, ({ spool }) => spool.events.newest());
      const secret = makeSecret();
      const made = await store.create({ account: account.id, url, kinds, note, secret }, newest);
      if (!made) return fail(io, `${account.name} has ${webhooksPerAccount} webhooks, and may not have more`);
      io.stderr.write(`Webhook ${made.id} is made; its secret is shown this once:\n`);
      return print(io, secret);
    });
  },
});

/** Makes a command that changes one webhook. @param change gives undefined or false where there is none that it may change */
function changeCommand(
  word: 'remove' | 'enable',
  { summary, details }: { readonly summary: string; readonly details: string },
  change: (store: WebhookStore, account: string, id: string) => Promise<unknown>,
): Command {
  return defineCommand({
    summary,
    synopsis: 'ID',
    details,
    options: { ...accountOption },
    examples: [`postern webhook ${word} --account dev 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e`],
    exitCodes: notFound,
    run({ options, args: [id = ''], readConfig }, io) {
      return withStoreOf(readConfig(), options, open, async (store, account) => {
        if (!(await change(store, account.id, id))) return missing(id, account.name, io);
        return print(io, `${id} is ${word}d`);
      });
    },
  });
}

const remove = changeCommand(
  'remove',
  { summary: 'Remove a webhook with its log', details: 'A webhook of the configuration file is removed there.' },
  (store, account, id) => store.remove(account, id),
);

const enable = changeCommand(
  'enable',
  {
    summary: 'Enable a webhook again; it goes on where it stopped',
    details: 'A webhook of the configuration file is enabled again by a start or reload.',
  },
  (store, account, id) => store.change(account, id, { isEnabled: true }),
);

const secret = defineCommand({
  summary: 'Print a new secret, for a webhook of the configuration file',
  needsNoConfig: true,
  options: {},
  examples: ['postern webhook secret > certs/webhook.secret'],
  run: (_, io) => print(io, makeSecret()),
});

/** `postern webhook` shows and changes the webhooks of accounts beside a running server, which notices within seconds (D54, D94). */
export const command = defineGroup({ list, add, remove, enable, replay, log, secret });
