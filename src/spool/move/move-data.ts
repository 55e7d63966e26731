// Moves everything that a SQLite file and its bodies hold to PostgreSQL: all of it in one transaction of the target, or nothing.
//
// A gateway must never start on both. So before the target commits, the source is marked as "a move whose end is not known", which
// no gateway starts on; once the target has answered, as "moved", or the mark is taken off again. Who runs the move again after
// it was killed in between asks the target by the id of the move.

import { type Clock, systemClock } from '../../base/clock.ts';
import type { Migrations } from '../../base/database/database.ts';
import {
  type DatabaseSync,
  type MovedMark,
  movedMark,
  removeMovedMark,
  tablesOf,
  writeMovedMark,
} from '../../base/database/sqlite-file.ts';
import { errorMessage } from '../../base/errors.ts';
import { uuidv7 } from '../../base/ids.ts';
import { Part } from '../../base/part.ts';
import { ensurePartitions } from '../postgres/events/event-partitions.ts';
import { DatabaseClock } from '../postgres/server/database-clock.ts';
import { type Copying, copyOctets, copyRows } from './copy-table.ts';
import { derivedTables, lastNumber, leftTables, movedCounters, movedTables } from './moved-tables.ts';
import {
  bringUpToDate,
  type Damaged,
  defineFunctions,
  findDamagedEntries,
  findDamagedMessages,
  noDamage,
  numberOf,
  openSource,
} from './source-file.ts';
import { EndUnknown, TargetDatabase } from './target-database.ts';

/** How far the move is: rows and octets that were copied, of so many rows. */
export interface MoveProgress {
  readonly step: string;
  readonly rows: number;
  readonly allRows: number;
  readonly octets: number;
}

/** What is moved, and where to. */
export interface MoveRequest {
  /** Path of the SQLite file. */
  readonly file: string;
  /** Folder of the bodies that are files. */
  readonly bodiesFolder: string;
  /** `postgres://...` */
  readonly url: string;
  /** The target for people: host, port and name. */
  readonly shown: string;
  readonly migrations: { readonly sqlite: readonly Migrations[]; readonly postgres: readonly Migrations[] };
  /** Whether messages and entries of the journal that are damaged stay behind; else nothing is moved while there are any. */
  readonly leaveDamaged: boolean;
  /** Aborted, it ends the move, which then has changed nothing; once the target commits it is too late. */
  readonly signal: AbortSignal;
  readonly progress: (progress: MoveProgress) => void;
  readonly clock?: Clock;
}

/** What was moved. */
export interface Moved {
  /** Rows by table, as they were counted in the target. */
  readonly rows: ReadonlyMap<string, number>;
  /** Octets of messages. */
  readonly octets: number;
  /** Messages and entries of the journal that stayed behind, and why. */
  readonly left: Damaged;
  /** An earlier move had moved everything, and only its end was not known. */
  readonly wasDone: boolean;
}

/** Nothing was moved: messages or entries of the journal are damaged. */
export class DamagedRows extends Error {
  override readonly name = 'DamagedRows';
  readonly damaged: Damaged;

  constructor(damaged: Damaged) {
    super('Something is damaged, so nothing was moved');
    this.damaged = damaged;
  }
}

/**
 * Moves everything.
 * @throws EndUnknown where nobody can tell what the target has kept: the source stays closed to gateways, and the same move
 *   run again finds out. After any other error, source and target are as they were
 */
export async function moveData(request: MoveRequest): Promise<Moved> {
  using source = openSource(request.file);
  const mark = movedMark(source);
  refuseOther(mark, request);
  await using target = await TargetDatabase.open({ ...request, migrations: request.migrations.postgres });
  if (mark && (await target.hasMove(mark.id))) {
    markDone(source, mark);
    return { rows: new Map(), octets: 0, left: noDamage, wasDone: true };
  }
  if (mark) removeMovedMark(source);
  return await new Move({ request, source, target }).run();
}

function refuseOther(mark: MovedMark | undefined, { file, shown }: MoveRequest): void {
  if (mark?.isDone)
    throw new Error(
      `"${file}" was moved to ${mark.target} already: name that in database.url; postern migrate --undo takes it back`,
    );
  if (mark && mark.target !== shown)
    throw new Error(
      `The end of a move of "${file}" to ${mark.target} is not known: name that target again, which finds out, or ` +
        'run postern migrate --undo --force where it is certain that no gateway works there',
    );
}

/** Marks the source as moved. @throws EndUnknown where it cannot be written: the target has everything, as a further run finds out */
function markDone(source: DatabaseSync, mark: MovedMark): void {
  try {
    writeMovedMark(source, { ...mark, isDone: true });
  } catch (thrown) {
    throw new EndUnknown(`the old database cannot be marked: ${errorMessage(thrown)}`, { cause: thrown });
  }
}

class Move extends Part<{
  readonly request: MoveRequest;
  readonly source: DatabaseSync;
  readonly target: TargetDatabase;
}> {
  readonly #clock = this.parts.request.clock ?? systemClock;
  #copied = 0;
  #octets = 0;
  #all = 0;

  async run(): Promise<Moved> {
    const { source, request } = this.parts;
    const { migrations, bodiesFolder, leaveDamaged, signal } = request;
    bringUpToDate(source, migrations.sqlite);
    this.#refuseUnknown();
    this.#tell('Looking at the messages');
    const messages = await findDamagedMessages(source, bodiesFolder);
    this.#tell('Looking at the journal');
    const left = { messages, entries: findDamagedEntries(source) };
    if (messages.size + left.entries.size > 0 && !leaveDamaged) throw new DamagedRows(left);
    defineFunctions(source, left);
    try {
      await this.parts.target.begin();
      const moved = await this.#copy();
      signal.throwIfAborted();
      await this.#keep();
      return { ...moved, left, wasDone: false };
    } catch (thrown) {
      await this.parts.target.undo();
      throw thrown;
    }
  }

  #refuseUnknown(): void {
    const known = new Set([...movedTables.map(({ name }) => name), ...Object.keys(leftTables)]);
    const unknown = tablesOf(this.parts.source).filter((name) => !known.has(name));
    if (unknown.length > 0)
      throw new Error(`The database has tables that this program does not know: ${unknown.join(', ')}`);
  }

  #tell(step: string): void {
    this.parts.request.progress({ step, rows: this.#copied, allRows: this.#all, octets: this.#octets });
  }

  async #copy(): Promise<Pick<Moved, 'rows' | 'octets'>> {
    const { source, target, request } = this.parts;
    const clock = new DatabaseClock(this.#clock);
    const [server] = await target.query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS time');
    clock.compare(Number(server?.['time']));
    const copying: Copying = {
      ...{ source, target, signal: request.signal },
      // What the spool's time is ahead of the server's.
      shift: numberOf(source, 'SELECT coalesce(max(offset), 0) FROM spool_clock') + clock.stored(0),
      onCopied: (table, rows, octets) => {
        this.#copied += rows;
        this.#octets += octets;
        this.#tell(`Copying ${table}`);
      },
    };
    this.#all = numberOf(source, 'SELECT count(*) FROM spool_messages');
    for (const { name } of movedTables) this.#all += numberOf(source, `SELECT count(*) FROM "${name}"`);
    await ensurePartitions((sql, values) => target.query(sql, values), {
      since: numberOf(source, 'SELECT coalesce(min(at), 9e15) FROM journal'),
      until: this.#clock.now(),
      lastEvent: numberOf(source, lastNumber('mail_events')),
    });
    const sent = [];
    for (const table of movedTables) {
      this.#tell(`Copying ${table.name}`);
      sent.push(await copyRows(table, copying));
    }
    const copied = await copyOctets(copying, request.bodiesFolder);
    sent.push(copied);
    this.#tell('Counting what was written');
    for (const change of derivedTables) await target.query(change, [], { isLong: true });
    for (const { name, select, change } of movedCounters) {
      const [row] = await target.query(change, [numberOf(source, select)]);
      if (row?.['value'] === null || row?.['value'] === undefined)
        throw new Error(`The target's ${name} has no number that goes on`);
    }
    for (const table of sent) {
      this.#tell(`Checking ${table.name}`);
      await table.verify(target);
    }
    return { rows: new Map(sent.map(({ name, rows }) => [name, rows])), octets: copied.octets };
  }

  /** Has the target keep everything, and the source marked as moved. */
  async #keep(): Promise<void> {
    const at = this.#clock.now();
    const mark = { id: uuidv7(at), target: this.parts.request.shown, at, isDone: false };
    this.#tell('Keeping everything');
    writeMovedMark(this.parts.source, mark);
    try {
      await this.parts.target.commit(mark.id, at);
    } catch (thrown) {
      if (!(thrown instanceof EndUnknown) || !(await this.#askEnd(mark.id))) {
        removeMovedMark(this.parts.source);
        throw thrown instanceof EndUnknown
          ? new Error(`The target went away and has kept nothing: ${thrown.message}`, { cause: thrown })
          : thrown;
      }
    }
    markDone(this.parts.source, mark);
    // Without it the server would learn only later how many rows there are. It is not needed.
    await this.parts.target.query('ANALYZE', [], { isLong: true }).catch(() => undefined);
  }

  /** Asks the target what it has kept. @throws EndUnknown where it does not answer */
  async #askEnd(id: string): Promise<boolean> {
    const { url, migrations } = this.parts.request;
    try {
      await using target = await TargetDatabase.open({ url, migrations: migrations.postgres });
      return await target.hasMove(id);
    } catch (thrown) {
      throw new EndUnknown(errorMessage(thrown), { cause: thrown });
    }
  }
}

/** Takes a move's mark off, so that a gateway starts again. @returns it, if any @throws Error where there is no file, or it is open */
export function undoMove(file: string): MovedMark | undefined {
  using source = openSource(file);
  const mark = movedMark(source);
  if (mark) removeMovedMark(source);
  return mark;
}
