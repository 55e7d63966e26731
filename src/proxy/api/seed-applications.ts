// Applications of the configuration (D99): written once, when the store has none of that id, judged by the same rules.

import { ConfigurationError } from '../../base/errors.ts';
import type { Fault } from '../../web/http/envelope.ts';
import { type ProxyOwners, type ProxyZone, placesOf, type ZoneAndOwner } from '../application/zone.ts';
import { judgeConfigured } from '../rules/judge-write.ts';
import { conflictFaults } from '../rules/rules.ts';
import type { WriteParts } from './write-application.ts';

/** What is needed to write them. */
export interface SeedParts extends WriteParts, ProxyOwners {
  /** Names the configuration in errors. */
  readonly file: string;
}

/** One application of the configuration and where it stands. */
interface Seed extends ZoneAndOwner {
  readonly id: string;
  readonly entry: NonNullable<ProxyZone['applications']>[number];
  readonly path: string;
}

function seedsOf(owners: ProxyOwners): readonly Seed[] {
  const places = placesOf(owners);
  return owners.zones.flatMap((zone, at) => {
    const place = places.get(zone.id);
    if (!place) return [];
    return (zone.applications ?? []).map((entry, index) => ({
      ...place,
      id: entry.id.toLowerCase(),
      entry,
      path: `zones[${at}].applications[${index}]`,
    }));
  });
}

function place({ pointer = '' }: Fault): string {
  return pointer
    .split('/')
    .slice(1)
    .map((step) => (/^\d+$/.test(step) ? `[${step}]` : `.${step}`))
    .join('');
}

function lineOf(fault: Fault, path: string): string {
  return `${path}${place(fault)}: ${'number' in fault ? `${fault.number} ` : ''}${fault.message}`;
}

/** 10002 says that something failed, not that the application is wrong. */
function saysFailure(faults: readonly Fault[]): boolean {
  return faults.some((fault) => 'number' in fault && fault.number === 10_002);
}

/** Writes one application. @returns the faults that keep it from being written; empty where it was written */
async function writeSeed(seed: Seed, { store, sources, clock }: SeedParts): Promise<readonly Fault[]> {
  const { zone, account, id, entry } = seed;
  const judged = await judgeConfigured(entry, { zone, account }, sources);
  if (!judged.ok) {
    if (!('faults' in judged)) throw new Error('A new application was looked for');
    return judged.faults;
  }
  const { fields, claims } = judged;
  const written = await store.create({ id, zone: zone.id, account: account.id, fields, claims, now: clock.now() });
  return written.ok ? [] : conflictFaults(written.conflict, { fields, zone, account });
}

/**
 * Writes the configured applications that the store does not have. One that was removed since is written again: it still
 * stands in the configuration.
 * @returns the ids of those that were written
 * @throws ConfigurationError with a line for each fault: file, path, code and message
 */
export async function seedApplications(parts: SeedParts): Promise<readonly string[]> {
  const known = new Set((await parts.store.all()).map(({ id }) => id));
  const written: string[] = [];
  const lines: string[] = [];
  for (const seed of seedsOf(parts)) {
    if (known.has(seed.id)) continue;
    let faults: readonly Fault[];
    try {
      faults = await writeSeed(seed, parts);
    } catch (cause) {
      if (await parts.store.get(seed.zone.id, seed.id)) continue;
      throw new Error(`${seed.path} of ${parts.file} could not be written`, { cause });
    }
    if (faults.length === 0) {
      written.push(seed.id);
      continue;
    }
    // A process that started at the same time may have been faster.
    if (await parts.store.get(seed.zone.id, seed.id)) continue;
    if (saysFailure(faults)) throw new Error(`${seed.path} of ${parts.file} could not be judged`);
    for (const fault of faults) lines.push(`${parts.file}: ${lineOf(fault, seed.path)}`);
  }
  if (lines.length > 0) throw new ConfigurationError(lines.join('\n'));
  return written;
}
