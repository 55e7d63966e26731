// The contract of every engine (D89): what stores rely on, whichever they run on.

import { describe, expect, test } from 'vitest';
import type { Database, Migrations } from '../../src/base/database/database.ts';
import { Unavailable } from '../../src/base/errors.ts';
import type { Engine } from '../support/engines.ts';

const steps = [
  `CREATE TABLE people (name TEXT PRIMARY KEY, age INTEGER NOT NULL CHECK (age >= 0), friend TEXT REFERENCES people);
   CREATE UNIQUE INDEX people_by_age ON people (age)`,
  'ALTER TABLE people ADD COLUMN note TEXT',
];
const tables: Migrations = { owner: 'contract', steps };

/** Defines the suite for one engine. */
export function databaseContract(engine: Engine): void {
  describe(engine.name, () => {
    const start = async (): Promise<{ database: Database; open: () => Promise<Database> }> => {
      const open = engine.make();
      const database = await open();
      await database.migrate(tables);
      return { database, open };
    };
    const names = async (database: Pick<Database, 'query'>): Promise<readonly unknown[]> =>
      (await database.query('SELECT name FROM people ORDER BY name')).map(({ name }) => name);
    const add = 'INSERT INTO people (name, age) VALUES ($1, $2)';

    test('values stand where their numbers are, in any order and more than once', async () => {
      const { database } = await start();
      expect(await database.run('INSERT INTO people (age, name, note) VALUES ($2, $1, $1)', ['Ada', 36])).toBe(1);
      expect(await database.run('INSERT INTO people (name, age, note) VALUES ($1, $2, $3)', ['Bob', 7, null])).toBe(1);
      expect(await database.query('SELECT * FROM people WHERE age > $2 AND name = $1', ['Ada', 35])).toEqual([
        { name: 'Ada', age: 36, friend: null, note: 'Ada' },
      ]);
      expect(await database.run('UPDATE people SET note = $1', ['x'])).toBe(2);
      expect(await database.query('DELETE FROM people WHERE age = $1 RETURNING name', [7])).toEqual([{ name: 'Bob' }]);
      expect(await names(database)).toEqual(['Ada']);
    });

    test('a statement that fails says why and leaves the connection as it was', async () => {
      const { database } = await start();
      await database.run(add, ['Ada', 1]);
      await expect(database.run(add, ['Ada', 2])).rejects.toThrow(/people\.name|people_pkey/);
      await expect(database.query('SELECT * FROM nothing')).rejects.toThrow(/nothing/);
      await expect(database.run(add, ['Bob'])).rejects.toThrow();
      expect(await database.run(add, ['Cyd', 3])).toBe(1);
      expect(await names(database)).toEqual(['Ada', 'Cyd']);
    });

    test('of changes asked for at once each succeeds or fails by itself', async () => {
      const { database } = await start();
      const ages = Array.from({ length: 1000 }, (_, index) => (index % 10 === 9 ? -1 : index));
      const ends = await Promise.allSettled(ages.map((age, index) => database.run(add, [`n${index}`, age])));
      expect(ends.map(({ status }) => status)).toEqual(ages.map((age) => (age < 0 ? 'rejected' : 'fulfilled')));
      expect(await database.query('SELECT count(*) AS count FROM people')).toEqual([{ count: 900 }]);
    });

    test('changes with another are kept where that one changed a row, all or none', async () => {
      const { database } = await start();
      const named = (name: string, at: number) => ({ sql: add, params: [name, at] });
      expect(await database.runWith(named('Ada', 0), [named('Bob', 1), named('Cyd', 2)])).toBeGreaterThanOrEqual(0);
      const none = { sql: 'UPDATE people SET name = $1 WHERE name = $2', params: ['Eve', 'Dan'] };
      expect(await database.runWith(none, [named('Dan', 3)])).toBeUndefined();
      await expect(database.runWith(named('Eve', 4), [named('Fay', 5), named('Ada', 0)])).rejects.toThrow();
      expect(await names(database)).toEqual(['Ada', 'Bob', 'Cyd']);
    });

    test('migrations are applied once, each owner by itself, and those of a newer program are refused', async () => {
      const { database } = await start();
      await database.run(add, ['Ada', 1]);
      await database.migrate(tables);
      await database.migrate({ owner: 'another', steps: ['CREATE TABLE pets (name TEXT)'] });
      expect(await names(database)).toEqual(['Ada']);
      await expect(database.migrate({ owner: 'contract', steps: steps.slice(0, 1) })).rejects.toThrow(
        'The database\'s "contract" tables are of version 2, this program knows 1',
      );
      await expect(
        database.migrate({ owner: 'third', steps: ['CREATE TABLE a (b TEXT)', 'nonsense'] }),
      ).rejects.toThrow();
      await database.migrate({ owner: 'third', steps: ['CREATE TABLE a (b TEXT)'] });
    });

    test('a transaction sees what it wrote, and others see it once it has ended', async () => {
      const { database } = await start();
      let outside: Promise<readonly unknown[]> | undefined;
      const result = await database.transaction(async (transaction) => {
        await transaction.run(add, ['Ada', 1]);
        expect(await names(transaction)).toEqual(['Ada']);
        outside = names(database);
        if (engine.isShared) expect(await outside).toEqual([]);
        await transaction.run(add, ['Bob', 2]);
        return 'done';
      });
      expect(result).toBe('done');
      expect(await outside).toEqual(engine.isShared ? [] : ['Ada', 'Bob']);
      expect(await names(database)).toEqual(['Ada', 'Bob']);
    });

    test('a transaction whose work throws is undone, and what it threw is told', async () => {
      const { database } = await start();
      const fault = new Error('no');
      const failing = database.transaction(async (transaction) => {
        await transaction.run(add, ['Ada', 1]);
        throw fault;
      });
      await expect(failing).rejects.toBe(fault);
      expect(await names(database)).toEqual([]);
      await database.transaction((transaction) => transaction.run(add, ['Bob', 2]));
      expect(await names(database)).toEqual(['Bob']);
    });

    test('transactions asked for at once follow one another, and single changes come between them', async () => {
      const { database, open } = await start();
      const other = engine.isShared ? await open() : database;
      await database.run(add, ['counter', 0]);
      // Reads, then writes what it read plus one: lost where two are under way at once.
      const count = (on: Database): Promise<number> =>
        on.transaction(async (transaction) => {
          const [row] = await transaction.query('SELECT age FROM people WHERE name = $1', ['counter']);
          return await transaction.run('UPDATE people SET age = $1', [Number(row?.['age']) + 1]);
        });
      await Promise.all(
        Array.from({ length: 20 }, () => [
          count(database),
          count(other),
          database.run('UPDATE people SET age = age + 1'),
        ]).flat(),
      );
      expect(await database.query('SELECT age FROM people')).toEqual([{ age: 60 }]);
    });

    test('an attempt tells which constraint stopped it, and the transaction goes on', async () => {
      const { database } = await start();
      await database.run(add, ['Ada', 1]);
      const kinds = await database.transaction(async (transaction) => {
        const ends = [
          await transaction.attempt(add, ['Ada', 5]),
          await transaction.attempt(add, ['Bob', 1]),
          await transaction.attempt(add, ['Bob', -1]),
          await transaction.attempt('UPDATE people SET friend = $1', ['nobody']),
          await transaction.attempt(add, ['Bob', 2]),
        ];
        await expect(transaction.attempt('nonsense')).rejects.toThrow();
        return ends.map((end) => ('changes' in end ? end.changes : end.stoppedBy));
      });
      expect(kinds).toEqual(['primary-key', 'unique', 'check', 'foreign-key', 1]);
      expect(await names(database)).toEqual(['Ada', 'Bob']);
    });

    test('closing finishes what was asked, and refuses what comes after', async () => {
      const { database, open } = await start();
      const asked = [database.run(add, ['Ada', 1]), database.transaction((one) => one.run(add, ['Bob', 2]))];
      const closed = database.close();
      await expect(database.query('SELECT 1')).rejects.toThrow('The database is closed');
      expect(await Promise.all(asked)).toEqual([1, 1]);
      await closed;
      await database.close();
      await expect(database.transaction(async () => 1)).rejects.toThrow('The database is closed');
      if (engine.isShared) expect(await names(await open())).toEqual(['Ada', 'Bob']);
    });

    test('of far too much asked at once some is put off, and all of it is answered', async () => {
      const { database } = await start();
      const asked = Array.from({ length: 12_000 }, (_, index) => database.query('SELECT $1 + 0 AS n', [index]));
      const ends = await Promise.allSettled(asked);
      const refused = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason as unknown] : []));
      // Those beyond the bound; and on a busy machine also those that waited too long for a server.
      expect(refused.length).toBeGreaterThanOrEqual(2000);
      expect(refused.every((reason) => reason instanceof Unavailable)).toBe(true);
      expect(ends[0]).toMatchObject({ value: [{ n: 0 }] });
      expect(ends[11_999]?.status).toBe('rejected');
      expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    });
  });
}
