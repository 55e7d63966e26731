// Reads a configuration and everything that it names for a reload. All of it is read and checked before anything changes.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import { ConfigurationError } from '../../base/errors.ts';
import { silentLog } from '../../base/log.ts';
import { fileMark } from '../../base/named-file.ts';
import { bootstrap, loadKeys } from '../bootstrap/bootstrap.ts';
import { type Config, type ConfigSource, configFileOf, loadConfig, readConfigText } from '../config/config.ts';
import { configuredGlobalKeys, configuredTokens } from '../config/secrets.ts';
import { configuredDoors } from './addresses.ts';
import { pageMarksOf, type Settings } from './in-force.ts';
import { proxyConfigured } from './live/live-proxy.ts';

/** After so many milliseconds, a file that is being written has changed or is complete. */
const settleMs = 100;

/** Judges the proxy applications of a configuration without a store. @throws ConfigurationError where one breaks a rule */
export async function checkApplications(config: Config, clock: Clock): Promise<void> {
  if (config.zones.length === 0) return;
  const { checkConfiguredApplications } = await import('../../proxy/proxy.ts');
  await checkConfiguredApplications({
    ...proxyConfigured(config),
    ownDoors: () => configuredDoors(config),
    clock,
    log: silentLog,
  });
}

/** Reads the text of the configuration file. @throws ConfigurationError where it cannot be read, is being written, or is empty */
export async function readWholeText(place: ConfigSource): Promise<string> {
  const file = configFileOf(place);
  const before = fileMark(file);
  const text = readConfigText(place);
  await sleep(settleMs);
  // A half-written file may be a valid configuration, only without the accounts that are not written yet.
  if (fileMark(file) !== before) throw new ConfigurationError(`${file}: is being written; reload when it is whole`);
  if (text.trim() === '') throw new ConfigurationError(`${file}: is empty; want a configuration`);
  return text;
}

/** Reads the configuration with all that it names; in development missing keys are made. @throws ConfigurationError with its faults */
export async function loadSettings(place: ConfigSource, clock: Clock): Promise<Settings> {
  const text = place.text ?? (await readWholeText(place));
  const config = loadConfig({ ...place, text });
  await bootstrap(config, { env: place.env, clock });
  const keys = loadKeys(config);
  const tokens = configuredTokens(config, place.env);
  const globalKeys = configuredGlobalKeys(config, place.env);
  const pageMarks = pageMarksOf(config);
  const { errorPageFaults } = await import('../../edge/custom/error-page.ts');
  const pages = errorPageFaults({ zones: config.zones, accounts: config.edgeAccounts });
  if (pages.length > 0) throw new ConfigurationError(pages.join('\n'));
  await checkApplications(config, clock);
  return { config, keys, tokens, globalKeys, pageMarks };
}
