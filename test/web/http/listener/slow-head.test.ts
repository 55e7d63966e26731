// A client that does not finish the head of its request.

import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { HttpListener } from '../../../../src/web/http/listener/listener.ts';

test('is answered 408 soon after its time, and not when Node would look by itself', { timeout: 15_000 }, async () => {
  const never = (): never => {
    throw new Error('There is no request');
  };
  const handlers = { request: never, takesUpgrade: never, upgrade: never, connect: never };
  const listener = new HttpListener({ handlers: () => handlers, headMs: 100 });
  const { port } = await listener.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => listener.close(0));
  const client = connect(port, '127.0.0.1', () => client.write('GET / HT'));
  let answer = '';
  client.on('data', (octets) => (answer += octets.toString('latin1')));
  await once(client, 'close');
  expect(answer).toMatch(/^HTTP\/1\.1 408 /);
});
