// The edge while zones change: the old one finishes its requests. The counts of open requests and of clients' rates go on.

import type { ToldCounts } from '../../../accounts/told-counts.ts';
import type { Clock } from '../../../base/clock.ts';
import type { Database } from '../../../base/database/database.ts';
import { lazily } from '../../../base/load/lazily.ts';
import type { Logger } from '../../../base/log.ts';
import type { ProcessGroup } from '../../../base/process-group.ts';
import type { OpenEdge, OpenEdgeParts } from '../../../edge/open-edge.ts';
import { OpenRequests } from '../../../edge/zone/open-requests.ts';
import { keepRateLimits, shareRateLimits, tellRateLimits } from '../../../edge/zone/rate-limit.ts';
import { answerPlainly } from '../../../web/http/plain-routes.ts';
import { apiHostSet } from '../../../web/http/route.ts';
import type { Config } from '../../config/config.ts';

/** The parts that the edge is made from. */
export interface LiveEdgeParts extends Pick<OpenEdgeParts, 'docsBaseUrl' | 'onRequest' | 'onCutOff'> {
  readonly database: Database;
  /** Gives the limits in force; called whenever a limit is checked. */
  readonly limits: () => Config['edge']['limits'];
  /** The processes that share the work; absent: there is one. */
  readonly group?: ProcessGroup | undefined;
  /** Counts together with the other gateways of the database; absent: they are not asked. */
  readonly told?: ToldCounts | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The routes that an edge adds to the API. They exist before the edge is in force. */
export type EdgeRoutes = Pick<OpenEdge, 'front' | 'plugins'>;

/** The longest time that a Node timer accepts, in milliseconds. */
const longestMs = 2 ** 31 - 1;

/** An edge that another can take the place of. */
type ReplaceableEdge = EdgeRoutes & Pick<OpenEdge, 'open' | 'close'>;

/** Makes an edge without zones: it is loaded with the first request that is not for the API, or with its endpoints. */
function lateEdge(open: () => Promise<OpenEdge>, apiHosts: readonly string[], log: Logger): ReplaceableEdge {
  let loaded: OpenEdge | undefined;
  let isClosed = false;
  const load = lazily(async () => {
    loaded = await open();
    // A request of a connection from before a reload may come when another edge has taken the place of this one.
    if (isClosed) await loaded.close(0);
    return loaded;
  });
  return {
    front: {
      hosts: { isZone: () => false, apiHosts: apiHostSet(apiHosts) },
      answer: (request, response, arrival) => {
        const failed = (err: unknown): void => {
          log.error({ err, ray: arrival.rayId }, 'http request failed');
          if (!response.headersSent) answerPlainly(response, 500, 'Internal error');
        };
        load()
          .then(({ front }) => front.answer(request, response, arrival))
          .catch(failed);
      },
      takesUpgrade: () => false,
      upgrade: (_request, socket) => void socket.destroy(),
    },
    plugins: async () => await (await load()).plugins(),
    open: () => loaded?.open() ?? 0,
    async close(withinMs) {
      isClosed = true;
      await loaded?.close(withinMs);
    },
  };
}

/** An edge that can be replaced by another while it runs. None is in force before the first one is prepared and committed. */
export class LiveEdge {
  readonly #parts: LiveEdgeParts;
  readonly #requests: OpenRequests;
  readonly #rateLimitOf: NonNullable<OpenEdgeParts['rateLimitOf']>;
  readonly #opened = new Set<ReplaceableEdge>();
  #current: ReplaceableEdge | undefined;

  constructor(parts: LiveEdgeParts) {
    const { group, told, clock } = parts;
    this.#parts = parts;
    this.#requests = new OpenRequests(parts.limits, group);
    const byGroup = group ? shareRateLimits(group.windows) : keepRateLimits(clock);
    this.#rateLimitOf = told ? tellRateLimits((...asked) => told.takeWindow(...asked)) : byGroup;
  }

  /** Opens another edge beside the present one. @throws ConfigurationError where the file of an Error Page cannot be used */
  async prepare(config: Config): Promise<EdgeRoutes & { commit(): void; abort(): Promise<void> }> {
    const open = lazily(() => this.#openFor(config));
    // Opened with the gateway where there is something to answer with.
    const isUsed =
      config.zones.length > 0 || config.edgeAccounts.some(({ customErrors }) => customErrors !== undefined);
    const next = isUsed ? await open() : lateEdge(open, config.http.apiHosts, this.#parts.log);
    this.#opened.add(next);
    return {
      front: next.front,
      plugins: () => next.plugins(),
      commit: () => {
        const before = this.#current;
        this.#current = next;
        // Its requests, including upgraded connections, may take as long as they could before.
        if (before) void this.#end(before, longestMs);
      },
      abort: () => this.#end(next, 0),
    };
  }

  open(): number {
    return [...this.#opened].reduce((sum, edge) => sum + edge.open(), 0);
  }

  requests(): number {
    return this.#requests.open();
  }

  async close(withinMs: number): Promise<void> {
    await Promise.all([...this.#opened].map((edge) => edge.close(withinMs)));
  }

  async #openFor(config: Config): Promise<OpenEdge> {
    const { limits: _limits, group: _group, told: _told, ...rest } = this.#parts;
    const { edgeAccounts, openEdge } = await import('../../../edge/open-edge.ts');
    return await openEdge({
      ...rest,
      zones: config.zones,
      accounts: edgeAccounts(config.accounts, config.edgeAccounts),
      settings: config.edge,
      apiHosts: config.http.apiHosts,
      requests: this.#requests,
      rateLimitOf: this.#rateLimitOf,
    });
  }

  async #end(edge: ReplaceableEdge, withinMs: number): Promise<void> {
    try {
      await edge.close(withinMs);
    } catch (error) {
      this.#parts.log.error({ err: error }, 'the edge before could not be ended');
    }
    this.#opened.delete(edge);
  }
}
