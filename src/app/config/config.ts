// Reads the configuration and checks it. The result is typed and frozen, and each part has its own slice of it (D95, D96, D99).

import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { type Clock, systemClock } from '../../base/clock.ts';
import { ConfigurationError, errorCode, errorMessage } from '../../base/errors.ts';
import { isRecord } from '../../base/is-record.ts';
import { readRegularFile } from '../../base/named-file.ts';
import { defaultBounceSettings } from '../../doors/smtp/settings.ts';
import { defaultEdgeSettings, type EdgeSettings } from '../../edge/zone/zone.ts';
import { accountsFaults, consoleFaults, httpFaults, zonesFaults } from './account-checks.ts';
import { type CompleteContents, complete, events, filledIn, journal, proxy, webhooks } from './defaults.ts';
import { applyEnvironment, type Overridden } from './environment.ts';
import { type ConfigFault, formatPath, parseSource, type Source } from './fault.ts';
import * as mailChecks from './mail-checks.ts';
import * as accountParts from './resolve-accounts.ts';
import * as mailParts from './resolve-mail.ts';
import { resolveDelivery } from './resolve-routes.ts';
import type { FileContents, Section } from './schema.ts';
import type { Environment } from './secrets.ts';
import { type Config, engineTraits } from './settings.ts';
import { isFileContents, schemaFaults } from './validate.ts';
import { mostProcesses } from './value-types.ts';
import { warningsOf } from './warnings.ts';

export type * from './settings.ts';

/** Where a configuration is looked for. */
export interface ConfigSource {
  /** Wins over POSTERN_CONFIG; relative to `cwd`. */
  readonly file?: string;
  readonly env: Environment;
  readonly cwd: string;
  /** The text of the file, where it has been read already. */
  readonly text?: string;
  /** The file is read again and again while others are served: only a regular one of at most 16 MiB is. */
  readonly isServed?: boolean;
  /** The clock that tells how far ahead a day of the configuration is; the machine's own if absent. */
  readonly clock?: Pick<Clock, 'now'>;
}

const mostServedOctets = 16 * 1024 * 1024;

/** Checks of entries against one another. Each runs only if the sections that it reads have no faults of their own. */
const crossChecks: readonly {
  readonly reads: readonly Section[];
  /** @param nowMs milliseconds since 1970 */
  readonly check: (contents: CompleteContents, nowMs: number) => ConfigFault[];
}[] = [
  { reads: ['development', 'accounts'], check: mailChecks.developmentFaults },
  { reads: ['database'], check: mailChecks.databaseFaults },
  { reads: ['database', 'processes'], check: mailChecks.processesFaults },
  { reads: ['platform'], check: mailChecks.platformFaults },
  { reads: ['smtp', 'accounts'], check: mailChecks.smtpFaults },
  { reads: ['routes', 'accounts'], check: mailChecks.routesFaults },
  { reads: ['delivery'], check: mailChecks.deliveryFaults },
  { reads: ['http'], check: httpFaults },
  { reads: ['console', 'zones'], check: consoleFaults },
  { reads: ['accounts'], check: accountsFaults },
  { reads: ['zones', 'accounts', 'http'], check: zonesFaults },
];

/** Why a configuration cannot be read, in words that also help if it was not mounted into the container. */
function unreadable(cause: unknown): string {
  const code = errorCode(cause);
  if (code === 'ENOENT') return 'there is no such file';
  // Container engines make a folder where the file of a mount does not exist.
  if (code === 'EISDIR') return 'it is a folder';
  return errorMessage(cause);
}

function nameOf({ file, env }: ConfigSource): string {
  return file ?? (env['POSTERN_CONFIG'] || 'config/postern.yaml');
}

/** The path of the configuration file. */
export function configFileOf(place: ConfigSource): string {
  return resolve(place.cwd, nameOf(place));
}

/** Reads the text of the configuration file. @throws ConfigurationError where it cannot */
export function readConfigText(place: ConfigSource): string {
  const named = nameOf(place);
  const file = resolve(place.cwd, named);
  const isFromEnvironment = place.file === undefined && Boolean(place.env['POSTERN_CONFIG']);
  try {
    return place.isServed === true ? readRegularFile(file, mostServedOctets).toString() : readFileSync(file, 'utf8');
  } catch (cause) {
    const remedy = isFromEnvironment
      ? `POSTERN_CONFIG names it. In a container, mount your configuration there: --volume ./postern.yaml:${named}:ro; config/examples/staging.yaml is one to begin with`
      : 'name another with --config or POSTERN_CONFIG';
    throw new ConfigurationError(`${named}: cannot be read: ${unreadable(cause)}; ${remedy}`, { cause });
  }
}

/** Removes sections that are left empty. An empty `development:` stays and means its defaults (D95). */
function withoutEmptySections(contents: unknown): unknown {
  if (!isRecord(contents)) return contents;
  const entries = Object.entries(contents).map(([key, value]: [string, unknown]): [string, unknown] => [
    key,
    value === null && key === 'development' ? {} : value,
  ]);
  return Object.fromEntries(entries.filter(([, value]) => value !== null));
}

function soundSections(contents: unknown, faulty: ReadonlySet<string>): FileContents {
  if (typeof contents !== 'object' || contents === null) return {};
  const sound = Object.fromEntries(Object.entries(contents).filter(([key]) => !faulty.has(key)));
  return isFileContents(sound) ? sound : {};
}

/** One line per fault, in the order of the text; faults of the environment's values come last. */
function faultLines(
  faults: readonly ConfigFault[],
  at: { readonly file: string; readonly source: Source; readonly origins: Overridden['origins'] },
): string[] {
  const told = new Set<string>();
  const inFile: { readonly line: number; readonly column: number; readonly text: string }[] = [];
  const inEnvironment: string[] = [];
  for (const fault of faults) {
    const path = formatPath(fault.path);
    if (told.has(`${path}: ${fault.text}`)) continue;
    told.add(`${path}: ${fault.text}`);
    const variable = at.origins.get(path);
    if (variable !== undefined) inEnvironment.push(`${variable}: ${path}: ${fault.text}`);
    else inFile.push({ ...at.source.locate(fault), text: `${path}: ${fault.text}` });
  }
  inFile.sort((a, b) => a.line - b.line || a.column - b.column);
  return [...inFile.map(({ line, column, text }) => `${at.file}:${line}:${column}: ${text}`), ...inEnvironment];
}

/** Freezes a value and everything in it, without calling its getters. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const descriptor of Object.values(Object.getOwnPropertyDescriptors(value))) deepFreeze(descriptor.value);
  return value;
}

interface BuildContext {
  readonly file: string;
  readonly cwd: string;
  readonly env: Environment;
  readonly nowMs: number;
}

function resolveEdge({ limits = {}, ...given }: CompleteContents['edge']): EdgeSettings {
  const all = filledIn(defaultEdgeSettings, given);
  return { ...all, limits: filledIn(all.limits, limits) };
}

function build({ contents, relay }: Overridden, place: BuildContext): Config {
  const { file, cwd, env, nowMs } = place;
  const folders = { cwd, dataDir: resolve(cwd, contents.dataDir), certsDir: resolve(cwd, contents.certsDir) };
  const resolving = { contents, folders, env };
  const development = accountParts.resolveDevelopment(contents);
  const { delivery, routeSecrets } = resolveDelivery(resolving, relay);
  const database = mailParts.resolveDatabase(resolving);
  const { configured, webhookSecrets } = accountParts.resolveWebhooks(resolving);
  // One for each core, or the one that SQLite serves (D91a).
  const auto = engineTraits[database.engine].isShared ? Math.min(availableParallelism(), mostProcesses) : 1;
  const config = {
    file,
    dataDir: folders.dataDir,
    certsDir: folders.certsDir,
    database,
    log: { level: contents.log.level ?? 'info' },
    drainSeconds: contents.drainSeconds,
    processes: contents.processes === 'auto' ? auto : contents.processes,
    ...(development ? { development } : {}),
    platform: mailParts.resolvePlatform(resolving),
    limits: contents.limits,
    smtp: mailParts.resolveSmtp(contents),
    bounces: filledIn(defaultBounceSettings, contents.bounces),
    rest: { limits: mailParts.resolveRestLimits(contents) },
    spool: mailParts.resolveSpool(contents),
    reports: mailParts.resolveReports(contents),
    events: { ...events, ...contents.events },
    journal: { ...journal, ...contents.journal },
    tlsReports: mailParts.resolveTlsReports(contents, delivery.routes),
    http: mailParts.resolveHttp(resolving),
    console: mailParts.resolveConsole(contents),
    delivery,
    accounts: contents.accounts.map((account) => accountParts.resolveAccount(account, contents)),
    tokens: accountParts.resolveTokens(resolving),
    routeSecrets,
    webhooks: { ...webhooks, ...contents.webhooks, configured },
    webhookSecrets,
    edge: resolveEdge(contents.edge),
    proxy: { ...proxy(development !== undefined), ...contents.proxy },
    edgeAccounts: contents.accounts.map((entry) => accountParts.resolveEdgeAccount(entry, resolving)),
    zones: contents.zones.map((zone) => accountParts.resolveZone(zone, resolving)),
  } satisfies Omit<Config, 'warnings'>;
  return { ...config, warnings: warningsOf(config, { env, nowMs }) };
}

/** Loads the configuration, without its secrets. @throws ConfigurationError with a line for each fault: file, line, column, path, want */
export function loadConfig(place: ConfigSource): Config {
  const { env, cwd, clock = systemClock } = place;
  const nowMs = clock.now();
  const named = nameOf(place);
  const file = resolve(cwd, named);
  const source = parseSource(place.text ?? readConfigText(place));
  if (source.syntaxFaults.length > 0) {
    const lines = source.syntaxFaults.map(
      ({ position: { line, column }, text }) => `${named}:${line}:${column}: ${text}`,
    );
    throw new ConfigurationError(lines.join('\n'));
  }
  const contents = withoutEmptySections(source.contents);
  const shapeFaults = schemaFaults(contents);
  const misshapen = new Set(shapeFaults.map(({ path }) => String(path[0])));
  const overridden = applyEnvironment(complete(soundSections(contents, misshapen)), env);
  const crossFaults = crossChecks
    .filter(({ reads }) => !reads.some((section) => misshapen.has(section)))
    .flatMap(({ check }) => check(overridden.contents, nowMs));
  const faults = [...shapeFaults, ...crossFaults];
  const lines = [...faultLines(faults, { file: named, source, origins: overridden.origins }), ...overridden.faults];
  if (lines.length > 0) throw new ConfigurationError(lines.join('\n'));
  return deepFreeze(build(overridden, { file, cwd, env, nowMs }));
}
