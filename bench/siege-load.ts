// The besiegers of siege.ts, a process of their own: `/metrics` ten times a second, and clients that post messages with
// faults as fast as they are answered. Prints how many answers each got when its standard input ends.

import { Agent, request } from 'node:http';
import { parseArgs } from 'node:util';
import { benchToken } from './postern-under-test.ts';

const { values } = parseArgs({ options: { port: { type: 'string' }, clients: { type: 'string', default: '4' } } });
const agent = new Agent({ keepAlive: true });
const path = `/client/v4/accounts/${'a1'.repeat(16)}/email/sending/send`;
/** A missing recipient, an unknown field, headers that are refused. */
const faulty = JSON.stringify({
  ...{ from: 'a@elsewhere.test', subject: 'x', text: 'y', replyTo: 'z' },
  headers: Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`No-${at}`, 'x'])),
});
const counts: Record<string, number> = {};
let going = true;

function ask(method: string, target: string, body = ''): Promise<void> {
  const headers = { authorization: `Bearer ${benchToken}`, 'content-type': 'application/json' };
  return new Promise((resolve) => {
    const asking = request({ port: Number(values.port), method, path: target, agent, headers }, (response) => {
      const kind = `${method} ${response.statusCode}`;
      counts[kind] = (counts[kind] ?? 0) + 1;
      response.resume().on('close', resolve);
    });
    asking.on('error', () => resolve()).end(body);
  });
}

async function post(): Promise<void> {
  await ask('POST', path, faulty);
  if (going) void post();
}

for (let client = 0; client < Number(values.clients); client += 1) void post();
const scraping = setInterval(() => void ask('GET', '/metrics'), 100);
console.log('ready');
process.stdin.resume().on('end', () => {
  going = false;
  clearInterval(scraping);
  console.log(JSON.stringify(counts));
  process.exit(0);
});
