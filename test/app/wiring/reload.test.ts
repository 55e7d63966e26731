// A reload that fails: what it tells of the faults.

import { expect, test } from 'vitest';
import { Reloader } from '../../../src/app/wiring/reload.ts';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { logLines } from '../../support/log-lines.ts';

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
