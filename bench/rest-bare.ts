// The least that answers a request of bench:rest: it reads the body, parses it and answers as long an envelope. By node:http alone, or
// by Fastify without hooks. Prints its port. Argument: http or fastify.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Fastify from 'fastify';

const answer = JSON.stringify({
  success: true,
  errors: [],
  messages: [],
  result: {
    delivered: [],
    permanent_bounces: [],
    queued: ['rcpt@example.net'],
    message_id: `${'0'.repeat(36)}@platform`,
  },
});
const headers = {
  'Content-Type': 'application/json; charset=utf-8',
  'Cache-Control': 'no-store',
  'Ray-ID': '0'.repeat(16),
};

async function listen(): Promise<number> {
  if (process.argv[2] === 'fastify') {
    const app = Fastify({ logger: false, bodyLimit: 10_485_760 });
    app.post('*', async (_request, reply) => await reply.headers(headers).send(answer));
    return Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port);
  }
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      JSON.parse(Buffer.concat(pieces).toString());
      response.writeHead(200, { ...headers, 'Content-Length': Buffer.byteLength(answer) }).end(answer);
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it listens by TCP
  return (server.address() as AddressInfo).port;
}

console.log(await listen());
