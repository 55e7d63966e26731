import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../app/config/config.ts';
import { UsageError } from '../../base/errors.ts';
import { allRoutes, wayFor } from '../../delivery/router.ts';
import { asciiDomain } from '../../mail/address/domain.ts';
import {
  findSelected,
  type RouteOf,
  type Selection,
  type WaitingState,
} from '../../web/admin/queue/queue-selection.ts';
import { type CommandIo, defineCommand, fail, print } from '../command/command.ts';
import { counted } from '../command/printable.ts';
import { tellProgress } from '../command/tell-progress.ts';
import { missing, newTimes, notFound, type OpenQueue, pageMessages, stateOption, withQueue } from './open-queue.ts';

interface Retried extends Pick<Selection, 'account' | 'destination' | 'route'> {
  readonly state: 'queued' | 'failed';
}

function readSelection(
  { state, account, domain, route }: Readonly<Partial<Record<'state' | 'account' | 'domain' | 'route', string>>>,
  config: Config,
): Retried {
  const found = config.accounts.find(({ id, name }) => id === account || name === account);
  const destination = domain === undefined ? undefined : asciiDomain(domain);
  if (domain !== undefined && destination === undefined)
    throw new UsageError(`--domain wants a domain, got "${domain}"`);
  const routes = allRoutes(config.delivery).map(({ name }) => name);
  if (route !== undefined && !routes.includes(route))
    throw new UsageError(`--route wants one of ${routes.join(', ')}, got "${route}"`);
  // What has failed is tried again only by name. An account that is no longer configured may still have mail in the queue.
  return { state: stateOption(state).state ?? 'queued', account: found?.name ?? account, destination, route };
}

/** Makes everything selected due, one page per transaction. */
async function retrySelected({ spool, config }: OpenQueue, { state, ...wanted }: Retried, io: CommandIo) {
  const tell = tellProgress(io);
  const states: readonly WaitingState[] = state === 'failed' ? ['failed'] : ['queued', 'deferred', 'held'];
  const routeOf: RouteOf = (account, recipient) => wayFor(config.delivery, { account, recipient }).route.name;
  const sum = { messages: 0, recipients: 0, failed: 0 };
  let after: string | undefined;
  do {
    const page = await findSelected({ spool, routeOf }, { ...wanted, states }, { limit: pageMessages, after });
    after = page.next;
    const picks = page.selected.map(({ item, recipients }) => {
      return { id: item.entry.id, recipients: recipients.map(({ address }) => address), state };
    });
    if (picks.length === 0) continue;
    const begunAt = performance.now();
    const made = await spool.retryMany(picks, newTimes(config));
    sum.messages += made.messages;
    sum.recipients += made.recipients;
    sum.failed += made.failed;
    tell(`Made due: ${counted(sum.messages, 'message')}`);
    // Without the lock for as long as it was held, so that a server beside this command goes on committing.
    if (after !== undefined) await sleep(Math.max(20, performance.now() - begunAt));
  } while (after !== undefined);
  return sum;
}

/** postern queue retry makes messages due, by ids or a selection, beside a running server and in small steps. */
export const retry = defineCommand({
  summary: 'Try messages again now',
  synopsis: '[ID...]',
  details: `Messages are named by their ids, or selected: --all, or one or more of --account, --domain, --route and
--state, which must all fit. Recipients that have failed for good are queued again with --state failed alone, also in messages
that are named. A selection is made due in small steps, so that a server beside it goes on taking mail; it notices within a
second, and what it has in hand stays in its hands.`,
  options: {
    all: { summary: 'everything that is queued, or with --state failed everything that failed' },
    account: { value: 'A', summary: 'only messages of this account (name or id)' },
    domain: { value: 'DOMAIN', summary: 'only recipients at exactly this domain' },
    route: { value: 'NAME', summary: 'only recipients that take this route by the configuration as it is now' },
    state: { value: 'STATE', summary: 'recipients that are queued (the default), or failed' },
  },
  examples: [
    'postern queue retry 0199f3c1-...',
    'postern queue retry --state failed 0199f3c1-...',
    'postern queue retry --route partner',
    'postern queue retry --account dev --domain partner.example',
  ],
  exitCodes: notFound,
  run: ({ options, args, readConfig }, io) => {
    const { all, account, domain, route, state } = options;
    const isSelected = [account, domain, route].some((value) => value !== undefined);
    const isNarrowed = isSelected || state !== undefined;
    if (args.length > 0 && (all || isSelected))
      throw new UsageError('postern queue retry: want ids or a selection, not both');
    if (args.length === 0 && !all && !isNarrowed)
      throw new UsageError('postern queue retry: want ID..., --all, --account, --domain, --route or --state');
    if (all && isSelected) throw new UsageError('postern queue retry: --all is everything; leave it out to select');
    return withQueue(readConfig(), async (opened) => {
      const selection = readSelection(options, opened.config);
      if (args.length > 0) return await retryNamed(opened, { ids: args, state: selection.state }, io);
      const made = await retrySelected(opened, selection, io);
      const failed = made.failed > 0 ? `, ${made.failed} of them had failed` : '';
      const due = `${counted(made.messages, 'message')} with ${counted(made.recipients, 'recipient')}`;
      return print(io, `Due now: ${due}${failed}`);
    });
  },
});

async function retryNamed(
  { spool, config }: OpenQueue,
  { ids, state }: { readonly ids: readonly string[]; readonly state: 'queued' | 'failed' },
  io: CommandIo,
): Promise<number> {
  let exitCode = 0;
  for (const id of ids) {
    const { messages } = await spool.retryMany([{ id, state }], newTimes(config));
    if (messages > 0) print(io, `${id} is due now`);
    else if (!(await spool.show(id))) exitCode = missing(id, io);
    else if (state === 'failed') exitCode = fail(io, `No recipient of ${id} has failed`);
    else exitCode = fail(io, `No recipient of ${id} waits; --state failed tries those again that failed for good`);
  }
  return exitCode;
}
