// `postern suppression` manages the addresses that an account does not send to. A running server sees changes within a
// second (D51, D94).

import { systemClock } from '../base/clock.ts';
import { closest } from '../base/closest.ts';
import { UsageError } from '../base/errors.ts';
import type { Config } from '../config.ts';
import {
  openSuppressionStore,
  type Suppression,
  type SuppressionReason,
  type SuppressionStore,
  suppressionReasons,
} from '../feedback/suppression-store.ts';
import { readComparable } from '../mail/address/comparable-mailbox.ts';
import { chooseAccount, isoTime, withDatabase } from './command/choose-account.ts';
import { type CommandIo, configOption, defineCommand } from './command/command.ts';
import { defineGroup } from './command/command-table.ts';
import { configExitCode, configFor } from './command/load-config.ts';
import { parseSpan } from './command/span.ts';

/** How many entries are read from the database at a time. */
const pageSize = 1000;

const accountOption = { account: { value: 'A', short: 'a', summary: 'name or id of the account (required)' } } as const;

function withStore<T>(config: Config, work: (store: SuppressionStore) => Promise<T>): Promise<T> {
  return withDatabase(config, async (database) => await work(await openSuppressionStore(database, systemClock)));
}

function accountOf(config: Config, reference: string | undefined) {
  if (reference === undefined) throw new UsageError('--account: want the name or id of an account');
  return chooseAccount(config, reference);
}

function addressOf(text: string): string {
  const address = readComparable(text);
  if (address === undefined) throw new UsageError(`got "${text}", want an address such as user@example.net`);
  return address;
}

function reasonOf(text: string): SuppressionReason {
  const reason = suppressionReasons.find((one) => one === text);
  if (reason !== undefined) return reason;
  const near = closest(text, [...suppressionReasons]);
  throw new UsageError(
    `--reason: got "${text}", ${near ? `did you mean "${near}"?` : `want one of ${suppressionReasons.join(', ')}`}`,
  );
}

function noteOf(text: string): string {
  if (/^\P{Cc}{1,500}$/u.test(text)) return text;
  throw new UsageError('--note: want a text of at most 500 characters without line ends');
}

function jsonOf(config: Config, entry: Suppression): string {
  const { id, account, address, reason, note, createdAt, expiresAt } = entry;
  const shown = {
    id,
    account: config.accounts.find((one) => one.id === account)?.name ?? account,
    address,
    reason,
    note: note ?? null,
    created_at: isoTime(createdAt),
    expires_at: isoTime(expiresAt),
  };
  return `${JSON.stringify(shown)}\n`;
}

function lineOf({ id, address, reason, createdAt, expiresAt, note }: Suppression): string {
  const until = expiresAt === undefined ? '' : `, expires ${isoTime(expiresAt)}`;
  return `${id}  ${address}  ${reason}, since ${isoTime(createdAt)}${until}${note === undefined ? '' : `  ${note}`}\n`;
}

async function* entriesOf(store: SuppressionStore, account: string, search: string | undefined) {
  for (let after: string | undefined; ; ) {
    const page = await store.list(account, {
      limit: pageSize,
      ...(after === undefined ? {} : { after }),
      ...(search === undefined ? {} : { search }),
    });
    yield* page.entries;
    after = page.next;
    if (after === undefined) return;
  }
}

/** Prints at most `limit` entries. @returns whether there are more */
async function printEntries(
  io: CommandIo,
  entries: AsyncIterable<Suppression>,
  { limit, print }: { readonly limit: number; readonly print: (entry: Suppression) => string },
): Promise<{ readonly shown: number; readonly more: boolean }> {
  let shown = 0;
  for await (const entry of entries) {
    if (shown === limit) return { shown, more: true };
    io.stdout.write(print(entry));
    shown += 1;
  }
  return { shown, more: false };
}

const list = defineCommand({
  name: 'list',
  summary: "List an account's suppressed addresses, the newest first",
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details: 'Entries that have expired are not listed.',
  options: {
    ...accountOption,
    search: { value: 'TEXT', summary: 'only those with this in the address or the note' },
    limit: { value: 'N', summary: 'at most this many (default 100)' },
    json: { summary: 'one JSON object a line' },
    ...configOption,
  },
  examples: [
    'postern suppression list --account dev',
    'postern suppression list --account dev --search example.net --json',
  ],
  exitCodes: configExitCode,
  run({ options }, io) {
    const limit = Number(options.limit ?? 100);
    if (!Number.isInteger(limit) || limit < 1)
      throw new UsageError(`--limit wants a whole number from 1, got "${options.limit}"`);
    const config = configFor(io, options.config);
    const account = accountOf(config, options.account);
    const print = (entry: Suppression) => (options.json ? jsonOf(config, entry) : lineOf(entry));
    return withStore(config, async (store) => {
      const { shown, more } = await printEntries(io, entriesOf(store, account.id, options.search), { limit, print });
      if (more) io.stderr.write(`There are more than these ${shown}; see --limit and --search.\n`);
      else if (shown === 0 && !options.json) io.stderr.write('No entries.\n');
      return 0;
    });
  },
});

const add = defineCommand({
  name: 'add',
  summary: 'Suppress addresses: mail to them is refused from now on',
  synopsis: 'ADDRESS...',
  arguments: { min: 1, max: 1000 },
  details:
    'SMTP answers 550 5.7.1 to RCPT, REST refuses the request. An address that is there already takes reason, note and\n' +
    'expiry of the new entry. A running server notices within a second; what it has accepted before still goes out.',
  options: {
    ...accountOption,
    reason: { value: 'REASON', summary: `${suppressionReasons.join(', ')} (default: manual)` },
    note: { value: 'TEXT', summary: 'what it is about, shown by suppression list' },
    expires: { value: 'SPAN', summary: 'how long it counts, such as 30d or 12h (default: until it is removed)' },
    json: { summary: 'one JSON object a line' },
    ...configOption,
  },
  examples: [
    'postern suppression add --account dev user@example.net',
    'postern suppression add --account dev --reason unsubscribe --note "called us" --expires 365d user@example.net',
  ],
  exitCodes: configExitCode,
  run({ options, args }, io) {
    const expiry =
      options.expires === undefined ? {} : { expiresAt: systemClock.now() + parseSpan(options.expires, '--expires') };
    const reason = reasonOf(options.reason ?? 'manual');
    const addresses = args.map(addressOf);
    const config = configFor(io, options.config);
    const account = accountOf(config, options.account);
    const note = options.note === undefined || options.note === '' ? {} : { note: noteOf(options.note) };
    return withStore(config, async (store) => {
      const added: Suppression[] = [];
      for (const address of addresses) {
        added.push(await store.add({ account: account.id, address, reason, ...note, ...expiry }));
      }
      for (const entry of added) io.stdout.write(options.json ? jsonOf(config, entry) : lineOf(entry));
      return 0;
    });
  },
});

const remove = defineCommand({
  name: 'remove',
  summary: 'Take entries off the list: mail to these addresses is accepted again',
  synopsis: 'ADDRESS|ID...',
  arguments: { min: 1, max: 1000 },
  details: 'A running server notices at once.',
  options: { ...accountOption, ...configOption },
  examples: [
    'postern suppression remove --account dev user@example.net',
    'postern suppression remove --account dev 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e',
  ],
  exitCodes: { 1: 'there is no such entry', ...configExitCode },
  run({ options, args }, io) {
    const config = configFor(io, options.config);
    const account = accountOf(config, options.account);
    return withStore(config, async (store) => {
      let exitCode = 0;
      for (const given of args) {
        const id = /^[0-9a-f]{32}$/.test(given) ? given : (await store.find(account.id, addressOf(given)))?.id;
        const entry = id === undefined ? undefined : await store.remove(account.id, id);
        if (entry) io.stdout.write(`${entry.address} is off the list of ${account.name}.\n`);
        else {
          io.stderr.write(`${given} is not on the list of ${account.name}.\n`);
          exitCode = 1;
        }
      }
      return exitCode;
    });
  },
});

/** The commands about the suppression list. */
export const suppressionCommands = defineGroup(
  'suppression',
  { summary: 'Look at and change the addresses that an account does not send to' },
  {
    list: { summary: list.summary, load: () => Promise.resolve(list) },
    add: { summary: add.summary, load: () => Promise.resolve(add) },
    remove: { summary: remove.summary, load: () => Promise.resolve(remove) },
  },
);
