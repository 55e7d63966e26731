// Custom errors (D65): zone rules, account rules, the zone's page, the account's. What the API has put wins over the configuration.

import type { Clock } from '../../base/clock.ts';
import type { Database } from '../../base/database/database.ts';
import { ConfigurationError } from '../../base/errors.ts';
import { createKeyedQueues } from '../../base/keyed-queues.ts';
import type { Logger } from '../../base/log.ts';
import { yieldToEventLoop } from '../../base/yield-to-event-loop.ts';
import type { EdgeOccurrence, ErrorAnswer, ErrorRequest } from '../errors/catalogue.ts';
import type { CustomErrorRule, CustomErrorSettings, EdgeAccountSlice, EdgeZone } from '../zone/zone.ts';
import { type CompiledRules, compileRules } from './custom-error-rules.ts';
import {
  type CustomErrorKind,
  type CustomErrorOwner,
  type CustomErrorStore,
  openCustomErrorStore,
  type StoredCustomErrors,
} from './custom-error-store.ts';
import { type CompiledPage, compilePage, errorPageFaults, readErrorPage } from './error-page.ts';
import { Evaluation } from './expression.ts';

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

/** What the configuration has for an owner, and what the API put over it. */
interface Layered<T> {
  readonly file: T | undefined;
  stored: { readonly version: number; readonly updatedAt: number; readonly value: T | undefined } | undefined;
}

interface Layer {
  readonly rules: Layered<CompiledRules>;
  readonly page: Layered<CompiledPage>;
}

/** Those of all zones and accounts, by level and id. */
type Layers = ReadonlyMap<string, ReadonlyMap<string, Layer>>;

/** Reads the page of the configuration; its file was judged before. */
function configuredPage({ errorPage }: CustomErrorSettings = {}): CompiledPage | undefined {
  if (errorPage?.file === undefined) return errorPage?.html === undefined ? undefined : compilePage(errorPage.html);
  const page = readErrorPage(errorPage.file);
  if ('problem' in page) throw new ConfigurationError(page.problem);
  return compilePage(page.html);
}

/** The layers of the configuration, pages read. @throws as `openCustomErrors` */
async function fileLayers({ zones, accounts, log }: CustomErrorsParts): Promise<Layers> {
  const faults = errorPageFaults({ zones, accounts });
  if (faults.length > 0) throw new ConfigurationError(faults.join('\n'));
  const layers = new Map<string, Map<string, Layer>>();
  for (const [level, owners] of Object.entries({ zone: zones, account: accounts })) {
    const byId = new Map<string, Layer>();
    layers.set(level, byId);
    for (const { id, customErrors } of owners) {
      const onFault = (text: string): void => log.error({ [level]: id, text }, 'rule left out');
      const rules = customErrors?.rules && (await compileRules(customErrors.rules, onFault));
      const page = configuredPage(customErrors);
      byId.set(id, { rules: { file: rules, stored: undefined }, page: { file: page, stored: undefined } });
    }
  }
  return layers;
}

function inEffect<T>({ file, stored }: Layered<T>): InEffect<T | undefined> {
  const since = stored ? { version: stored.version, updatedAt: stored.updatedAt } : { version: 0 };
  if (stored?.value !== undefined) return { source: 'api', ...since, value: stored.value };
  return { source: file === undefined ? 'none' : 'file', ...since, value: file };
}

/** Gives the value alone, which is needed with every error. */
function valueOf<T>(layered: Layered<T> | undefined): T | undefined {
  return layered?.stored?.value ?? layered?.file;
}

/** Milliseconds between two lines of the log that tell of the same zone's rules. */
const cutOffLogMs = 60_000;

/** Custom errors of all zones and accounts. Only `openCustomErrors` makes them. */
export class CustomErrors {
  readonly #parts: CustomErrorsParts;
  readonly #layers: Layers;
  readonly #store: CustomErrorStore;
  /** The revision of the store up to which everything is known. */
  #known = 0;
  /** When the log told last that a zone's rules ask too much, by the zone's id. */
  readonly #toldAt = new Map<string, number>();
  readonly #plans: ReadonlyMap<string, EdgeAccountSlice['plan']>;
  readonly #accountOfZone: ReadonlyMap<string, string>;
  readonly #learning = createKeyedQueues();

  constructor(parts: CustomErrorsParts, layers: Layers, store: CustomErrorStore) {
    this.#parts = parts;
    this.#layers = layers;
    this.#store = store;
    this.#plans = new Map(parts.accounts.map(({ id, plan }) => [id, plan]));
    this.#accountOfZone = new Map(parts.zones.map(({ id, account }) => [id, account]));
  }

  /** The custom answer by what this process knows; undefined: the default, also where the rules take too many steps. Never throws. */
  choose(zone: EdgeZone, occurrence: EdgeOccurrence, request: ErrorRequest): ErrorAnswer | undefined {
    const ofZone = this.#layers.get('zone')?.get(zone.id);
    const ofAccount = this.#layers.get('account')?.get(zone.account);
    const evaluation = new Evaluation({ error: occurrence.error, request });
    const answer = (layer: Layer | undefined) => valueOf(layer?.rules)?.answer(occurrence, evaluation);
    const byRule = this.#hasRules(zone.account) ? (answer(ofZone) ?? answer(ofAccount)) : undefined;
    if (byRule) return byRule;
    if (evaluation.isSpent) {
      this.#tellCutOff(zone, occurrence);
      return undefined;
    }
    return (valueOf(ofZone?.page) ?? valueOf(ofAccount?.page))?.answer(occurrence, request);
  }

  /** Learns what other processes have put (D94). Never throws: where the database fails, it logs that and goes on with what it knows. */
  refresh(): Promise<void> {
    return this.learn().catch((error: unknown) =>
      this.#parts.log.error({ err: error }, 'custom errors cannot be read; what is known of them goes on counting'),
    );
  }

  /** Learns the same. @throws what the store throws */
  learn(): Promise<void> {
    // What the one before has still to take is older.
    return this.#learning('', () => this.#learn());
  }

  async #learn(): Promise<void> {
    if ((await this.#store.revision()) === this.#known) return;
    for (const stored of await this.#store.changedSince(this.#known)) {
      // One that another hand has written must not keep the others from being learned.
      await this.#take(stored).catch((err: unknown) =>
        this.#parts.log.error({ err, [stored.level]: stored.owner }, 'stored rule left out'),
      );
      await yieldToEventLoop();
    }
  }

  /** The rules in effect; none on plan `free`. @throws Error where there is no such zone or account, as all that follow */
  async rules(owner: CustomErrorOwner): Promise<InEffect<readonly CustomErrorRule[]>> {
    const { rules } = this.#of(owner);
    await this.learn();
    const { value, ...rest } = inEffect(rules);
    const account = owner.level === 'account' ? owner.id : this.#accountOfZone.get(owner.id);
    if (!this.#hasRules(account)) return { ...rest, source: 'none', value: [] };
    return { ...rest, value: value?.rules ?? [] };
  }

  /** The Error Page's HTML in effect. */
  async page(owner: CustomErrorOwner): Promise<InEffect<string | undefined>> {
    const { page } = this.#of(owner);
    await this.learn();
    const { value, ...rest } = inEffect(page);
    return { ...rest, value: value?.html() };
  }

  /** Puts judged rules, in effect once it resolves; undefined: the configuration's. @returns false where `ifVersion` is not the present */
  putRules(
    owner: CustomErrorOwner,
    rules: readonly CustomErrorRule[] | undefined,
    ifVersion?: number,
  ): Promise<boolean> {
    return this.#put(owner, 'rules', rules && JSON.stringify(rules), ifVersion);
  }

  putPage(owner: CustomErrorOwner, html: string | undefined, ifVersion?: number): Promise<boolean> {
    return this.#put(owner, 'page', html, ifVersion);
  }

  #of({ level, id }: CustomErrorOwner): Layer {
    const layer = this.#layers.get(level)?.get(id);
    if (!layer) throw new Error(`There is no ${level} ${JSON.stringify(id)}`);
    return layer;
  }

  /** D65: plan `free` has no rules, whatever was put while the account had another plan. */
  #hasRules(account: string | undefined): boolean {
    return account !== undefined && this.#plans.get(account) !== 'free';
  }

  #tellCutOff({ id, name }: EdgeZone, { rayId }: EdgeOccurrence): void {
    const { clock, log, onCutOff } = this.#parts;
    onCutOff?.(name);
    const now = clock.monotonic();
    if (now - (this.#toldAt.get(id) ?? Number.NEGATIVE_INFINITY) < cutOffLogMs) return;
    this.#toldAt.set(id, now);
    log.warn({ ray: rayId, zone: name }, 'the rules of a zone ask too much of a request; it got the default answer');
  }

  async #put(owner: CustomErrorOwner, kind: CustomErrorKind, body: string | undefined, ifVersion?: number) {
    const kept = this.#of(owner)[kind];
    await this.learn();
    // Taking back what was never put changes nothing.
    if (body === undefined && kept.stored?.value === undefined) return true;
    const put = await this.#store.put(owner, kind, body, ifVersion);
    await this.learn();
    return put !== undefined;
  }

  async #take({ level, owner, kind, version, updatedAt, revision, body }: StoredCustomErrors): Promise<void> {
    // Of two look-ups at the same time, the slower one may bring older news.
    if (revision <= this.#known) return;
    this.#known = revision;
    const layer = this.#layers.get(level)?.get(owner);
    if (!layer) return; // a zone or an account that is configured no more
    const common = { version, updatedAt };
    if (kind === 'page') {
      layer.page.stored = { ...common, value: body === undefined ? undefined : compilePage(body) };
      return;
    }
    if (kind !== 'rules') return; // what a newer program keeps
    const onFault = (text: string): void => this.#parts.log.error({ [level]: owner, text }, 'stored rule left out');
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `putRules` has written them
    const rules = body === undefined ? undefined : (JSON.parse(body) as readonly CustomErrorRule[]);
    layer.rules.stored = { ...common, value: rules && (await compileRules(rules, onFault)) };
  }
}

/** Opens the custom errors. @throws ConfigurationError with a line for each page whose file is missing, too large or no text */
export async function openCustomErrors(parts: CustomErrorsParts): Promise<CustomErrors> {
  const layers = await fileLayers(parts);
  const customErrors = new CustomErrors(parts, layers, await openCustomErrorStore(parts.database, parts.clock));
  await customErrors.learn();
  return customErrors;
}
