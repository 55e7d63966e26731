// What a newcomer does: starts the shipped configuration and runs the printed commands as they stand.

import { afterAll, beforeAll, expect, test } from 'vitest';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { requirePrograms, runProgram } from './programs.ts';

let postern: PosternProcess;

beforeAll(async () => {
  requirePrograms('swaks', 'curl');
  postern = await startPostern({ makesKeys: true, env: { POSTERN_TOKEN: undefined } });
  // The banner comes behind the lines of the log, once those are written.
  await postern.until(() => postern.output().includes('--upload-file - -v'));
});
afterAll(() => postern?.cleanUp());

/** A command of the banner with its continued lines. */
function printedCommand(beginning: string): string {
  const lines = postern.output().split('\n');
  const start = lines.findIndex((line) => line.startsWith(`  ${beginning}`));
  expect(start, postern.output()).toBeGreaterThan(0);
  let end = start;
  while (/(?:\\|\|)$/.test(lines[end] ?? '')) end += 1;
  return lines.slice(start, end + 1).join('\n');
}

test.each([
  ['swaks', 1],
  ['printf', 2],
])('the printed %s command puts a signed message into the capture folder', async (beginning, count) => {
  const { code, output } = await runProgram('bash', ['--norc', '-c', printedCommand(beginning)]);
  expect([code, output]).toEqual([0, expect.stringMatching(/250 2\.0\.0 Ok <[0-9a-f-]{36}@platform\.example>/)]);
  const message = await postern.until(() =>
    postern.captured().length === count ? postern.captured().at(-1) : undefined,
  );
  expect(message.toString('latin1')).toMatch(/\r\nSubject: Hello\r\n[^]*\r\n\r\nA first message\./);
  const verdicts = await verifySignatures(message, dkimRecords(postern.certsDir));
  expect(verdicts.map(({ domain, result }) => `${domain} ${result}`).sort()).toEqual([
    'example.com pass',
    'example.com pass',
    'platform.example pass',
  ]);
});
