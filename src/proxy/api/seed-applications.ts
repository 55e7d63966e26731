// Applications of the configuration (D99): written once, when the store has none of that id, judged by the same rules.

import { ConfigurationError } from '../../base/errors.ts';
import type { Fault } from '../../web/http/envelope.ts';
import { type ProxyOwners, placesOf } from '../application/zone.ts';
import { configuredWrite, type WriteParts, writeApplication } from '../rules/judge-write.ts';

/** What is needed to write them. */
export interface SeedParts extends WriteParts, ProxyOwners {
  /** Names the configuration in errors. */
  readonly file: string;
}

/** The applications of a configuration, as writes, with their places. */
function seedsOf(owners: ProxyOwners) {
  const places = placesOf(owners);
  return owners.zones.flatMap(({ id, applications = [] }, at) => {
    const place = places.get(id);
    if (!place) return [];
    return applications.map((entry, index) => {
      return { write: configuredWrite(entry, place), path: `zones[${at}].applications[${index}]` };
    });
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
  for (const { write, path } of seedsOf(parts)) {
    const { id, zone } = write;
    if (known.has(id)) continue;
    const end = await writeApplication(write, parts).catch((cause: unknown) => ({ ok: false, cause }) as const);
    if (end.ok) written.push(id);
    // A process that started at the same time may have been faster.
    if (end.ok || (await parts.store.get(zone.id, id))) continue;
    if ('cause' in end) throw new Error(`${path} of ${parts.file} could not be written`, { cause: end.cause });
    if (saysFailure(end.faults)) throw new Error(`${path} of ${parts.file} could not be judged`);
    for (const fault of end.faults) lines.push(`${parts.file}: ${lineOf(fault, path)}`);
  }
  if (lines.length > 0) throw new ConfigurationError(lines.join('\n'));
  return written;
}
