// npm run bench:growth -- --inputs: what each kind of input costs at 1, 2, 4 and 8 times its size, the largest being what the limits
// let in. A Postern of its own for each kind, over real sockets, what it accepts being captured; after one message that
// warms it up, one of each size. Prints a table. Time and turns are CPU time of the main thread, so that other work on the
// machine does not count; memory is the growth of the resident size at its peak (VmHWM) over what it was before.

import { appendFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import type { ProbeAnswer } from '../loop-probe.ts';
import { benchToken, type PosternUnderTest, startPostern } from '../postern-under-test.ts';
import { peakMebibytes } from '../process-usage.ts';
import { settledMebibytes } from './gateway.ts';
import { type Case, cases } from './hostile-inputs.ts';

/** The figures of one size. */
interface Figures extends ProbeAnswer {
  readonly octets: number;
  readonly mebibytes: number;
  /** The first line of the SMTP reply, or the HTTP status. */
  readonly answer: string;
  readonly answerOctets: number;
}

interface Result {
  readonly name: string;
  readonly sizes: readonly Figures[];
  /** How time grows: 1 is linear, 2 is with the square. From the second size on; the first is mostly fixed costs. */
  readonly exponent: number;
}

/** More than this is called not linear, where the largest takes long enough to tell. */
const steepest = 1.35;
const tellingMs = 40;

/** Sends a message over a connection of its own; gives the reply to its final dot, or whatever ended the session. */
function sendMessage(port: number, message: Buffer): Promise<string> {
  const text = message.toString('latin1').replace(/(?<=^|\r\n)\./g, '..');
  const data = Buffer.from(`${text}${text.endsWith('\r\n') ? '' : '\r\n'}.\r\n`, 'latin1');
  const steps = [
    'EHLO bench.example\r\n',
    'MAIL FROM:<a@example.com>\r\n',
    'RCPT TO:<b@example.net>\r\n',
    'DATA\r\n',
    data,
  ];
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let reply = '';
    socket.on('data', (chunk) => {
      reply += chunk.toString('latin1');
      if (!/^\d{3} [^\n]*\n$/m.test(reply.slice(reply.lastIndexOf('\n', reply.length - 2) + 1))) return;
      const step = steps.shift();
      if (step === undefined) {
        resolve(reply);
        socket.destroy();
      } else {
        reply = '';
        socket.write(step);
      }
    });
    socket.on('close', () => resolve(reply));
    socket.on('error', reject);
  });
}

function sendRequest(port: number, endpoint: string, body: Buffer): Promise<{ status: number; octets: number }> {
  const path = `/client/v4/accounts/dev/email/sending/${endpoint}`;
  const headers = { authorization: `Bearer ${benchToken}`, 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const asking = request({ host: '127.0.0.1', port, path, method: 'POST', headers }, (response) => {
      let octets = 0;
      response.on('data', (chunk: Buffer) => (octets += chunk.length));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, octets }));
    });
    asking.on('error', reject).end(body);
  });
}

async function send(
  postern: PosternUnderTest,
  { door }: Case,
  input: Buffer,
): Promise<Pick<Figures, 'answer' | 'answerOctets'>> {
  if (door === 'smtp') {
    const reply = await sendMessage(postern.port, input);
    return { answer: reply.slice(0, 9).trim(), answerOctets: reply.length };
  }
  const { status, octets } = await sendRequest(postern.httpPort, door, input);
  return { answer: String(status), answerOctets: octets };
}

async function measure(postern: PosternUnderTest, given: Case, times: number): Promise<Figures> {
  const input = given.make(Math.floor((given.largest * times) / 8));
  await postern.ask('begin');
  const before = settledMebibytes(postern.pid);
  const answer = await send(postern, given, input);
  // Delivery goes on behind the answer, and is measured with it.
  await new Promise((wait) => setTimeout(wait, 300));
  const mebibytes = peakMebibytes(postern.pid) - before;
  return { ...(await postern.ask('end')), ...answer, octets: input.length, mebibytes };
}

async function run(given: Case): Promise<Result> {
  const postern = await startPostern({ platformSignature: false, probe: true });
  try {
    await send(postern, given, given.make(Math.floor(given.largest / 8)));
    const sizes: Figures[] = [];
    for (const times of [1, 2, 4, 8]) sizes.push(await measure(postern, given, times));
    const [, second, , last] = sizes;
    const exponent = Math.log((last?.cpuMs ?? 1) / (second?.cpuMs ?? 1)) / Math.log(4);
    return { name: given.name, sizes, exponent };
  } finally {
    await postern.stop();
  }
}

function row({ name, sizes, exponent }: Result): string {
  const list = (of: (figures: Figures) => number): string => sizes.map((figures) => of(figures).toFixed(0)).join(' ');
  const last = sizes.at(-1);
  const steep = exponent > steepest && (last?.cpuMs ?? 0) > tellingMs;
  const octets = ((last?.octets ?? 0) / 1024).toFixed(0);
  const answers = [...new Set(sizes.map(({ answer }) => answer))].join(', ');
  return `| ${name} | ${octets} | ${answers} | ${list(({ cpuMs }) => cpuMs)} | ${exponent.toFixed(2)}${steep ? ' **not linear**' : ''} | ${list(({ mebibytes }) => mebibytes)} | ${(last?.longestTurnMs ?? 0).toFixed(0)} | ${last?.answerOctets ?? 0} |`;
}

/**
 * Measures the kinds of input whose name has a text in it, and prints a table.
 * @param out a file that every kind's JSON line is appended to
 */
export async function measureInputs(text: string, out: string | undefined): Promise<void> {
  console.log(
    '| input | KiB at 8x | answer | CPU ms at 1, 2, 4, 8x | growth | peak MiB | longest turn ms | answer octets |',
  );
  console.log('|---|---|---|---|---|---|---|---|');
  for (const given of cases.filter(({ name }) => name.includes(text))) {
    const result = await run(given);
    console.log(row(result));
    if (out !== undefined) appendFileSync(out, `${JSON.stringify(result)}\n`);
  }
}
