// Reads /metrics in loops until it is ended, then prints how many answers it had: node metrics-readers.ts PORT READERS.

import { Agent, get } from 'node:http';

const [, , port, readers] = process.argv;
const agent = new Agent({ keepAlive: true });
let answers = 0;

function read(): Promise<void> {
  return new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port: Number(port), path: '/metrics', agent }, (response) => {
      response.resume();
      response.once('end', () => {
        answers += 1;
        resolve();
      });
      response.once('error', reject);
    }).once('error', reject);
  });
}

process.once('SIGTERM', () => {
  console.log(answers);
  process.exit(0);
});
await Promise.all(
  Array.from({ length: Number(readers) }, async () => {
    for (;;) await read();
  }),
);
