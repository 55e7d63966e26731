// The two suites: `unit` needs nothing but npm; `system` needs root and the Debian packages in .ci/packages.
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

if (Number(process.versions.node.split('.')[0]) < 24) {
  throw new Error(`Postern's tests need Node 24 or newer, this is ${process.version}: run them through npm (npm test)`);
}

// Hundreds of tests start a gateway or a command. Node then reads the sources from this cache, with their types stripped and
// compiled, in half the time.
process.env['NODE_COMPILE_CACHE'] ??= join(tmpdir(), `postern-test-code-${process.getuid?.() ?? 0}`);

const memory = '/dev/shm';
/** Octets that have to be free there. */
const roomInMemory = 8 * 2 ** 30;

/** Whether Linux has a file system of memory there, with room enough, from which programs may be run. */
function mayUseMemory(): boolean {
  if (!existsSync('/proc/mounts')) return false;
  const mounted = /^tmpfs \/dev\/shm tmpfs (\S+)/m.exec(readFileSync('/proc/mounts', 'utf8'));
  if (!mounted || mounted[1]?.split(',').includes('noexec')) return false;
  const { bavail, bsize } = statfsSync(memory);
  return Math.min(bavail * bsize, process.availableMemory()) > roomInMemory;
}

// Tests write hundreds of databases and would wait for the disk at each change. A process that is killed loses nothing in memory
// that it would not lose on a disk, and no test takes the power away.
if (process.env['TMPDIR'] === undefined && mayUseMemory()) {
  const folder = mkdtempSync(join(memory, 'postern-tests-'));
  chmodSync(folder, 0o755); // PostgreSQL runs as a user of its own
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  process.env['TMPDIR'] = folder;
}

/** What takes longest, the longest first: begun late, one of these would be waited for while nothing else is left to run. */
const longest = [
  'system/image',
  // It may wait a minute twice, for a report that is put off.
  'system/old-data',
  'system/crash',
  'system/documents',
  'system/postgres-spool',
  'system/e2e-on-postgres',
  'system/processes',
  'system/console',
  'system/upgrade',
  'system/postgres-gateway',
  'system/estate',
  'system/postgres-ready',
  'system/hostile',
  'system/postgres-outage',
  'system/proxy-changes',
  'system/postgres',
  'system/narrow-hops',
  'system/reference-pages',
  'system/postgres-two-gateways',
  'system/edge-behind-a-proxy',
  'system/rehearsal',
  'system/postgres-partitions',
  'system/full-disk',
  'system/move',
  'system/edge-pages',
  'system/move-gateway',
  'system/console-work',
  'system/bounces',
  'system/dsn-hops',
  'system/console-live',
  'system/postgres-shared-limits',
  'e2e/reports',
  'e2e/reload',
  'e2e/webhooks',
  'delivery/webhooks/sender',
  'delivery/delivery',
  'proxy/api/application-races',
];

/** Begins with those files, and goes on with the largest, or with what took longest where that is known. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = longest.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return at < 0 ? longest.length : at;
    };
    return (await super.sort(files)).toSorted((one, other) => place(one) - place(other));
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    globalSetup: [
      'test/support/test-keys.ts',
      'test/support/packed-package.ts',
      // The gateways of all tests keep their mail in PostgreSQL; what is about files of SQLite fails then.
      ...(process.env['POSTERN_TEST_DATABASE'] === 'postgres' ? ['test/support/postgres-setup.ts'] : []),
    ],
    // Twice what the smallest machine has cores: its files keep these busy for nine tenths of the time, and a fifth brought nothing.
    maxWorkers: 4,
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: ['test/system/**', 'node_modules/**'],
          pool: 'forks',
          // A worker runs one file after another and loads the program once for all of them, and the threads of stores too.
          isolate: false,
          setupFiles: ['test/support/shared-threads.ts'],
          // Of a busy machine too, where a test that takes 1 s alone takes 20: only one that hangs is ended.
          testTimeout: 60_000,
          // What is waited for comes late on a busy machine; only a failure waits so long.
          expect: { poll: { timeout: 30_000 } },
          // Hooks start and end whole processes. On a busy machine a start takes over 10 s, and a drain may take 30.
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'system',
          globalSetup: ['test/support/postgres-cluster.ts'],
          include: ['test/system/**/*.test.ts'],
          pool: 'forks',
          // Its files wait for a third of their time, for processes that start and for what programs of others do in their own time.
          maxWorkers: 6,
          sequence: { groupOrder: 1 },
          testTimeout: 180_000,
          expect: { poll: { timeout: 30_000 } },
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
