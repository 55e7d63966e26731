import { afterEach, expect, test } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { createHealthServer, type HealthServer } from '../../src/http/health-server.ts';

let open: HealthServer | undefined;
afterEach(async () => {
  await open?.close();
  open = undefined;
});

async function start(sources: {
  ready: () => boolean;
  metrics?: () => Promise<{ contentType: string; text: string }>;
}): Promise<string> {
  open = createHealthServer({
    metrics: () => Promise.resolve({ contentType: 'text/plain; version=0.0.4', text: 'up 1\n' }),
    log: silentLog,
    ...sources,
  });
  const { host, port } = await open.listen({ host: '127.0.0.1', port: 0 });
  return `http://${host}:${port}`;
}

test('readyz follows readiness, livez does not', async () => {
  let ready = false;
  const base = await start({ ready: () => ready });
  expect((await fetch(`${base}/readyz`)).status).toBe(503);
  expect((await fetch(`${base}/livez`)).status).toBe(200);
  ready = true;
  const answer = await fetch(`${base}/readyz?verbose`);
  expect([answer.status, await answer.text()]).toEqual([200, 'ready\n']);
  expect(answer.headers.get('ray-id')).toMatch(/^[0-9a-f]{16}$/);
});

test('metrics are served as given', async () => {
  const base = await start({ ready: () => true });
  const answer = await fetch(`${base}/metrics`);
  expect([answer.headers.get('content-type'), await answer.text()]).toEqual(['text/plain; version=0.0.4', 'up 1\n']);
});

test('another path is 404, another method 405 with Allow', async () => {
  const base = await start({ ready: () => true });
  expect((await fetch(`${base}/`)).status).toBe(404);
  const post = await fetch(`${base}/readyz`, { method: 'POST' });
  expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
});

test('a failing source is 500 without its reason', async () => {
  const base = await start({ ready: () => true, metrics: () => Promise.reject(new Error('secret detail')) });
  const answer = await fetch(`${base}/metrics`);
  expect([answer.status, await answer.text()]).toEqual([500, 'Internal error\n']);
});
