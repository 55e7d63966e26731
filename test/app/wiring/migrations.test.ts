import { migrationsContract } from '../../contract/migrations.ts';
import { engines } from '../../support/engines.ts';

for (const engine of engines) {
  migrationsContract({
    ...engine,
    formOf: (database) => database.query('SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name'),
  });
}
