// What a transaction tells readers, as it is kept until it is filed: lines of text, compressed, since an event and the row of the
// journal beside it say much the same.

import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { ToldRow } from '../../journal/postgres-journal.ts';
import type { PackedEvent } from '../../packed-event.ts';
import type { AccountTally } from '../../tally.ts';

/** What a transaction tells. */
export interface Told {
  /** Their times as they are stored. */
  readonly events: readonly PackedEvent[];
  readonly rows: readonly ToldRow[];
  /** What accounts have more; less where it is negative. */
  readonly tallies: readonly AccountTally[];
}

/** Packs it. JSON has no line break outside of its texts, nor in them. */
export function packTold({ events, rows, tallies }: Told): Buffer {
  const lines: string[] = [];
  for (const { json, ...event } of events) lines.push(`e${JSON.stringify(event)}`, json);
  for (const { facts, more, ...row } of rows) lines.push(`j${JSON.stringify(row)}`, facts, more);
  for (const tally of tallies) lines.push(`t${JSON.stringify(tally)}`);
  return deflateRawSync(lines.join('\n'), { level: 1 });
}

/** Unpacks it. @throws Error where it is damaged */
export function unpackTold(octets: Uint8Array): Told {
  const told = { events: [] as PackedEvent[], rows: [] as ToldRow[], tallies: [] as AccountTally[] };
  const lines = inflateRawSync(octets).toString().split('\n').values();
  const next = (): string => lines.next().value ?? '';
  for (let line = next(); line !== ''; line = next()) {
    const rest = line.slice(1);
    // oxlint-disable typescript/no-unsafe-type-assertion -- only `packTold` writes them
    if (line.startsWith('e')) told.events.push({ ...(JSON.parse(rest) as Omit<PackedEvent, 'json'>), json: next() });
    else if (line.startsWith('t')) told.tallies.push(JSON.parse(rest) as AccountTally);
    else told.rows.push({ ...(JSON.parse(rest) as Omit<ToldRow, 'facts' | 'more'>), facts: next(), more: next() });
    // oxlint-enable typescript/no-unsafe-type-assertion
  }
  return told;
}
