// A reload that fails: what it tells of the faults.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadSettings } from '../../../src/app/wiring/load-settings.ts';
import { Reloader } from '../../../src/app/wiring/reload.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { logLines } from '../../support/log-lines.ts';
import { scratchFolder } from '../../support/scratch.ts';

test('a file with a fault in each of its many lines fills neither the log nor the answer', async () => {
  const { log, lines } = logLines();
  const faults = Array.from({ length: 5000 }, (_, line) => `postern.yaml:${line + 1}:1: wrong`);
  const reloader = new Reloader({
    load: () => Promise.reject(new ConfigurationError(faults.join('\n'))),
    apply: () => Promise.resolve([]),
    clock: { now: () => 0 },
    log,
  });
  const outcome = await reloader.reload('command');
  const told = [...faults.slice(0, 100), 'and 4900 more; postern config check tells all'];
  expect(outcome).toEqual({ ok: false, faults: told });
  expect(lines).toMatchObject([{ msg: 'reload failed', faults: told }]);
});

test('of an empty file it is told that it is empty, and not which keys of the shipped configuration are missing', async () => {
  const cwd = scratchFolder();
  writeFileSync(join(cwd, 'postern.yaml'), '\n');
  const loaded = loadSettings({ file: 'postern.yaml', env: {}, cwd }, systemClock);
  await expect(loaded).rejects.toThrow(
    new ConfigurationError(`${join(cwd, 'postern.yaml')}: is empty; want a configuration`),
  );
});
