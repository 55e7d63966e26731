import { constants } from 'node:fs';
import { type FileHandle, open, opendir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../app/config/config.ts';
import { errorCode, UsageError } from '../../base/errors.ts';
import { allRoutes } from '../../delivery/router.ts';
import { MAX_HEADER_SECTION_BYTES, readMessage } from '../../mail/header/header-reader.ts';
import { decodeWords, trimBlanks, unfold } from '../../mail/header/header-text.ts';
import { columns, defineCommand, defineGroup, fail, isYes, jsonOption, print, printJson } from '../command/command.ts';
import { counted, isoSeconds, printable } from '../command/printable.ts';
import { parseCount, parseSpan } from '../command/span.ts';

interface CapturedFile {
  /** The message's id, a UUIDv7. */
  readonly id: string;
  /** When the message was accepted, milliseconds since 1970: the id's own time (RFC 9562 §5.7). */
  readonly acceptedAt: number;
  readonly path: string;
}

/** A name that Postern writes, with the flags that a mail reader may add behind a colon. Files of other names are ignored. */
const ownName = /^([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})\.eml(?::2,[A-Za-z]{0,52})?$/;

function isMessageId(text: string): boolean {
  return ownName.test(`${text}.eml`);
}

/** Goes through a Maildir in no order: `new`, and `cur`, where a mail reader moves them. A missing folder counts as empty. */
async function* capturedFiles(maildir: string): AsyncGenerator<CapturedFile> {
  for (const folder of [join(maildir, 'new'), join(maildir, 'cur')]) {
    try {
      for await (const { name } of await opendir(folder, { bufferSize: 512 })) {
        const id = ownName.exec(name)?.[1];
        if (id === undefined) continue;
        const acceptedAt = Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
        yield { id, acceptedAt, path: join(folder, name) };
      }
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error;
    }
  }
}

/** Opens a message; undefined where it no longer exists, or is a symbolic link. */
async function openCaptured({ path }: CapturedFile): Promise<FileHandle | undefined> {
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if ((await handle.stat()).isFile()) return handle;
    await handle.close();
    return undefined;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ELOOP') return undefined;
    throw error;
  }
}

async function readHead(file: CapturedFile): Promise<{ readonly head: Buffer; readonly size: number } | undefined> {
  const handle = await openCaptured(file);
  if (!handle) return undefined;
  try {
    const { size } = await handle.stat();
    const octets = Buffer.alloc(Math.min(size, MAX_HEADER_SECTION_BYTES + 4));
    const { bytesRead } = await handle.read(octets, 0, octets.length, 0);
    const read = octets.subarray(0, bytesRead);
    const end = read.indexOf('\r\n\r\n');
    return { head: end < 0 ? read : read.subarray(0, end + 4), size };
  } finally {
    await handle.close();
  }
}

/** The octets of a message, a piece at a time; nothing where it no longer exists. */
async function* readOctets(file: CapturedFile): AsyncGenerator<Buffer> {
  const handle = await openCaptured(file);
  if (handle) yield* handle.createReadStream();
}

/** Removes a message. @returns whether it existed */
async function removeCaptured({ path }: CapturedFile): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

const routeOption = {
  route: { value: 'NAME', summary: 'the capture route, where the configuration has several' },
} as const;
/** Characters of a header that a line of the list shows. */
const longestText = 60;

/** The Maildir of a capture route. @throws UsageError where there is no such route, or several and none was named */
function maildirOf(config: Config, name: string | undefined): string {
  const routes = allRoutes(config.delivery).flatMap((route) => (route.type === 'capture' ? [route] : []));
  const names = routes.map((route) => route.name).join(', ');
  if (routes.length === 0) throw new UsageError('No route of the configuration is of type capture');
  const [found, ...others] = name === undefined ? routes : routes.filter((route) => route.name === name);
  if (!found) throw new UsageError(`--route: no capture route "${name}"; there are ${names}`);
  // What is kept back may lie in the folder of a capture route.
  if (others.some(({ folder }) => folder !== found.folder))
    throw new UsageError(`want --route: the capture routes are ${names}`);
  return found.folder;
}

/** What a line of the list tells; undefined where the message no longer exists. */
async function summaryOf(file: CapturedFile) {
  const read = await readHead(file);
  if (!read) return undefined;
  const { fields } = readMessage(read.head);
  const text = (name: string): string => {
    const field = fields.find((one) => one.name.toLowerCase() === name);
    return field ? printable(decodeWords(trimBlanks(unfold(field.rawBytes.toString('utf8'))))) : '';
  };
  const acceptedAt = isoSeconds(file.acceptedAt);
  return { id: file.id, acceptedAt, size: read.size, from: text('from'), to: text('to'), subject: text('subject') };
}

type Summary = NonNullable<Awaited<ReturnType<typeof summaryOf>>>;

function cut(text: string): string {
  return text.length > longestText ? `${text.slice(0, longestText - 1)}…`.toWellFormed() : text;
}

const list = defineCommand({
  summary: 'List captured messages, the newest last',
  details: `From, To and Subject are those of the message's header; recipients that stand in no header are not told. The time is
that of acceptance.`,
  options: {
    limit: { value: 'N', summary: 'the newest N (default 50, at most 10000)' },
    before: { value: 'ID', summary: 'only messages accepted before this one: the page before' },
    since: { value: 'SPAN', summary: 'only messages of the last 30m, 12h, 7d' },
    ...jsonOption,
    ...routeOption,
  },
  examples: ['postern capture list', 'postern capture list --since 1h', 'postern capture list --limit 500 --json'],
  async run({ options, readConfig }, io) {
    const count = parseCount(options.limit, '--limit', { fallback: 50, most: 10_000 });
    const { before } = options;
    if (before !== undefined && !isMessageId(before))
      throw new UsageError(`--before: "${before}" is no id of a message`);
    const since = options.since === undefined ? 0 : Date.now() - parseSpan(options.since, '--since');
    const maildir = maildirOf(readConfig(), options.route);
    const fits = ({ id, acceptedAt }: CapturedFile): boolean =>
      acceptedAt >= since && (before === undefined || id < before);
    const files = (await Array.fromAsync(capturedFiles(maildir))).filter(fits);
    const newest = files.sort((one, other) => (one.id < other.id ? -1 : 1)).slice(-count);
    const shown: Summary[] = [];
    for (const file of newest) {
      const summary = await summaryOf(file);
      if (summary) shown.push(summary);
    }
    return options.json ? printJson(io, shown) : print(io, listLines(shown, maildir, count));
  },
});

function listLines(shown: readonly Summary[], maildir: string, count: number): string[] {
  const first = shown[0];
  if (!first) return [`No messages in ${maildir}`];
  const rows = shown.map(({ id, acceptedAt, size, from, to, subject }) => [
    ...[id, acceptedAt, String(size)],
    ...[from, to, subject].map(cut),
  ]);
  const head = ['id', 'accepted', 'octets', 'from', 'to', 'subject'];
  const more = shown.length === count ? `; the page before: --before ${first.id}` : '';
  return [...columns([head, ...rows]), `${shown.length} shown${more}`];
}

async function findFile(maildir: string, id: string): Promise<CapturedFile | undefined> {
  for await (const file of capturedFiles(maildir)) if (file.id === id) return file;
  return undefined;
}

const show = defineCommand({
  summary: 'Print a captured message as it would have left',
  synopsis: 'ID',
  options: { summary: { summary: 'print the header only' }, ...routeOption },
  examples: ['postern capture show 0199f3c1-... > message.eml', 'postern capture show --summary 0199f3c1-...'],
  exitCodes: { 1: 'there is no such message' },
  async run({ options, args: [id = ''], readConfig }, io) {
    if (!isMessageId(id)) throw new UsageError(`"${id}" is no id of a message; postern capture list shows them`);
    const maildir = maildirOf(readConfig(), options.route);
    const file = await findFile(maildir, id);
    if (file && options.summary) {
      const read = await readHead(file);
      if (read) {
        const lines = read.head.toString('utf8').trimEnd().split('\r\n');
        return print(
          io,
          lines.map((line) => printable(line.replaceAll('\t', ' '))),
        );
      }
    } else if (file) {
      let isThere = false;
      for await (const piece of readOctets(file)) {
        io.stdout.write(piece);
        isThere = true;
      }
      if (isThere) return 0;
    }
    return fail(io, `There is no message "${id}" in ${maildir}; postern capture list shows them`);
  },
});

/** Removes the messages accepted before a time, in milliseconds since 1970. @returns how many it removed */
async function removeBefore(maildir: string, before: number): Promise<number> {
  let removed = 0;
  for await (const file of capturedFiles(maildir)) {
    if (file.acceptedAt < before && (await removeCaptured(file))) removed += 1;
  }
  return removed;
}

const clear = defineCommand({
  summary: 'Remove captured messages',
  details:
    'Asks before anything is removed. A server may go on capturing meanwhile: what comes after the command began stays.',
  options: {
    'older-than': { value: 'SPAN', summary: 'only messages accepted longer ago than 30m, 12h, 7d' },
    yes: { short: 'y', summary: 'do not ask' },
    ...routeOption,
  },
  examples: ['postern capture clear', 'postern capture clear --older-than 7d --yes'],
  exitCodes: { 1: 'the answer was not yes' },
  async run({ options, readConfig }, io) {
    const span = options['older-than'] === undefined ? 0 : parseSpan(options['older-than'], '--older-than');
    const before = Date.now() - span;
    const maildir = maildirOf(readConfig(), options.route);
    if (!options.yes) {
      let count = 0;
      for await (const { acceptedAt } of capturedFiles(maildir)) if (acceptedAt < before) count += 1;
      if (!io.ask) throw new UsageError('postern capture clear: want --yes where nobody can be asked');
      const answer = await io.ask(`Remove ${counted(count, 'captured message')} from ${maildir}? [y/N] `);
      if (!isYes(answer)) return fail(io, 'Nothing is removed');
    }
    const removed = await removeBefore(maildir, before);
    return print(io, `Removed ${counted(removed, 'captured message')} from ${maildir}`);
  },
});

/** postern capture: the messages that a capture route has written (D98), beside a running server. */
export const command = defineGroup({ list, show, clear });
