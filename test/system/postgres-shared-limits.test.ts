// Two gateways on one PostgreSQL that count together (`database.shareLimits`, D91a): messages a minute of an account, and the rate of
// a zone, hold for both within seconds, and again for each alone where the setting is off.

import { once } from 'node:events';
import { createServer, get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { ask } from '../support/http-app.ts';
import { testToken } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { startProxyGateway } from '../support/proxy-gateway.ts';
import { requirePrograms } from './programs.ts';

vi.setConfig({ testTimeout: 120_000 });

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

async function startTwo(shareLimits: boolean) {
  const url = await server.createSchema();
  const origin = createServer((_request, response) => response.end('ok'));
  await new Promise<void>((resolve) => void origin.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void origin.close());
  const start = async () => {
    const gateway = await startProxyGateway({
      env: { POSTERN_DATABASE_URL: url },
      zone: {
        origin: `http://127.0.0.1:${(origin.address() as AddressInfo).port}`,
        rateLimit: { requests: 6, perSeconds: 600 },
      },
      more: {
        database: { url: 'postgres://nobody@127.0.0.1:1/none', shareLimits },
        accounts: [
          {
            name: 'dev',
            id: 'a1'.repeat(16),
            limits: { messagesPerMinute: 6 },
            sendingDomains: [{ name: 'example.com' }],
            credentials: [{ name: 'default', scopes: ['email:send'] }],
          },
        ],
      },
    });
    onTestFinished(() => gateway.postern.cleanUp());
    const base = `http://127.0.0.1:${gateway.postern.ports['http']}`;
    const message = { from: 'a@example.com', to: 'b@example.net', subject: 'Hello', text: 'Hello' };
    return {
      send: async () =>
        (
          await ask(`${base}/client/v4/accounts/dev/email/sending/send`, {
            method: 'POST',
            headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
            body: JSON.stringify(message),
          })
        ).status,
      visit: async () => {
        const request = get(`${base}/`, { headers: { Host: 'example.com' }, agent: false });
        const [answer] = (await once(request, 'response')) as [IncomingMessage];
        answer.resume();
        return answer.statusCode ?? 0;
      },
    };
  };
  return [await start(), await start()] as const;
}

const times = async (count: number, what: () => Promise<number>): Promise<readonly number[]> => {
  const seen: number[] = [];
  for (let round = 0; round < count; round += 1) seen.push(await what());
  return seen;
};
/** Longer than gateways take to tell one another; to ask whether one has been told would count. */
const told = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 2500));

test('what one has let pass counts at the other', async () => {
  const [one, two] = await startTwo(true);
  expect(await times(4, one.send)).toEqual([200, 200, 200, 200]);
  expect(await times(4, one.visit)).toEqual([200, 200, 200, 200]);
  await told();
  expect(await times(4, two.send)).toEqual([200, 200, 429, 429]);
  expect(await times(4, two.visit)).toEqual([200, 200, 429, 429]);
  await told();
  expect(await times(1, one.send)).toEqual([429]);
  expect(await times(1, one.visit)).toEqual([429]);
});

test('without the setting each counts for itself', async () => {
  const [one, two] = await startTwo(false);
  expect(await times(4, one.send)).toEqual([200, 200, 200, 200]);
  await told();
  expect(await times(7, two.send)).toEqual([200, 200, 200, 200, 200, 200, 429]);
});
