// postern queue hold, release and holds: mail that waits on the operator's word. A running server notices within a second.

import type { Config } from '../../app/config/config.ts';
import { UsageError } from '../../base/errors.ts';
import { asciiDomain } from '../../mail/address/domain.ts';
import { type Hold, type HoldKind, type HoldRule, holdKinds } from '../../spool/hold.ts';
import { type CommandIo, columns, defineCommand, fail, jsonOption, print, printJson } from '../command/command.ts';
import { isoSeconds, printable } from '../command/printable.ts';
import { missing, withQueue } from './open-queue.ts';

/** What a hold says at most, in characters. */
const longestWords = 200;

const whatOptions = {
  message: { value: 'ID', summary: 'this message' },
  account: { value: 'A', summary: 'what this account (name or id) has queued, and what it hands in' },
  destination: { value: 'DOMAIN', summary: 'recipients at exactly this domain' },
  route: { value: 'NAME', summary: 'recipients that take this route' },
  line: {
    value: 'LINE',
    summary: 'what one account has for one place, as the console holds it: "ACCOUNT ROUTE/DOMAIN"',
  },
} as const satisfies Record<HoldKind, object>;

type Chosen = { readonly [Name in keyof typeof whatOptions]?: string };

/** Reads what a hold is for. @throws UsageError where it is not one thing */
function readWhat(given: Chosen, config: Config, call: string): Pick<HoldRule, 'kind' | 'value'> {
  const kinds = holdKinds.filter((kind) => given[kind] !== undefined);
  const [kind] = kinds;
  if (!kind || kinds.length > 1)
    throw new UsageError(`postern queue ${call}: want one of --message, --account, --destination, --route and --line`);
  const value = given[kind] ?? '';
  if (kind === 'message') return { kind, value: value.toLowerCase() };
  // An account or a route that is no longer in the configuration may still have mail in the queue.
  if (kind === 'account')
    return { kind, value: config.accounts.find(({ id, name }) => id === value || name === value)?.name ?? value };
  if (kind === 'route' || kind === 'line') return { kind, value };
  const domain = asciiDomain(value);
  if (domain === undefined) throw new UsageError(`--destination wants a domain, got "${printable(value)}"`);
  return { kind, value: domain };
}

/** Refuses an id that is empty, and an account or a route that is not there, which is most likely misspelt. */
function checkKnown({ kind, value }: Pick<HoldRule, 'kind' | 'value'>, config: Config): void {
  if (kind === 'line' && !/^\S+ [^/]+(\/.+)?$/.test(value))
    throw new UsageError(`--line wants "ACCOUNT ROUTE" or "ACCOUNT ROUTE/DOMAIN", got "${printable(value)}"`);
  if (kind === 'message' && value === '') throw new UsageError('--message wants the id of a message, got ""');
  const names: Partial<Record<HoldRule['kind'], readonly string[]>> = {
    account: config.accounts.map(({ name }) => name),
    route: config.delivery.routes.map(({ name }) => name),
  };
  const known = names[kind];
  if (known && !known.includes(value))
    throw new UsageError(`--${kind} wants one of ${known.join(', ')}, got "${printable(value)}"`);
}

function words(text: string, option: string): string {
  if (text.length > longestWords) throw new UsageError(`${option} wants at most ${longestWords} characters`);
  return text;
}

/** The user of the command; the id of the process's user where no variable names one, as in a container. */
function nameOfUser({ env }: CommandIo): string {
  const name = env['SUDO_USER'] || env['USER'] || env['LOGNAME'] || `uid ${process.getuid?.()}`;
  return name.slice(0, longestWords);
}

/** A hold in words. */
export function holdText({ kind, value, at, by, why }: HoldRule): string {
  return `held by ${printable(by)} since ${isoSeconds(at)} (${kind} ${printable(value)})${why ? `: ${printable(why)}` : ''}`;
}

/** postern queue hold */
export const hold = defineCommand({
  summary: 'Let mail wait until it is released',
  details: `What falls under a hold is accepted and kept, but not sent; an attempt that is under way is not stopped. A message
is not given up while it is held, but its time goes on: released too late, it gets one more attempt. Said again, who, when
and why are replaced. At most 1,000 holds are kept.`,
  options: {
    ...whatOptions,
    why: { value: 'TEXT', summary: 'why, for those who find it held' },
    by: { value: 'NAME', summary: 'who holds it (default: the user of this command)' },
  },
  examples: [
    'postern queue hold --account dev --why "a complaint is looked into"',
    'postern queue hold --destination partner.example',
  ],
  exitCodes: { 1: 'there is no such message, or there are too many holds' },
  run: ({ options: { why = '', by, ...given }, readConfig }, io) =>
    withQueue(readConfig(), async ({ spool, config }) => {
      const what = readWhat(given, config, 'hold');
      checkKnown(what, config);
      if (what.kind === 'message' && !(await spool.show(what.value))) return missing(printable(what.value), io);
      const rule = { ...what, at: Date.now(), by: words(by ?? nameOfUser(io), '--by'), why: words(why, '--why') };
      await spool.addHold(rule);
      return print(io, holdText(rule));
    }),
});

/** postern queue release */
export const release = defineCommand({
  summary: 'Let mail go on that was held',
  details: 'Mail under a second hold goes on waiting. A long queue is released in steps.',
  options: { ...whatOptions },
  examples: ['postern queue release --account dev', 'postern queue release --destination partner.example'],
  exitCodes: { 1: 'there is no such hold' },
  run: ({ options: given, readConfig }, io) =>
    withQueue(readConfig(), async ({ spool, config }) => {
      const what = readWhat(given, config, 'release');
      const named = `${what.kind} ${printable(what.value)}`;
      if (await spool.liftHold(what)) return print(io, `${named} is released`);
      return fail(io, `There is no hold on ${named}; postern queue holds lists them`);
    }),
});

function row({ kind, value, at, by, why }: Hold): string[] {
  return [kind, printable(value), isoSeconds(at), printable(by), printable(why)];
}

/** postern queue holds */
export const holds = defineCommand({
  summary: 'List what is held, by whom, since when and why',
  options: jsonOption,
  examples: ['postern queue holds'],
  run: ({ options, readConfig }, io) =>
    withQueue(readConfig(), async ({ spool }) => {
      const all = await spool.holds();
      if (options.json) return printJson(io, all, ({ kind, value, at, by, why }) => ({ kind, value, at, by, why }));
      if (all.length === 0) return print(io, 'Nothing is held');
      return print(io, columns([['what', 'which', 'since', 'by', 'why'], ...all.map(row)]));
    }),
});
