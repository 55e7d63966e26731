import { askForDestinations } from '../../app/wiring/server-socket.ts';
import type { DestinationView, HopWait } from '../../delivery/transport.ts';
import { domainOfTransport, type Hold, Holds, routeOfTransport } from '../../spool/hold.ts';
import type { WaitingLine } from '../../spool/spool.ts';
import { hopsByPlace } from '../../web/admin/queue/queue-groups.ts';
import { columns, defineCommand, jsonOption, print, printJson } from '../command/command.ts';
import { printable } from '../command/printable.ts';
import { withQueue } from './open-queue.ts';

/** Lines of the queue that are read; what waits in the others is left out. */
const mostLines = 100_000;

/** Domains of a next hop that are told. */
const shownDomains = 20;

interface Destination {
  readonly route: string;
  /** A recipient domain; absent where all domains of the route wait together. */
  readonly domain?: string;
  readonly queued: number;
  readonly held: number;
  readonly oldestAcceptedAt?: number;
  readonly hop?: DestinationView;
}

function shownHop(hop: DestinationView): DestinationView {
  return { ...hop, domains: hop.domains.slice(0, shownDomains) };
}

/** Adds up the lines of one destination. */
function gather(lines: readonly WaitingLine[], holds: Holds, hops: readonly DestinationView[]): Destination[] {
  const byKey = new Map<string, Destination>();
  const known = hopsByPlace(hops);
  for (const { transport, account, recipients, oldestAcceptedAt, hold } of lines) {
    // A hold that no server has met yet stands in no line.
    const isHeld = hold !== undefined || holds.ofLine({ transport, account }) !== undefined;
    const route = routeOfTransport(transport);
    const domain = domainOfTransport(transport);
    const hop = known.get(domain === undefined ? route : `${route} ${domain}`);
    const key = hop ? `hop ${hop.route} ${hop.key}` : `lane ${route} ${domain ?? ''}`;
    const before = byKey.get(key);
    byKey.set(key, {
      ...(before ?? { route, ...(domain === undefined ? {} : { domain }), ...(hop ? { hop: shownHop(hop) } : {}) }),
      queued: (before?.queued ?? 0) + recipients,
      held: (before?.held ?? 0) + (isHeld ? recipients : 0),
      oldestAcceptedAt: Math.min(before?.oldestAcceptedAt ?? Number.POSITIVE_INFINITY, oldestAcceptedAt),
    });
  }
  for (const hop of hops) {
    const key = `hop ${hop.route} ${hop.key}`;
    if (!byKey.has(key)) byKey.set(key, { route: hop.route, queued: 0, held: 0, hop: shownHop(hop) });
  }
  return [...byKey.values()].toSorted((left, right) => right.queued - left.queued);
}

function ageText(acceptedAt: number | undefined): string {
  if (acceptedAt === undefined) return '-';
  const seconds = Math.max(0, Math.round((Date.now() - acceptedAt) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** What mail waits for where the next hop is in no trouble. */
const waitWords: Readonly<Record<HopWait, string>> = {
  pace: 'pace: it gets as many messages a second as messagesPerSecond allows',
  room: 'room: the connections to all next hops (delivery.connections) are used up',
  share: 'share: other processes have its connections',
  memory: 'memory: the messages are read from the spool, as far as there is memory for them',
  unrecorded: 'unrecorded: the spool cannot record what becomes of messages',
};

function serviceText({ trouble, waits, waitMs, lastWords }: DestinationView): string {
  if (!trouble) return waits ? waitWords[waits] : '';
  const wait = waitMs > 0 ? `, tried again in ${Math.ceil(waitMs / 1000)} s` : '';
  const said = lastWords ? `: ${lastWords.code} ${printable(lastWords.text.replaceAll('\n', ' / '))}` : '';
  return `${trouble}${wait}${said}`;
}

function rowOf({ route, domain, queued, held, oldestAcceptedAt, hop }: Destination): string[] {
  const name = printable(hop?.label ?? (route ? `${route}${domain ? ` (${domain})` : ''}` : 'without a route yet'));
  const counts = [String(queued), String(held), ageText(oldestAcceptedAt)];
  return [name, ...counts, hop ? `${hop.connections}/${hop.allowed}` : '-', hop ? serviceText(hop) : ''];
}

/** The holds and what they keep; recipients that are set aside wait for no destination. */
function asideLine(lines: readonly WaitingLine[], holds: readonly Hold[]): string[] {
  const byHold = Map.groupBy(
    lines.filter(({ transport, hold }) => transport === '' && hold !== undefined),
    ({ hold }) => hold,
  );
  return [...byHold].map(([id, group]) => {
    const hold = holds.find((one) => one.id === id);
    const recipients = group.reduce((sum, line) => sum + line.recipients, 0);
    return `${recipients} recipients are set aside by the hold on ${hold ? `${hold.kind} ${printable(hold.value)}` : 'what was released'}`;
  });
}

/** postern queue destinations: what waits by destination, and how the running server serves each next hop. */
export const destinations = defineCommand({
  summary: 'Tell what waits by destination, and how each next hop is served',
  details: `How a next hop is served is known to the running server alone, which is asked by its socket in the data folder: the
connections that are open and that it may have, why it gets less than the configuration allows, when it is tried again, and
its last words. Without a server only the queue is told. Recipients in hand count as queued.`,
  options: {
    limit: { value: 'N', summary: 'at most this many, the longest queues first (default 50)' },
    ...jsonOption,
  },
  examples: ['postern queue destinations', 'postern queue destinations --json'],
  run: ({ options, readConfig }, io) =>
    withQueue(readConfig(), async ({ spool, config }) => {
      const hops = await askForDestinations(config.dataDir);
      const [lines, holds] = [await spool.waiting(mostLines), await spool.holds()];
      const all = gather(
        lines.filter(({ transport, hold }) => transport !== '' || hold === undefined),
        new Holds(holds),
        hops ?? [],
      );
      const shown = all.slice(0, Number(options.limit ?? 50));
      if (options.json) return printJson(io, shown);
      const head = ['destination', 'queued', 'held', 'oldest', 'connections', 'served less because'];
      const text = all.length > 0 ? columns([head, ...shown.map(rowOf)]) : ['Nothing waits'];
      const rest = all.length > shown.length ? [`and ${all.length - shown.length} more`] : [];
      const absent = hops ? [] : ['No server runs on the data folder, so that only the queue is told'];
      return print(io, [...text, ...rest, ...asideLine(lines, holds), ...absent]);
    }),
});
