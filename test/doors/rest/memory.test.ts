// 25 MiB of attachments pass when the limits allow it, and the process never holds four times the request (issue 3).

import { readFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { type PosternProcess, startPostern, testToken } from '../../support/postern-process.ts';

const running: PosternProcess[] = [];
afterEach(async () => {
  for (const postern of running.splice(0)) await postern.cleanUp();
});

const config = {
  development: { account: 'dev', credential: 'default' },
  http: { listen: '127.0.0.1:0' },
  smtp: { listeners: [] },
  rest: { limits: { messageBytes: 52_428_800 } },
  routes: [{ name: 'default', type: 'capture', folder: 'capture' }],
  accounts: [
    {
      name: 'dev',
      id: 'a1'.repeat(16),
      sendingDomains: [{ name: 'example.com' }],
      credentials: [{ name: 'default', tokenEnv: 'POSTERN_TOKEN', scopes: ['email:send'] }],
    },
  ],
};

/** A line of /proc/PID/status in octets. */
function memory(pid: number, line: 'VmHWM' | 'VmRSS'): number {
  const found = new RegExp(`^${line}:\\s+([0-9]+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
  return Number(found?.[1] ?? 0) * 1024;
}

test.runIf(process.platform === 'linux')('25 MiB of attachments, at under four times the request', async () => {
  // V8's room for young objects, which is none of the request's, otherwise grows by 46 MiB or does not, as its threads are scheduled.
  const postern = await startPostern({ config, env: { NODE_OPTIONS: '--max-semi-space-size=1' } });
  running.push(postern);
  const post = (body: string): Promise<Response> =>
    fetch(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/send`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
      body,
    });
  const message = { from: 'shop@example.com', to: 'a@partner.test', subject: 'Large', text: 'See attached.' };
  // A small one first: what the program needs for itself is not the request's.
  expect((await post(JSON.stringify(message))).status).toBe(200);
  await postern.until(() => postern.captured().length === 1);
  const before = memory(postern.pid, 'VmRSS');

  const content = Buffer.alloc(5 * 1_048_576, 'Postern attachment ').toString('base64');
  const attachments = Array.from({ length: 5 }, (_, index) => ({ content, filename: `part-${index}.bin` }));
  const body = JSON.stringify({ ...message, attachments });
  const answer = await post(body);
  expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('"queued":["a@partner.test"]')]);
  await postern.until(() => postern.captured().length === 2);
  const peak = memory(postern.pid, 'VmHWM') - before;
  expect(peak / body.length, `${peak} octets for a request of ${body.length}`).toBeLessThan(4);
});
