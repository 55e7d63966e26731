// `postern webhook` shows and changes the webhooks of accounts beside a running server, which notices within seconds (D54, D94).

import { UsageError } from '../../base/errors.ts';
import type { Config } from '../../config.ts';
import { type EventKind, eventKinds, isEventKind } from '../../events/mail-event.ts';
import { createAddressGuard } from '../../webhooks/address-guard.ts';
import { makeSecret } from '../../webhooks/secret.ts';
import { type Webhook, webhooksPerAccount } from '../../webhooks/webhook.ts';
import { urlFault } from '../../webhooks/webhook-url.ts';
import { isoTime } from '../command/choose-account.ts';
import { configOption, defineCommand } from '../command/command.ts';
import { defineGroup } from '../command/command-table.ts';
import { configExitCode, configFor } from '../command/load-config.ts';
import { printable } from '../command/printable.ts';
import { accountOf, accountOption, missing, notFound, withEvents, withWebhooks } from './open-webhooks.ts';
import { log } from './webhook-log.ts';
import { replay } from './webhook-replay.ts';

function stateOf({ isEnabled, disabledReason, failures }: Webhook): string {
  if (!isEnabled) return `disabled${disabledReason === undefined ? '' : `: ${disabledReason}`}`;
  return failures === 0 ? 'enabled' : `enabled, its last ${failures} request${failures === 1 ? '' : 's'} failed`;
}

function lineOf(webhook: Webhook): string {
  const { id, url, kinds, note, source } = webhook;
  const about = note === '' ? '' : `  ${printable(note)}`;
  return `${id}  ${url}  ${kinds?.join(',') ?? 'all events'}; of the ${source}; ${stateOf(webhook)}${about}\n`;
}

function jsonOf({ id, url, kinds, note, source, createdAt, isEnabled, disabledReason, failures }: Webhook): string {
  const shown = {
    ...{ id, url, kinds: kinds ?? null, note, source, enabled: isEnabled, failures },
    disabled_reason: disabledReason ?? null,
    created_at: isoTime(createdAt),
  };
  return `${JSON.stringify(shown)}\n`;
}

function kindsOf(text: string | undefined): readonly EventKind[] | undefined {
  if (text === undefined) return undefined;
  const words = text.split(',').map((word) => word.trim());
  const unknown = words.find((word) => !isEventKind(word));
  if (unknown === undefined) return words.filter(isEventKind);
  throw new UsageError(`--kinds wants some of ${Object.keys(eventKinds).join(', ')}, got "${unknown}"`);
}

/** @throws UsageError where the configuration does not let webhooks go there */
function checkUrl({ webhooks }: Config, url: string): void {
  const { allowHttp, allowNetworks } = webhooks;
  const fault = urlFault(url, { allowHttp, refuse: createAddressGuard({ allowNetworks }) });
  if (fault !== undefined) throw new UsageError(`The URL ${fault}`);
}

const list = defineCommand({
  name: 'list',
  summary: "List an account's webhooks",
  synopsis: '',
  arguments: { min: 0, max: 0 },
  options: { ...accountOption, json: { summary: 'one JSON object a line' }, ...configOption },
  examples: ['postern webhook list --account dev'],
  exitCodes: configExitCode,
  run({ options }, io) {
    const config = configFor(io, options.config);
    const account = accountOf(config, options.account);
    return withWebhooks(config, async (store) => {
      const webhooks = await store.list(account.id);
      for (const webhook of webhooks) io.stdout.write(options.json ? jsonOf(webhook) : lineOf(webhook));
      if (webhooks.length === 0 && !options.json) io.stderr.write('No webhooks.\n');
      return 0;
    });
  },
});

const add = defineCommand({
  name: 'add',
  summary: 'Make a webhook and print its secret, this once',
  synopsis: 'URL',
  arguments: { min: 1, max: 1 },
  details: 'It is told of what happens from now on. A running server begins within seconds.',
  options: {
    ...accountOption,
    kinds: { value: 'KINDS', summary: 'which events, with commas between (default: all)' },
    note: { value: 'TEXT', summary: 'what it is for, shown by webhook list' },
    ...configOption,
  },
  examples: ['postern webhook add --account dev --kinds delivered,failed https://hooks.example.com/postern'],
  exitCodes: { 1: 'the account has as many webhooks as it may', ...configExitCode },
  run({ options, args: [url = ''] }, io) {
    const config = configFor(io, options.config);
    const account = accountOf(config, options.account);
    const kinds = kindsOf(options.kinds);
    checkUrl(config, url);
    const note = options.note ?? '';
    if (!/^\P{Cc}{0,500}$/u.test(note)) throw new UsageError('--note: want at most 500 characters without line ends');
    return withWebhooks(config, async (store) => {
      const newest = await withEvents(config, (events) => events.newest());
      const secret = makeSecret();
      const made = await store.create({ account: account.id, url, kinds, note, secret }, newest);
      if (!made) {
        io.stderr.write(`${account.name} has ${webhooksPerAccount} webhooks, and may not have more\n`);
        return 1;
      }
      io.stderr.write(`Webhook ${made.id} is made; its secret is shown this once:\n`);
      io.stdout.write(`${secret}\n`);
      return 0;
    });
  },
});

const remove = defineCommand({
  name: 'remove',
  summary: 'Remove a webhook with its log',
  synopsis: 'ID',
  arguments: { min: 1, max: 1 },
  details: 'A webhook of the configuration file is removed there.',
  options: { ...accountOption, ...configOption },
  examples: ['postern webhook remove --account dev 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e'],
  exitCodes: notFound,
  run({ options, args: [id = ''] }, io) {
    const config = configFor(io, options.config);
    const account = accountOf(config, options.account);
    return withWebhooks(config, async (store) => {
      if (!(await store.remove(account.id, id))) return missing(id, account.name, io);
      io.stdout.write(`${id} is removed\n`);
      return 0;
    });
  },
});

const enable = defineCommand({
  name: 'enable',
  summary: 'Enable a webhook again; it goes on where it stopped',
  synopsis: 'ID',
  arguments: { min: 1, max: 1 },
  details: 'A webhook of the configuration file is enabled again by a start or reload.',
  options: { ...accountOption, ...configOption },
  examples: ['postern webhook enable --account dev 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e'],
  exitCodes: notFound,
  run({ options, args: [id = ''] }, io) {
    const config = configFor(io, options.config);
    const account = accountOf(config, options.account);
    return withWebhooks(config, async (store) => {
      if (!(await store.change(account.id, id, { isEnabled: true }))) return missing(id, account.name, io);
      io.stdout.write(`${id} is enabled\n`);
      return 0;
    });
  },
});

const secret = defineCommand({
  name: 'secret',
  summary: 'Print a new secret, for a webhook of the configuration file',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  options: {},
  examples: ['postern webhook secret > certs/webhook.secret'],
  run(_, io) {
    io.stdout.write(`${makeSecret()}\n`);
    return Promise.resolve(0);
  },
});

/** postern webhook list | add | remove | enable | replay | log | secret */
export const webhookCommands = defineGroup(
  'webhook',
  { summary: 'Look at and change the endpoints that are told what happens to mail' },
  {
    list: { summary: list.summary, load: () => Promise.resolve(list) },
    add: { summary: add.summary, load: () => Promise.resolve(add) },
    remove: { summary: remove.summary, load: () => Promise.resolve(remove) },
    enable: { summary: enable.summary, load: () => Promise.resolve(enable) },
    replay: { summary: replay.summary, load: () => Promise.resolve(replay) },
    log: { summary: log.summary, load: () => Promise.resolve(log) },
    secret: { summary: secret.summary, load: () => Promise.resolve(secret) },
  },
);
