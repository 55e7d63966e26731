// Custom errors (D65): zone rules, account rules, the zone's page and the account's page are tried in this order. For each owner
// and kind, what the API has put takes the place of the configuration.

import type { Clock } from '../../base/clock.ts';
import type { Changes, Database } from '../../base/database/database.ts';
import type { Logger } from '../../base/log.ts';
import type { EdgeOccurrence, ErrorAnswer, ErrorRequest } from '../errors/edge-error.ts';
import type { CustomErrorRule, EdgeAccountSlice, EdgeZone } from '../zone/zone.ts';
import { CustomErrorLayers, fileLayers, type Layer, type Layered, writeStoredRules } from './custom-error-layers.ts';
import { type CustomErrorOwner, openCustomErrorStore } from './custom-error-store.ts';
import { Evaluation } from './evaluation.ts';

/** What custom errors are made from. */
export interface CustomErrorsParts {
  readonly database: Database;
  readonly zones: readonly EdgeZone[];
  readonly accounts: readonly EdgeAccountSlice[];
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with the zone's name where its rules and its account's would have asked too much of a request (D65). */
  readonly onCutOff?: (zone: string) => void;
}

/** What is in effect for an owner now, and where it comes from. */
export interface InEffect<T> {
  readonly source: 'api' | 'file' | 'none';
  /** How often the API has changed it so far. */
  readonly version: number;
  /** When the API changed it last, milliseconds since 1970. */
  readonly updatedAt?: number;
  readonly value: T;
}

/** Custom errors of all zones and accounts. */
export interface CustomErrors {
  /**
   * The custom answer to an error, by what this process knows; undefined where the default applies, which is so too where the
   * rules would take more steps than they may. Never throws.
   */
  choose(zone: EdgeZone, occurrence: EdgeOccurrence, request: ErrorRequest): ErrorAnswer | undefined;
  /**
   * Learns what other processes have put (D94). Never throws: where the database fails it goes on with what it knows, and
   * writes the failure to the log.
   */
  refresh(): Promise<void>;
  /** The rules in effect; none on plan `free`. */
  rules(owner: CustomErrorOwner): Promise<InEffect<readonly CustomErrorRule[]>>;
  /** The Error Page's HTML in effect. */
  page(owner: CustomErrorOwner): Promise<InEffect<string | undefined>>;
  /**
   * Puts rules that were judged before; they are in effect once this resolves. Undefined returns to the configuration's.
   * @param ifVersion the version that must be the present one; absent: any
   * @returns whether it was the present one; if not, nothing has changed
   */
  putRules(
    owner: CustomErrorOwner,
    rules: readonly CustomErrorRule[] | undefined,
    ifVersion?: number,
  ): Promise<boolean>;
  /** Puts a page in the same way. */
  putPage(owner: CustomErrorOwner, html: string | undefined, ifVersion?: number): Promise<boolean>;
}

function inEffect<T>({ file, stored }: Layered<T>): InEffect<T | undefined> {
  const since = stored ? { version: stored.version, updatedAt: stored.updatedAt } : { version: 0 };
  if (stored?.value !== undefined) return { source: 'api', ...since, value: stored.value };
  return { source: file === undefined ? 'none' : 'file', ...since, value: file };
}

/** Gives the value alone, which is needed with every error. */
function valueOf<T>({ file, stored }: Layered<T>): T | undefined {
  return stored?.value ?? file;
}

/** Milliseconds between two lines of the log that tell of the same zone's rules. */
const cutOffLogMs = 60_000;

/**
 * Opens the custom errors of a configuration and of the API.
 * @throws ConfigurationError where a page's file is missing, too large or no text: one line for each
 */
export async function openCustomErrors(parts: CustomErrorsParts): Promise<CustomErrors> {
  const { database, zones, accounts, clock, log } = parts;
  const configured = fileLayers(parts);
  const layers = new CustomErrorLayers(configured, { store: await openCustomErrorStore(database, clock), log });
  const zoneLayers = new Map(zones.map(({ id }) => [id, layers.find({ level: 'zone', id })]));
  const accountLayers = new Map(accounts.map(({ id }) => [id, layers.find({ level: 'account', id })]));
  const plans = new Map(accounts.map(({ id, plan }) => [id, plan]));
  const accountOfZone = new Map(zones.map(({ id, account }) => [id, account]));
  /** D65: plan `free` has no rules, whatever was put while the account had another plan. */
  const hasRules = (account: string | undefined): boolean => account !== undefined && plans.get(account) !== 'free';

  const toldAt = new Map<string, number>();
  const tellCutOff = ({ id, name }: EdgeZone, { rayId }: EdgeOccurrence): void => {
    parts.onCutOff?.(name);
    const now = clock.monotonic();
    if (now - (toldAt.get(id) ?? Number.NEGATIVE_INFINITY) < cutOffLogMs) return;
    toldAt.set(id, now);
    log.warn({ ray: rayId, zone: name }, 'the rules of a zone ask too much of a request; it got the default answer');
  };

  await layers.learn();
  return {
    choose(zone, occurrence, request) {
      const ofZone = zoneLayers.get(zone.id);
      const ofAccount = accountLayers.get(zone.account);
      const evaluation = new Evaluation({ error: occurrence.error, request });
      const answer = (layer: Layer | undefined): ErrorAnswer | undefined =>
        layer && valueOf(layer.rules)?.answer(occurrence, evaluation);
      const byRule = hasRules(zone.account) ? (answer(ofZone) ?? answer(ofAccount)) : undefined;
      if (byRule) return byRule;
      if (evaluation.isSpent) {
        tellCutOff(zone, occurrence);
        return undefined;
      }
      const page = (ofZone && valueOf(ofZone.page)) ?? (ofAccount && valueOf(ofAccount.page));
      return page?.answer(occurrence, request);
    },
    async refresh() {
      try {
        await layers.learn();
      } catch (error) {
        log.error({ err: error }, 'custom errors cannot be read; what is known of them goes on counting');
      }
    },
    async rules(owner) {
      const { rules } = layers.of(owner);
      await layers.learn();
      const { value, ...rest } = inEffect(rules);
      const account = owner.level === 'account' ? owner.id : accountOfZone.get(owner.id);
      if (!hasRules(account)) return { ...rest, source: 'none', value: [] };
      return { ...rest, value: value?.rules ?? [] };
    },
    async page(owner) {
      const { page } = layers.of(owner);
      await layers.learn();
      const { value, ...rest } = inEffect(page);
      return { ...rest, value: value?.html() };
    },
    putRules: (owner, rules, ifVersion) => layers.put(owner, 'rules', rules && writeStoredRules(rules), ifVersion),
    putPage: (owner, html, ifVersion) => layers.put(owner, 'page', html, ifVersion),
  };
}

/** Milliseconds between two looks for changes by other processes, well within the second of D94. */
const followMs = 500;

/** Learns regularly what other processes have put. @returns a function that ends this; it waits for a look under way */
export function followCustomErrors(
  customErrors: Pick<CustomErrors, 'refresh'>,
  changes: Changes,
): {
  readonly stop: () => Promise<void>;
} {
  let looking: Promise<void> | undefined;
  const look = (): void => {
    looking ??= customErrors.refresh().finally(() => {
      looking = undefined;
    });
  };
  const timer = setInterval(look, followMs);
  timer.unref();
  const ignore = changes.on('edge_custom_errors', look);
  return {
    async stop() {
      ignore();
      clearInterval(timer);
      await looking;
    },
  };
}
