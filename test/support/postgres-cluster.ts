// The folder in which the first test of a run that starts PostgreSQL leaves the files of an empty cluster: making them is most of
// what a start takes, and two dozen test files start one.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The environment variable that names the folder to the tests. */
export const clusterPlace = 'POSTERN_TEST_CLUSTER';

/** Makes the folder before the first test; gives what removes it after the last. */
export default function setUp(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'postern-test-cluster-'));
  process.env[clusterPlace] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
