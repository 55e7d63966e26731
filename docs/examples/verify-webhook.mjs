// Takes webhooks and verifies them: WEBHOOK_SECRET=whsec_... node verify-webhook.mjs [PORT]
// Nothing has to be installed. The npm package standardwebhooks does the same.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const key = Buffer.from(process.env.WEBHOOK_SECRET.replace(/^whsec_/, ''), 'base64');

/** Gives the event of a request; throws where it is not from Postern, or too old. */
function verified(headers, body) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) < 300)) throw new Error('too old');
  const wanted = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest();
  const fits = String(signatures)
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .map((one) => Buffer.from(one.slice(3), 'base64'))
    .some((given) => given.length === wanted.length && timingSafeEqual(given, wanted));
  if (!fits) throw new Error('wrong signature');
  return JSON.parse(body);
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  try {
    const { type, data } = verified(request.headers, Buffer.concat(chunks).toString());
    // An event may come twice: keep webhook-id where that would do harm.
    console.log(request.headers['webhook-id'], type, data.recipient ?? '');
    response.writeHead(204).end();
  } catch (error) {
    response.writeHead(400).end(String(error));
  }
});
server.listen(Number(process.argv[2] ?? 9000), '127.0.0.1', () => console.log('listening', server.address().port));
