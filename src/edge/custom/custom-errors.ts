// Custom errors (D65): zone rules, account rules, the zone's page, the account's page, in this order. What the API put
// wins over the configuration, per owner and kind.

import type { Clock } from '../../base/clock.ts';
import type { Database } from '../../base/database/database.ts';
import { ConfigurationError } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { EdgeOccurrence, ErrorAnswer, ErrorRequest } from '../errors/edge-error.ts';
import type { CustomErrorRule, CustomErrorSettings, EdgeAccountSlice, EdgeZone } from '../zone/zone.ts';
import { type CompiledRules, compileRules } from './custom-error-rules.ts';
import {
  type CustomErrorKind,
  type CustomErrorOwner,
  openCustomErrorStore,
  type StoredCustomErrors,
} from './custom-error-store.ts';
import { type CompiledPage, compilePage } from './error-page.ts';
import { errorPageFaults, readErrorPage } from './error-page-file.ts';
import { readStoredRules, writeStoredRules } from './stored-rules.ts';

/** What custom errors are made from. */
export interface CustomErrorsParts {
  readonly database: Database;
  readonly zones: readonly EdgeZone[];
  readonly accounts: readonly EdgeAccountSlice[];
  readonly clock: Clock;
  readonly log: Logger;
}

/** What counts for an owner now, and where it comes from. */
export interface InEffect<T> {
  readonly source: 'api' | 'file' | 'none';
  /** Changes by the API so far; 0 where there was none. */
  readonly version: number;
  /** When the API changed it last, milliseconds since 1970. */
  readonly updatedAt?: number;
  readonly value: T;
}

/** Custom errors of all zones and accounts. */
export interface CustomErrors {
  /** The custom answer to an error, by what is known here; undefined where the default counts. Never throws. */
  choose(zone: EdgeZone, occurrence: EdgeOccurrence, request: ErrorRequest): ErrorAnswer | undefined;
  /**
   * Learns what other processes put (D94). Never throws: without its database it goes on with what it knows, and the log
   * tells.
   */
  refresh(): Promise<void>;
  /** The rules in effect; none on plan `free`. */
  rules(owner: CustomErrorOwner): Promise<InEffect<readonly CustomErrorRule[]>>;
  /** The Error Page's HTML in effect. */
  page(owner: CustomErrorOwner): Promise<InEffect<string | undefined>>;
  /** Puts rules that have been judged; they count once it resolves. Undefined: back to the file. */
  putRules(owner: CustomErrorOwner, rules: readonly CustomErrorRule[] | undefined): Promise<void>;
  /** Puts a page that has been judged; it counts once it resolves. Undefined: back to the file. */
  putPage(owner: CustomErrorOwner, html: string | undefined): Promise<void>;
}

interface Kept<T> {
  readonly file: T | undefined;
  stored: { readonly version: number; readonly updatedAt: number; readonly value: T | undefined } | undefined;
}

interface Layer {
  readonly rules: Kept<CompiledRules>;
  readonly page: Kept<CompiledPage>;
}

function inEffect<T>({ file, stored }: Kept<T>): InEffect<T | undefined> {
  const since = stored ? { version: stored.version, updatedAt: stored.updatedAt } : { version: 0 };
  if (stored?.value !== undefined) return { source: 'api', ...since, value: stored.value };
  return { source: file === undefined ? 'none' : 'file', ...since, value: file };
}

/** The value alone, for who asks with every error. */
function valueOf<T>({ file, stored }: Kept<T>): T | undefined {
  return stored?.value ?? file;
}

const keyOf = ({ level, id }: CustomErrorOwner): string => `${level}/${id}`;

interface Configured extends CustomErrorOwner {
  readonly customErrors: CustomErrorSettings | undefined;
}

function owners({ zones, accounts }: CustomErrorsParts): Configured[] {
  return [
    ...zones.map(({ id, customErrors }): Configured => ({ level: 'zone', id, customErrors })),
    ...accounts.map(({ id, customErrors }): Configured => ({ level: 'account', id, customErrors })),
  ];
}

/** The page of the configuration; its file was judged before. */
function configuredPage({ errorPage }: CustomErrorSettings = {}): CompiledPage | undefined {
  if (errorPage?.file === undefined) return errorPage?.html === undefined ? undefined : compilePage(errorPage.html);
  const page = readErrorPage(errorPage.file);
  if ('problem' in page) throw new ConfigurationError(page.problem);
  return compilePage(page.html);
}

/** The layers of the configuration, pages read. */
function fileLayers(parts: CustomErrorsParts): Map<string, Layer> {
  const faults = errorPageFaults(parts);
  if (faults.length > 0) throw new ConfigurationError(faults.join('\n'));
  return new Map(
    owners(parts).map((owner): [string, Layer] => {
      const { level, id, customErrors } = owner;
      const onFault = (text: string): void => parts.log.error({ [level]: id, text }, 'rule left out');
      const rules = customErrors?.rules && compileRules(customErrors.rules, onFault);
      return [
        keyOf(owner),
        { rules: { file: rules, stored: undefined }, page: { file: configuredPage(customErrors), stored: undefined } },
      ];
    }),
  );
}

/**
 * Opens the custom errors of a configuration and of what the API put.
 * @throws ConfigurationError where a page's file is missing, too large or no text: one line for each
 */
export async function openCustomErrors(parts: CustomErrorsParts): Promise<CustomErrors> {
  const { database, zones, accounts, clock, log } = parts;
  const layers = fileLayers(parts);
  const zoneLayers = new Map(zones.map(({ id }) => [id, layers.get(`zone/${id}`)]));
  const accountLayers = new Map(accounts.map(({ id }) => [id, layers.get(`account/${id}`)]));
  const store = await openCustomErrorStore(database, clock);
  const plans = new Map(accounts.map(({ id, plan }) => [id, plan]));
  const accountOfZone = new Map(zones.map(({ id, account }) => [id, account]));
  let known = 0;

  function take({ level, owner, kind, version, updatedAt, revision, body }: StoredCustomErrors): void {
    // Of two that look at the same time the slower one may know less.
    if (revision <= known) return;
    known = revision;
    const layer = layers.get(`${level}/${owner}`);
    if (!layer) return; // a zone or an account that is configured no more
    const common = { version, updatedAt };
    if (kind === 'page') {
      layer.page.stored = { ...common, value: body === undefined ? undefined : compilePage(body) };
      return;
    }
    if (kind !== 'rules') return; // what a newer program keeps
    const onFault = (text: string): void => log.error({ [level]: owner, text }, 'stored rule left out');
    const rules = body === undefined ? undefined : readStoredRules(body, onFault);
    layer.rules.stored = { ...common, value: rules && compileRules(rules, onFault) };
  }

  async function learn(): Promise<void> {
    if ((await store.revision()) === known) return;
    for (const stored of await store.changedSince(known)) take(stored);
  }

  function layerOf(owner: CustomErrorOwner): Layer {
    const layer = layers.get(keyOf(owner));
    if (!layer) throw new Error(`There is no ${owner.level} ${JSON.stringify(owner.id)}`);
    return layer;
  }

  /** D65: plan `free` has no rules, whatever was put while the account had another. */
  function hasRules(account: string | undefined): boolean {
    return account !== undefined && plans.get(account) !== 'free';
  }

  async function put(owner: CustomErrorOwner, kind: CustomErrorKind, body: string | undefined): Promise<void> {
    const kept = layerOf(owner)[kind];
    await learn();
    // Taking back what was never put changes nothing.
    if (body === undefined && kept.stored?.value === undefined) return;
    await store.put(owner, kind, body);
    await learn();
  }

  await learn();
  return {
    choose(zone, occurrence, request) {
      const ofZone = zoneLayers.get(zone.id);
      const ofAccount = accountLayers.get(zone.account);
      const answer = (layer: Layer | undefined): ErrorAnswer | undefined =>
        layer && valueOf(layer.rules)?.answer(occurrence, request);
      const byRule = hasRules(zone.account) ? (answer(ofZone) ?? answer(ofAccount)) : undefined;
      if (byRule) return byRule;
      const page = (ofZone && valueOf(ofZone.page)) ?? (ofAccount && valueOf(ofAccount.page));
      return page?.answer(occurrence, request);
    },
    async refresh() {
      try {
        await learn();
      } catch (error) {
        log.error({ err: error }, 'custom errors cannot be read; what is known of them goes on counting');
      }
    },
    async rules(owner) {
      const { rules } = layerOf(owner);
      await learn();
      const { value, ...rest } = inEffect(rules);
      const account = owner.level === 'account' ? owner.id : accountOfZone.get(owner.id);
      if (!hasRules(account)) return { ...rest, source: 'none', value: [] };
      return { ...rest, value: value?.rules ?? [] };
    },
    async page(owner) {
      const { page } = layerOf(owner);
      await learn();
      const { value, ...rest } = inEffect(page);
      return { ...rest, value: value?.html() };
    },
    putRules: (owner, rules) => put(owner, 'rules', rules && writeStoredRules(rules)),
    putPage: (owner, html) => put(owner, 'page', html),
  };
}

/** How often it is looked what other processes put: well within the second of D94. */
const followMs = 500;

/** Learns what other processes put, one look after another. @returns what ends it, once a look under way is over */
export function followCustomErrors(customErrors: Pick<CustomErrors, 'refresh'>): {
  readonly stop: () => Promise<void>;
} {
  let looking: Promise<void> | undefined;
  const timer = setInterval(() => {
    looking ??= customErrors.refresh().finally(() => {
      looking = undefined;
    });
  }, followMs);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await looking;
    },
  };
}
