// Every answer stands in the log with its Ray-ID (D62), also one that is given before anybody knows whose the request is.

import { expect, test } from 'vitest';
import { get, speak, startEdge } from '../../support/edge-app.ts';
import { logLines } from '../../support/log-lines.ts';

const tooLarge = `X: ${'x'.repeat(300_000)}`;

test.each([
  ['no HTTP', 'GARBAGE\r\n\r\n', 400],
  ['no Host', 'GET / HTTP/1.1\r\n\r\n', 400],
  ['a percent-encoding that is none', get('localhost', '/client/v4/%zz'), 400],
  ['an upgrade of a bad Host', get('a b', '/', ['Upgrade: websocket']), 400],
  ['CONNECT', 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n', 405],
  ['CONNECT without a Host', 'CONNECT example.com:443 HTTP/1.1\r\n\r\n', 400],
  ['TRACE of a zone', get('example.com', '/', [], 'TRACE'), 405],
  ['TRACE of nobody', get('nobody.example', '/', [], 'TRACE'), 405],
  ['a method that health has not', get('localhost', '/livez', [], 'DELETE'), 405],
  ['an unknown expectation', get('example.com', '/', ['Expect: more']), 417],
  ['an unknown expectation of the API', get('localhost', '/docs', ['Expect: more']), 417],
  ['a head over the zone’s limit', get('example.com', '/', [`X: ${'x'.repeat(40_000)}`]), 431],
  ['a head over the API’s limit', get('localhost', '/docs', [`X: ${'x'.repeat(40_000)}`]), 431],
  ['a head over the parser’s limit', get('example.com', '/', [tooLarge]), 431],
  ['an unknown coding', get('example.com', '/', ['Transfer-Encoding: gzip'], 'POST'), 501],
  ['nothing of the API', get('localhost', '/nothing'), 404],
  ['a v4 path that is none', get('localhost', '/client/v4/nothing'), 404],
  ['the reference', get('localhost', '/errors/522'), 200],
  ['the API’s pages', get('localhost', '/docs'), 200],
  ['a zone', get('example.com', '/'), 200],
])('%s', async (_, octets, status) => {
  const { log, lines } = logLines();
  const { port } = await startEdge({ log, app: { log } });
  const answer = await speak(port, octets);
  expect(answer.status).toBe(status);
  const rayId = answer.headers['ray-id'];
  expect(rayId).toMatch(/^[0-9a-f]{16}$/);
  const told = (): unknown[] => lines.filter((line) => (line['ray'] ?? line['session']) === rayId);
  await expect.poll(told).toEqual([expect.objectContaining({ status, client: '127.0.0.1' })]);
});

test('a probe is logged only for whoever wants to see everything', async () => {
  const { log, lines } = logLines();
  const { port } = await startEdge({ log, app: { log } });
  for (const path of ['/livez', '/readyz', '/metrics']) await speak(port, get('localhost', path));
  expect(lines).toEqual([]);
});
