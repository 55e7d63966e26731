// Every owner of tables is known to a restore: a backup of this release must never be taken for one of a later release.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { tableMigrations, tableVersions } from '../../../src/app/wiring/table-versions.ts';
import { projectRoot } from '../../support/postern-process.ts';

test('the versions name every owner of tables that the sources have', () => {
  const source = join(projectRoot, 'src');
  const owners: ReadonlySet<string | undefined> = new Set(
    readdirSync(source, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .flatMap((name) => [
        ...readFileSync(join(source, name), 'utf8').matchAll(
          /: Migrations = \{\s+owner: '([a-z-]+)',\s+(?:told: .*,\s+)?steps: /g,
        ),
      ])
      .map((match) => match[1]),
  );
  expect(owners.has('spool')).toBe(true);
  // The table that marks the target of a move is made by the move alone; what is filed behind commits, and told between gateways, is
  // PostgreSQL's.
  expect(new Set([...tableVersions.keys(), 'move', 'filing', 'told-counts'])).toEqual(owners);
  expect(tableMigrations.postgres.map(({ owner }) => owner)).toContain('filing');
});
