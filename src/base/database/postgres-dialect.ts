// Tables that were written for SQLite, in the words of PostgreSQL. Only plain tables and indexes: a trigger is written twice.

/** What differs. STRICT types and tables without row ids are what every table of PostgreSQL is. */
const words: readonly (readonly [RegExp, string])[] = [
  [/\)\s*STRICT(?:,\s*WITHOUT ROWID)?/g, ')'],
  [/\bINTEGER PRIMARY KEY AUTOINCREMENT\b/g, 'BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY'],
  [/\bINTEGER\b/g, 'BIGINT'],
  // SQLite compares octets; by default PostgreSQL compares as the language of the database does.
  [/\bTEXT\b/g, 'TEXT COLLATE "C"'],
  [/\bBLOB\b/g, 'BYTEA'],
];

/**
 * Translates a step of migrations. The result for a step that was released must not change any more.
 * @throws Error where the step has more than tables, columns and indexes
 */
export function inPostgres(step: string): string {
  const translated = words.reduce((text, [word, replacement]) => text.replace(word, replacement), step);
  if (/\b(?:TRIGGER|RAISE|AUTOINCREMENT|PRAGMA|VIRTUAL)\b/i.test(translated)) {
    throw new Error(`Write this step for PostgreSQL yourself: ${step.slice(0, 200)}`);
  }
  return translated;
}
