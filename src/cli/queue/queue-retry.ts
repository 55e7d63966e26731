import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../app/config/config.ts';
import { UsageError } from '../../base/errors.ts';
import { allRoutes, wayFor } from '../../delivery/router.ts';
import { asciiDomain, splitMailbox } from '../../mail/address/domain.ts';
import type { QueueItem, RetryCount, SpooledRecipient } from '../../spool/spool.ts';
import { type CommandIo, defineCommand, fail, print } from '../command/command.ts';
import { counted } from '../command/printable.ts';
import { missing, newTimes, notFound, type OpenQueue, pageMessages, stateOption, withQueue } from './open-queue.ts';

/** Which recipients a retry by selection is for. */
interface Selection {
  readonly state: 'queued' | 'failed';
  /** Name of the account. */
  readonly account?: string;
  /** The recipients' domain, an A-label in lower case. Names below it do not match. */
  readonly domain?: string;
  /** Name of the route. */
  readonly route?: string;
}

function readSelection(
  { state, account, domain, route }: Partial<Record<keyof Selection, string>>,
  config: Config,
): Selection {
  const found = config.accounts.find(({ id, name }) => id === account || name === account);
  const label = domain === undefined ? undefined : asciiDomain(domain);
  if (domain !== undefined && label === undefined) throw new UsageError(`--domain wants a domain, got "${domain}"`);
  const routes = allRoutes(config.delivery).map(({ name }) => name);
  if (route !== undefined && !routes.includes(route))
    throw new UsageError(`--route wants one of ${routes.join(', ')}, got "${route}"`);
  return {
    // What has failed for good is tried again only where it is asked for by name.
    state: stateOption(state).state ?? 'queued',
    // An account that is no longer in the configuration may still have mail in the queue.
    ...(account === undefined ? {} : { account: found?.name ?? account }),
    ...(label === undefined ? {} : { domain: label }),
    ...(route === undefined ? {} : { route }),
  };
}

/** The recipients of a message that are selected; undefined where none is. */
function pickOf({ entry, recipients }: QueueItem, wanted: Selection, routing: Config['delivery']) {
  if (wanted.account !== undefined && wanted.account !== entry.account) return undefined;
  const fits = ({ address, state }: SpooledRecipient): boolean =>
    state === wanted.state &&
    (wanted.domain === undefined || splitMailbox(address).domain?.toLowerCase() === wanted.domain) &&
    (wanted.route === undefined ||
      wayFor(routing, { account: entry.account, recipient: address }).route.name === wanted.route);
  const chosen = recipients.filter(fits).map(({ address }) => address);
  return chosen.length === 0 ? undefined : { id: entry.id, recipients: chosen, state: wanted.state };
}

/** Makes everything selected due, one page per transaction. */
async function retrySelected({ spool, config }: OpenQueue, wanted: Selection): Promise<RetryCount> {
  const sum = { messages: 0, recipients: 0, failed: 0 };
  let after: string | undefined;
  do {
    const from = after === undefined ? {} : { after };
    const page = await spool.list({ limit: pageMessages, state: wanted.state, ...from });
    after = page.next;
    const picks = page.items.flatMap((item) => pickOf(item, wanted, config.delivery) ?? []);
    if (picks.length === 0) continue;
    const begunAt = performance.now();
    const made = await spool.retryMany(picks, newTimes(config));
    sum.messages += made.messages;
    sum.recipients += made.recipients;
    sum.failed += made.failed;
    // Without the lock for as long as it was held, so that a server beside this command goes on committing.
    if (after !== undefined) await sleep(Math.max(20, performance.now() - begunAt));
  } while (after !== undefined);
  return sum;
}

/**
 * postern queue retry makes messages due: those of some ids, or all that a selection matches. It works beside a running server, in
 * small steps.
 */
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
      const made = await retrySelected(opened, selection);
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
