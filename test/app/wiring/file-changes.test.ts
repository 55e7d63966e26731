// The changes of the file that go with refusals: how much is done for one answer.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { fileChanges } from '../../../src/app/wiring/console/file-changes.ts';
import { scratchFolder } from '../../support/scratch.ts';

test('of a large file some changes are found for an answer, and the others for the next ones', async () => {
  const file = join(scratchFolder(), 'postern.yaml');
  const names = ['one', 'two', 'three'];
  const credentials = names.map((name) => ({ name, scopes: ['email:send'] }));
  const accounts = [{ name: 'dev', id: 'a1'.repeat(16), sendingDomains: [{ name: 'example.com' }], credentials }];
  writeFileSync(file, `${'# a line that only makes the file long\n'.repeat(1600)}${stringify({ accounts })}`);
  const present = fileChanges({ file, env: {}, cwd: '/' }, file);
  const found = async () => {
    const find = present();
    const changes: string[] = [];
    for (const credential of names) {
      const change = await find({ account: 'dev', credential, proposal: { strip: ['User-Agent'] } });
      if (change) changes.push(credential);
    }
    return changes;
  };
  expect(await found()).toEqual(['one', 'two']);
  expect(await found()).toEqual(names);
});
