// What a verdict of the policy package costs: of an ordinary message, and of hostile ones in two sizes, of which the larger is
// sixteen times the smaller. A cost that grows faster than its input shows as a factor far over 16.
// npm run build -w postern-policy && node bench/policy.mjs

import { performance } from 'node:perf_hooks';
import { judge } from '../packages/policy/dist/index.js';

const ordinary =
  'From: a@example.com\r\nTo: b@example.net\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\nX-A: 1\r\n\r\nHello\r\n';

const hostile = {
  'encoded-words': (size) => `X-A: ${'=?utf-8?q?a?= '.repeat(size / 14)}\r\n`,
  'open comments': (size) => `To: ${'('.repeat(size)}\r\n`,
  'addresses': (size) => `To: ${'a@b,'.repeat(size / 4)}\r\n`,
  'open brackets': (size) => `List-Unsubscribe: ${'<'.repeat(size)}\r\n`,
  'one name': (size) => 'X-A: 1\r\n'.repeat(size / 128),
  'bare CR in the body': (size) => `\r\n${'\r'.repeat(size)}`,
  'delimiters': (size) => `Content-Type: multipart/mixed; boundary=a\r\n\r\n${'--a\r\n'.repeat(size / 5)}`,
  'parameters': (size) => `Content-Type: text/plain; ${'a*0=b;'.repeat(size / 6)}\r\n\r\n\u00e4`,
};

/** The least milliseconds of a call. */
function cost(text, runs) {
  let least = Infinity;
  for (let run = 0; run < runs; run += 1) {
    const start = performance.now();
    judge(text);
    least = Math.min(least, performance.now() - start);
  }
  return least;
}

console.log(`ordinary: ${(cost(ordinary, 5000) * 1000).toFixed(0)} microseconds`);
for (const [name, shape] of Object.entries(hostile)) {
  const [small, large] = [12_000, 192_000].map((size) => cost(`From: a@example.com\r\n${shape(size)}`, 5));
  console.log(`${name}: ${small.toFixed(2)} ms, ${large.toFixed(2)} ms for sixteen times as much: factor ${(large / small).toFixed(0)}`);
}
