// Loaded into a Postern by `--import`: writes the URL of each module that its main thread loads into the file that
// POSTERN_TEST_MODULES names.

import { appendFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { isMainThread } from 'node:worker_threads';

const file = process.env['POSTERN_TEST_MODULES'];
if (file !== undefined && isMainThread) {
  registerHooks({
    load(url, context, nextLoad) {
      appendFileSync(file, `${url}\n`);
      return nextLoad(url, context);
    },
  });
}
