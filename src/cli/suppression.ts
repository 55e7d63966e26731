import type { Config } from '../app/config/config.ts';
import { systemClock } from '../base/clock.ts';
import type { Database } from '../base/database/database.ts';
import { UsageError } from '../base/errors.ts';
import {
  openSuppressionStore,
  type Suppression,
  type SuppressionStore,
  suppressionReasons,
} from '../delivery/feedback/suppression-store.ts';
import { readComparable } from '../mail/address/path.ts';
import { suppressionJson } from '../web/admin/suppression-endpoints.ts';
import { accountOption, isoTime, withStoreOf } from './command/choose-account.ts';
import { defineCommand, defineGroup, fail, jsonOption, listOptions, print, printJson } from './command/command.ts';
import { parseCount, parseSpan, parseWord } from './command/span.ts';

/** How many entries are read from the database at a time. */
const pageSize = 1000;

const open = (database: Database): Promise<SuppressionStore> => openSuppressionStore(database, systemClock);

function addressOf(text: string): string {
  const address = readComparable(text);
  if (address === undefined) throw new UsageError(`got "${text}", want an address such as user@example.net`);
  return address;
}

function noteOf(text: string): string {
  if (/^\P{Cc}{1,500}$/u.test(text)) return text;
  throw new UsageError('--note: want a text of at most 500 characters without line ends');
}

function jsonOf({ accounts }: Config) {
  const nameById = new Map(accounts.map(({ id, name }) => [id, name]));
  return (entry: Suppression) => {
    const { id, ...shown } = suppressionJson(entry);
    return { id, account: nameById.get(entry.account) ?? entry.account, ...shown };
  };
}

function lineOf({ id, address, reason, createdAt, expiresAt, note }: Suppression): string {
  const until = expiresAt === undefined ? '' : `, expires ${isoTime(expiresAt)}`;
  return `${id}  ${address}  ${reason}, since ${isoTime(createdAt)}${until}${note === undefined ? '' : `  ${note}`}`;
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

const list = defineCommand({
  summary: "List an account's suppressed addresses, the newest first",
  details: 'Entries that have expired are not listed.',
  options: {
    ...accountOption,
    search: { value: 'TEXT', summary: 'only those with this in the address or the note' },
    ...listOptions,
  },
  examples: [
    'postern suppression list --account dev',
    'postern suppression list --account dev --search example.net --json',
  ],
  run({ options, readConfig }, io) {
    const limit = parseCount(options.limit, '--limit', { fallback: 100 });
    const config = readConfig();
    return withStoreOf(config, options, open, async (store, account) => {
      const jsonOfEntry = jsonOf(config);
      let shown = 0;
      for await (const entry of entriesOf(store, account.id, options.search)) {
        if (shown === limit) {
          io.stderr.write(`There are more than these ${shown}; see --limit and --search.\n`);
          return 0;
        }
        if (options.json) printJson(io, [entry], jsonOfEntry);
        else print(io, lineOf(entry));
        shown += 1;
      }
      if (shown === 0 && !options.json) io.stderr.write('No entries.\n');
      return 0;
    });
  },
});

const add = defineCommand({
  summary: 'Suppress addresses: mail to them is refused from now on',
  synopsis: 'ADDRESS...',
  details:
    'SMTP answers 550 5.7.1 to RCPT, REST refuses the request. An address that is there already takes reason, note and\n' +
    'expiry of the new entry. A running server notices within a second; what it has accepted before still goes out.',
  options: {
    ...accountOption,
    reason: { value: 'REASON', summary: `${suppressionReasons.join(', ')} (default: manual)` },
    note: { value: 'TEXT', summary: 'what it is about, shown by suppression list' },
    expires: { value: 'SPAN', summary: 'how long it counts, such as 30d or 12h (default: until it is removed)' },
    ...jsonOption,
  },
  examples: [
    'postern suppression add --account dev user@example.net',
    'postern suppression add --account dev --reason unsubscribe --note "called us" --expires 365d user@example.net',
  ],
  run({ options, args, readConfig }, io) {
    const expiry =
      options.expires === undefined ? {} : { expiresAt: systemClock.now() + parseSpan(options.expires, '--expires') };
    const reason = parseWord(options.reason ?? 'manual', '--reason', suppressionReasons);
    const addresses = args.map(addressOf);
    const config = readConfig();
    const note = options.note === undefined || options.note === '' ? {} : { note: noteOf(options.note) };
    return withStoreOf(config, options, open, async (store, account) => {
      const added: Suppression[] = [];
      for (const address of addresses) {
        added.push(await store.add({ account: account.id, address, reason, ...note, ...expiry }));
      }
      return options.json ? printJson(io, added, jsonOf(config)) : print(io, added.map(lineOf));
    });
  },
});

const remove = defineCommand({
  summary: 'Take entries off the list: mail to these addresses is accepted again',
  synopsis: 'ADDRESS|ID...',
  details: 'A running server notices at once.',
  options: { ...accountOption },
  examples: [
    'postern suppression remove --account dev user@example.net',
    'postern suppression remove --account dev 0199f3c11f0b7c3a9d8e4f2a6b1c0d5e',
  ],
  exitCodes: { 1: 'there is no such entry' },
  run({ options, args, readConfig }, io) {
    return withStoreOf(readConfig(), options, open, async (store, account) => {
      let exitCode = 0;
      for (const given of args) {
        const id = /^[0-9a-f]{32}$/.test(given) ? given : (await store.find(account.id, addressOf(given)))?.id;
        const entry = id === undefined ? undefined : await store.remove(account.id, id);
        if (entry) print(io, `${entry.address} is off the list of ${account.name}.`);
        else exitCode = fail(io, `${given} is not on the list of ${account.name}.`);
      }
      return exitCode;
    });
  },
});

/** `postern suppression` manages whom an account does not send to. A running server sees it within a second (D51, D94). */
export const command = defineGroup({ list, add, remove });
