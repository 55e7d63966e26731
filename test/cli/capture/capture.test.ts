// The capture commands on Maildirs as a capture route writes them, and on what others may have put there.

import { mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { uuidv7 } from '../../../src/base/ids.ts';
import { runCommandLine } from '../../../src/cli/run.ts';
import { Maildir } from '../../../src/delivery/capture.ts';
import { scratchFolder } from '../../support/scratch.ts';

const minute = 60_000;

/** A data folder with the shipped configuration's capture route, and the commands on it. */
function staging(env: Readonly<Record<string, string>> = {}) {
  const folder = scratchFolder();
  const maildir = new Maildir(join(folder, 'capture'));
  return {
    folder,
    inbox: join(folder, 'capture/new'),
    /** Captures a message; its id. */
    capture: async (subject: string, { ageMs = 0, from = 'Ann <a@example.com>', body = 'Hello\r\n' } = {}) => {
      const id = uuidv7(Date.now() - ageMs);
      const head = `Return-Path: <b@bounces.platform.example>\r\nFrom: ${from}\r\nTo: b@example.net\r\nSubject: ${subject}\r\n\r\n`;
      await maildir.write(id, [Buffer.from(head), Buffer.from(body, 'latin1')]);
      return id;
    },
    run: async (args: readonly string[], ask?: (question: string) => Promise<string>) => {
      const written: Uint8Array[] = [];
      const errors: string[] = [];
      const io = {
        stdout: { write: (text: string | Uint8Array) => written.push(Buffer.from(text)) },
        stderr: { write: (text: string) => errors.push(text) },
        env: { POSTERN_DATA_DIR: folder, POSTERN_CERTS_DIR: join(folder, 'certs'), ...env },
        cwd: process.cwd(),
        ...(ask ? { ask } : {}),
      };
      const exitCode = await runCommandLine(['capture', ...args], io);
      return {
        exitCode,
        octets: Buffer.concat(written),
        stdout: Buffer.concat(written).toString(),
        stderr: errors.join(''),
      };
    },
  };
}

test('list tells time, size, from, to and subject, the newest last, and pages back', async () => {
  const { capture, run } = staging();
  expect((await run(['list'])).stdout).toMatch(/^No messages in .*\/capture\n$/);
  const ids: string[] = [];
  for (let age = 5; age > 0; age -= 1)
    ids.push(await capture(`number =?utf-8?Q?=E2=82=AC?= ${age}`, { ageMs: age * 20 * minute }));
  const listed = (await run(['list'])).stdout.split('\n');
  expect(listed[0]).toMatch(/^id +accepted +octets +from +to +subject$/);
  expect(listed.slice(1, 6).map((line) => line.split(/ {2,}/)[0])).toEqual(ids);
  expect(listed[5]).toMatch(/Z {2}\d+ +Ann <a@example\.com> {2}b@example\.net {2}number € 1$/);

  const newest = (await run(['list', '--limit', '2', '--json'])).stdout.trim().split('\n');
  expect(newest.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { id: ids[3], subject: 'number € 2' },
    { id: ids[4], from: 'Ann <a@example.com>', to: 'b@example.net', size: expect.any(Number) },
  ]);
  const page = await run(['list', '--limit', '2', '--before', ids[3] ?? '']);
  expect(page.stdout.split('\n').slice(1, 4)).toEqual([
    expect.stringContaining(ids[1] ?? ''),
    expect.stringContaining(ids[2] ?? ''),
    `2 shown; the page before: --before ${ids[1]}`,
  ]);
  expect((await run(['list', '--since', '50m', '--json'])).stdout.trim().split('\n')).toHaveLength(2);
});

test('show prints the octets of the file, and with --summary its header without what steers a terminal', async () => {
  const { inbox, capture, run } = staging();
  const body = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 256)).toString('latin1');
  const id = await capture('\x1b[2Jclear', { body });
  const shown = await run(['show', id]);
  expect(shown.exitCode).toBe(0);
  expect(shown.octets.subarray(-100_000).equals(Buffer.from(body, 'latin1'))).toBe(true);
  expect(shown.octets.toString('latin1')).toMatch(/^Return-Path: <b@/);
  const summary = await run(['show', '--summary', id]);
  expect(summary.stdout.split('\n').slice(-2)).toEqual(['Subject: ?[2Jclear', '']);
  expect((await run(['list'])).stdout).toContain('?[2Jclear');

  // A mail reader has looked at it.
  renameSync(join(inbox, `${id}.eml`), join(inbox, `../cur/${id}.eml:2,S`));
  expect((await run(['show', id])).octets.equals(shown.octets)).toBe(true);
  const other = uuidv7(Date.now());
  expect(await run(['show', other])).toMatchObject({ exitCode: 1, stdout: '', stderr: expect.stringContaining(other) });
});

test("names that Postern did not write are nobody's message and no path", async () => {
  const { folder, inbox, capture, run } = staging();
  const id = await capture('ours');
  writeFileSync(join(folder, 'secret.eml'), 'From: root@example.com\r\n\r\nsecret\r\n');
  const linked = uuidv7(Date.now());
  symlinkSync(join(folder, 'secret.eml'), join(inbox, `${linked}.eml`));
  mkdirSync(join(inbox, `${uuidv7(Date.now())}.eml`));
  writeFileSync(join(inbox, 'notes.txt'), 'notes');
  writeFileSync(join(inbox, '..eml'), 'dots');

  const listed = (await run(['list', '--json'])).stdout.trim().split('\n');
  expect(listed.map((line) => (JSON.parse(line) as { id: string }).id)).toEqual([id]);
  expect(await run(['show', linked])).toMatchObject({ exitCode: 1, stdout: '' });
  for (const name of ['../../secret', '..', `${id}.eml`, `../new/${id}`, 'notes.txt'])
    expect(await run(['show', name])).toMatchObject({ exitCode: 64, stdout: '' });
});

test('clear asks first, takes --yes where nobody can be asked, and leaves what is younger', async () => {
  const { folder, inbox, capture, run } = staging();
  const old = await capture('old', { ageMs: 120 * minute });
  const young = await capture('young', { ageMs: minute });
  writeFileSync(join(inbox, 'notes.txt'), 'notes');
  const files = () => readdirSync(inbox).toSorted();

  expect(await run(['clear'])).toMatchObject({ exitCode: 64, stderr: expect.stringContaining('want --yes') });
  const questions: string[] = [];
  const answer = (text: string) => (question: string) => {
    questions.push(question);
    return Promise.resolve(text);
  };
  expect(await run(['clear'], answer(''))).toMatchObject({ exitCode: 1, stderr: 'Nothing is removed\n' });
  expect(questions).toEqual([`Remove 2 captured messages from ${folder}/capture? [y/N] `]);
  expect(files()).toEqual([`${old}.eml`, `${young}.eml`, 'notes.txt'].toSorted());

  expect((await run(['clear', '--older-than', '1h'], answer('y'))).stdout).toContain('Removed 1 captured message from');
  expect(files()).toEqual([`${young}.eml`, 'notes.txt'].toSorted());
  expect((await run(['clear', '--yes'])).stdout).toContain('Removed 1 captured message from');
  expect(files()).toEqual(['notes.txt']);
});

test('the route is found in the configuration', async () => {
  const folder = scratchFolder();
  const file = join(folder, 'two.yaml');
  const routes = [
    { name: 'partner', type: 'capture', folder: 'partner', match: { recipientDomains: ['partner.example'] } },
    { name: 'default', type: 'capture', folder: 'rest' },
  ];
  writeFileSync(file, JSON.stringify({ development: { account: 'dev', credential: 'default' }, routes }));
  const { run } = staging({ POSTERN_CONFIG: file });
  expect(await run(['list'])).toMatchObject({
    exitCode: 64,
    stderr: 'want --route: the capture routes are partner, default\n',
  });
  expect((await run(['list', '--route', 'partner'])).stdout).toMatch(/^No messages in .*\/partner\n$/);
  expect((await run(['list', '--route', 'x'])).stderr).toBe(
    '--route: no capture route "x"; there are partner, default\n',
  );
  const relay = staging({ POSTERN_RELAY: 'smtp://127.0.0.1:9' });
  expect(await relay.run(['list'])).toMatchObject({
    exitCode: 64,
    stderr: 'No route of the configuration is of type capture\n',
  });
});

test('thirty thousand messages are listed and cleared, and only those shown are opened', async () => {
  const { inbox, capture, run } = staging();
  const first = await capture('the oldest', { ageMs: 500 * minute });
  // No read permission helps against root; a name without a file behind it shows that nobody looked.
  for (let count = 0; count < 30_000; count += 1)
    symlinkSync('/nonexistent', join(inbox, `${uuidv7(Date.now() - 400 * minute + count)}.eml`));
  const last = await capture('the newest');
  const listed = (await run(['list', '--limit', '3', '--json'])).stdout;
  expect(listed).toContain(last);
  expect(listed).not.toContain(first);
  expect((await run(['clear', '--older-than', '1h', '--yes'])).stdout).toContain(
    'Removed 30001 captured messages from',
  );
  expect(readdirSync(inbox)).toEqual([`${last}.eml`]);
}, 60_000);
