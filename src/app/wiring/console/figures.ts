// Counts mail and edge errors by account and minute, for the pages of the console. Where the console is not served nothing is counted.

import type { Clock } from '../../../base/clock.ts';
import type { Database } from '../../../base/database/database.ts';
import type { Logger } from '../../../base/log.ts';
import { oncePer } from '../../../base/once-per.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import { countedOf, openFigureStore } from '../../../spool/figures/figure-store.ts';
import { MinuteFigures, type Queues, sampleQueues } from '../../../spool/figures/minute-figures.ts';
import type { Spool, WaitingLine } from '../../../spool/spool.ts';
import type { Config } from '../../config/config.ts';

/** Recipients up to which the oldest message of each account is looked for: that costs the more the more of them wait. */
const mostLookedAt = 10_000;

type SampledSpool = Pick<Spool, 'tallies' | 'oldest'>;
type ReadLines = () => Promise<{ readonly lines: readonly WaitingLine[] }>;

async function queuesOf(spool: SampledSpool, lines: ReadLines): Promise<Queues> {
  const tallies = (await spool.tallies()).map(({ account, recipients }) => ({
    account,
    recipients: recipients.queued,
  }));
  const all = tallies.reduce((sum, { recipients }) => sum + recipients, 0);
  if (all === 0) return { accounts: [] };
  const oldest = new Map<string, number>();
  for (const { account, oldestAcceptedAt } of all > mostLookedAt ? [] : (await lines()).lines) {
    oldest.set(account, Math.min(oldest.get(account) ?? oldestAcceptedAt, oldestAcceptedAt));
  }
  const accounts = tallies.map((tally) => ({ ...tally, oldestAt: oldest.get(tally.account) }));
  return { accounts, oldestAt: await spool.oldest() };
}

/** The figures, and what counts into them. */
export interface Figures {
  readonly minutes: MinuteFigures;
  follow(events: Pick<EventStore, 'listen'>): void;
  /** Counts what waits, from now on. */
  sample(spool: SampledSpool, lines: ReadLines): void;
  /** Counts a request to the edge that has ended. @param request.zone name of the zone; empty where it was for none */
  edgeRequest(request: { readonly zone: string; readonly code?: number | undefined }): void;
}

/** The accounts of a configuration's zones, by the names of both. */
const accountsOfZones = oncePer((config: Config) => {
  const names = new Map(config.accounts.map(({ id, name }) => [id, name]));
  return new Map(config.zones.map(({ name, account }) => [name, names.get(account)]));
});

interface FiguresParts {
  readonly database: Database;
  /** The configuration in force; called at each event. */
  readonly config: () => Config;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Opens the figures. They are written from the start on. */
export async function openFigures(
  { database, config, clock, log }: FiguresParts,
  running: { readonly stores: (() => void | Promise<void>)[] },
): Promise<Figures> {
  const minutes = new MinuteFigures({ store: await openFigureStore(database), clock, log });
  running.stores.push(() => minutes.stop());
  minutes.start();
  return {
    minutes,
    follow(events) {
      events.listen((event) => {
        if (config().console.enabled) minutes.count(event.account, event.at, countedOf(event));
      });
    },
    sample(spool, lines) {
      const stop = sampleQueues({
        queues: async () => (config().console.enabled ? await queuesOf(spool, lines) : undefined),
        tell: (account, at, counted) => minutes.count(account, at, counted),
        clock,
        log,
      });
      running.stores.push(stop);
    },
    edgeRequest({ zone, code }) {
      const account = config().console.enabled && zone !== '' ? accountsOfZones(config()).get(zone) : undefined;
      if (account === undefined) return;
      const failed = code === undefined ? [] : [{ name: `edge ${code} ${zone}`, instead: `edge ${code} *`, count: 1 }];
      minutes.count(account, clock.now(), [
        { name: `edge requests ${zone}`, instead: 'edge requests *', count: 1 },
        ...failed,
      ]);
    },
  };
}
