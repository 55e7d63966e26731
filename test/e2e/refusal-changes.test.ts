// What the operator alone sees with refusals: the change of the configuration file, and what another configuration would make of them.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import type { PosternHere } from '../support/postern-here.ts';
import { testToken } from '../support/postern-process.ts';
import { type Reloadable, startReloadableHere } from '../support/reloadable.ts';

let running: Reloadable<PosternHere>;

afterEach(async () => running.postern.cleanUp());

// oxlint-disable-next-line typescript/no-explicit-any -- of many shapes
type Json = any;

async function ask(
  path: string,
  token: string,
  body?: unknown,
): Promise<{ status: number; result: Json; errors: Json }> {
  const answer = await fetch(`http://127.0.0.1:${running.postern.ports['http']}/client/v4${path}`, {
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
  });
  const { result, errors } = (await answer.json()) as Json;
  return { status: answer.status, result, errors };
}

const message = { from: 'a@example.com', to: 'b@next.test', subject: 's', text: 't' };
const ofAccount = '/accounts/dev/email/sending/refusals';

async function groups(path: string, token: string): Promise<Json[]> {
  const { status, result } = await ask(path, token);
  expect(status).toBe(200);
  return (result as Json[]).toSorted((one: Json, two: Json) => (one.field < two.field ? -1 : 1));
}

test('the operator sees where the lines of a cure go in the file, an account does not', async () => {
  running = await startReloadableHere();
  const { postern, config } = running;
  const text = stringify(config);
  running.write(text);
  const scopes = ['console:read', 'console:edit'];
  const { token: reader } = (await ask('/accounts/dev/tokens', testToken, { credential: 'default', scopes })).result;
  for (const headers of [{ 'User-Agent': 'x' }, { Precedence: 'urgent' }, { Bcc: 'c@next.test' }])
    expect((await ask('/accounts/dev/email/sending/send', testToken, { ...message, headers })).status).toBe(400);
  const told = await vi.waitFor(async () => {
    const all = await groups(ofAccount, testToken);
    expect(all.map(({ field }: Json) => field)).toEqual(['Bcc', 'Precedence', 'User-Agent']);
    return all;
  }, 20_000);

  const [none, change, same] = told.map((group: Json) => group.change);
  expect([none, same]).toEqual([undefined, change]);
  const file = join(postern.folder, 'postern.yaml');
  expect(change).toEqual({ file, line: expect.any(Number), diff: expect.stringMatching(/^\+.*strip.*User-Agent/m) });
  const first = change.diff.split('\n').findIndex((line: string) => line.startsWith('+'));
  expect(text.split('\n')[change.line - 1]).toBe(change.diff.split('\n')[first - 1].slice(1));
  expect((await groups('/email/sending/refusals', testToken)).map((group: Json) => group.change)).toEqual([
    none,
    change,
    same,
  ]);

  const withoutChange = told.map((group: Json) => ({ ...group, change: undefined, times: expect.any(Array) }));
  expect(await groups(ofAccount, reader)).toEqual(withoutChange);

  // A file that is no configuration, or not there, has no change that makes it one.
  running.write(`${text}accounts: *none\n`);
  expect(await groups(ofAccount, testToken)).toEqual(withoutChange);
  rmSync(file);
  expect(await groups(ofAccount, testToken)).toEqual(withoutChange);
  running.write(`# ours\n${text}`);
  expect((await groups(ofAccount, testToken))[1].change.line).toBe(change.line + 1);
});

test('the operator has what was kept judged by another configuration, of which nothing stays', async () => {
  running = await startReloadableHere();
  const { postern, config } = running;
  for (const headers of [{ 'User-Agent': 'x' }, { 'X-Kept': 'x' }])
    await ask('/accounts/dev/email/sending/send', testToken, { ...message, headers });
  const path = '/email/sending/would-pass';
  const credential = (more: object) => {
    const other = structuredClone(config);
    for (const one of other.accounts[0]?.credentials ?? []) Object.assign(one, more);
    return { config: stringify(other) };
  };
  const strips = credential({ strip: ['User-Agent'] });
  const judged = await vi.waitFor(async () => {
    const { result } = await ask(path, testToken, strips);
    expect(result).toMatchObject({ refused: 1, accepted: 1 });
    return result;
  }, 20_000);
  expect(judged).toMatchObject({ would_pass: 1, would_not: 0, not_kept: 0, cut: false });
  expect(judged.mailers).toMatchObject([
    { account: 'dev', credential: 'default', would_pass: 1, examples: [expect.stringMatching(/^\S+$/)] },
  ]);
  // Whose domain it is is judged by the other configuration, too.
  const elsewhere = structuredClone(config);
  for (const { sendingDomains } of elsewhere.accounts)
    for (const domain of sendingDomains) if (domain['name'] === 'example.com') domain['name'] = 'elsewhere.example';
  const moved = await ask(path, testToken, { config: stringify(elsewhere) });
  expect(moved.result).toMatchObject({ would_pass: 0, would_not: 1, mailers: [{ mailer: 'without a mark, by rest' }] });
  const { result: other } = await ask(path, testToken, { ...strips, account: 'payg' });
  expect(other).toMatchObject({ refused: 0, accepted: 0, mailers: [] });

  const canary = 'zebrafinch';
  const wrong = await ask(path, testToken, credential({ strips: canary, [canary]: 1 }));
  expect([wrong.status, wrong.errors[0].message]).toEqual([
    400,
    expect.stringMatching(/postern\.yaml:\d+:\d+: .*strips/),
  ]);
  expect(postern.output()).not.toContain(canary);
});

test('others are answered while another configuration is read, however large it is and whatever is wrong with it', async () => {
  running = await startReloadableHere();
  const { postern, config } = running;
  const path = '/email/sending/would-pass';
  const port = postern.ports['http'];
  const large = {
    config: `${stringify({ ...config, accounts: undefined })}accounts:\n${'  - nme: x\n'.repeat(20_000)}`,
  };
  const reading = ask(path, testToken, large);
  const other = async (): Promise<undefined> => void (await (await fetch(`http://127.0.0.1:${port}/livez`)).text());
  let answered = 0;
  for (let read: unknown; read === undefined; answered += 1) read = await Promise.race([reading, other()]);
  const { status, errors } = await reading;
  expect([status, errors[0].message]).toEqual([400, expect.stringContaining('postern.yaml:')]);
  // Where the thread that answers reads it, those get an answer that came in before and after.
  expect(answered).toBeGreaterThan(20);
});
