// Keeps the custom errors of each zone and account: those of the configuration, and over them those that the API has put, in
// this process or another (D94).

import { ConfigurationError } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { CustomErrorRule, CustomErrorSettings, EdgeAccountSlice, EdgeZone } from '../zone/zone.ts';
import { type CompiledRules, compileRules, ruleContentTypes } from './custom-error-rules.ts';
import type { CustomErrorKind, CustomErrorOwner, CustomErrorStore, StoredCustomErrors } from './custom-error-store.ts';
import { type CompiledPage, compilePage, errorPageFaults, readErrorPage } from './error-page.ts';

/** Writes rules. */
export function writeStoredRules(rules: readonly CustomErrorRule[]): string {
  return JSON.stringify(rules);
}

function ruleOf(value: unknown): CustomErrorRule | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const member = (name: string): unknown => Reflect.get(value, name);
  const [expression, enabled, content, statusCode] = ['expression', 'enabled', 'content', 'statusCode'].map(member);
  const contentType = ruleContentTypes.find((type) => type === member('contentType'));
  if (typeof expression !== 'string' || typeof content !== 'string' || contentType === undefined) return undefined;
  return {
    expression,
    ...(typeof enabled === 'boolean' ? { enabled } : {}),
    content,
    contentType,
    ...(typeof statusCode === 'number' ? { statusCode } : {}),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // told to onFault like every other text that is no list of rules
  }
}

/**
 * Reads rules.
 * @param onFault told of what is no rule, which only another version of this program or another hand can have written
 */
function readStoredRules(text: string, onFault: (text: string) => void): readonly CustomErrorRule[] {
  const values = parsed(text);
  if (!Array.isArray(values)) {
    onFault('the stored rules are no list');
    return [];
  }
  return values.flatMap((value: unknown, index) => {
    const rule = ruleOf(value);
    if (!rule) onFault(`entry ${index} of the stored rules is no rule`);
    return rule ? [rule] : [];
  });
}

/** Whose custom errors there are. */
interface LayerParts {
  readonly zones: readonly EdgeZone[];
  readonly accounts: readonly EdgeAccountSlice[];
  readonly log: Logger;
}

/** What the configuration has for an owner, and what the API put over it. */
export interface Layered<T> {
  readonly file: T | undefined;
  stored: { readonly version: number; readonly updatedAt: number; readonly value: T | undefined } | undefined;
}

/** The custom errors of one zone or account. */
export interface Layer {
  readonly rules: Layered<CompiledRules>;
  readonly page: Layered<CompiledPage>;
}

const keyOf = ({ level, id }: CustomErrorOwner): string => `${level}/${id}`;

interface Configured extends CustomErrorOwner {
  readonly customErrors: CustomErrorSettings | undefined;
}

function owners({ zones, accounts }: LayerParts): Configured[] {
  return [
    ...zones.map(({ id, customErrors }): Configured => ({ level: 'zone', id, customErrors })),
    ...accounts.map(({ id, customErrors }): Configured => ({ level: 'account', id, customErrors })),
  ];
}

/** Reads the page of the configuration; its file was judged before. */
function configuredPage({ errorPage }: CustomErrorSettings = {}): CompiledPage | undefined {
  if (errorPage?.file === undefined) return errorPage?.html === undefined ? undefined : compilePage(errorPage.html);
  const page = readErrorPage(errorPage.file);
  if ('problem' in page) throw new ConfigurationError(page.problem);
  return compilePage(page.html);
}

/**
 * The layers of the configuration, pages read.
 * @throws ConfigurationError where a page's file is missing, too large or no text: one line for each
 */
export function fileLayers(parts: LayerParts): ReadonlyMap<string, Layer> {
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

/** The layers of all owners, kept up with a store. */
export class CustomErrorLayers {
  readonly #layers: ReadonlyMap<string, Layer>;
  readonly #store: CustomErrorStore;
  readonly #log: Logger;
  /** The revision of the store up to which everything is known. */
  #known = 0;

  /** @param layers those of the configuration (`fileLayers`), by owner */
  constructor(layers: ReadonlyMap<string, Layer>, parts: { readonly store: CustomErrorStore; readonly log: Logger }) {
    this.#layers = layers;
    this.#store = parts.store;
    this.#log = parts.log;
  }

  /** The layer of an owner; undefined where there is no such zone or account. */
  find(owner: CustomErrorOwner): Layer | undefined {
    return this.#layers.get(keyOf(owner));
  }

  /** The layer of an owner. @throws Error where there is no such zone or account */
  of(owner: CustomErrorOwner): Layer {
    const layer = this.find(owner);
    if (!layer) throw new Error(`There is no ${owner.level} ${JSON.stringify(owner.id)}`);
    return layer;
  }

  /** Learns what was put since the last call. @throws what the store throws */
  async learn(): Promise<void> {
    if ((await this.#store.revision()) === this.#known) return;
    for (const stored of await this.#store.changedSince(this.#known)) this.#take(stored);
  }

  /**
   * Puts what has been judged, or takes it back; it counts once this resolves.
   * @param ifVersion the version that must be the present one; absent: any
   * @returns whether it was the present one @throws as `of`, and what the store throws
   */
  async put(owner: CustomErrorOwner, kind: CustomErrorKind, body: string | undefined, ifVersion?: number) {
    const kept = this.of(owner)[kind];
    await this.learn();
    // Taking back what was never put changes nothing.
    if (body === undefined && kept.stored?.value === undefined) return true;
    const put = await this.#store.put(owner, kind, body, ifVersion);
    await this.learn();
    return put !== undefined;
  }

  #take({ level, owner, kind, version, updatedAt, revision, body }: StoredCustomErrors): void {
    // Of two look-ups at the same time, the slower one may bring older news.
    if (revision <= this.#known) return;
    this.#known = revision;
    const layer = this.#layers.get(`${level}/${owner}`);
    if (!layer) return; // a zone or an account that is configured no more
    const common = { version, updatedAt };
    if (kind === 'page') {
      layer.page.stored = { ...common, value: body === undefined ? undefined : compilePage(body) };
      return;
    }
    if (kind !== 'rules') return; // what a newer program keeps
    const onFault = (text: string): void => this.#log.error({ [level]: owner, text }, 'stored rule left out');
    const rules = body === undefined ? undefined : readStoredRules(body, onFault);
    layer.rules.stored = { ...common, value: rules && compileRules(rules, onFault) };
  }
}
