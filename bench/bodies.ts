// npm run bench:bodies: what messages under way cost in memory, and that their sum is bounded. Many connections begin a
// large message at once, from several addresses of loopback; some vanish in the middle. Reports how the messages were
// answered, the peak of the resident size, what an octet in hand costs, and whether honest mail passes afterwards and the
// gauge is back at 0. Exit 1 where that is not so. `--help` tells the options.

import { connect, type Socket } from 'node:net';
import { parseArgs } from 'node:util';
import { benchToken, startPostern } from './postern-under-test.ts';
import { peakMebibytes } from './process-usage.ts';

const usage = `Usage: npm run bench:bodies -- [options]
  --connections N    messages at once (default 1000)
  --octets N         octets of each message (default 5000000)
  --addresses N      addresses that they come from, 127.0.0.2 and up (default 20)
  --vanish N         so many of them cut the connection in the middle (default 50)
  --budget N         limits.bodiesInFlightBytes (default: the program's own)
  --http             by the REST endpoint, not by SMTP
  --honest N         messages afterwards, one after another (default 50)`;

const options = {
  connections: { type: 'string', default: '1000' },
  octets: { type: 'string', default: '5000000' },
  addresses: { type: 'string', default: '20' },
  vanish: { type: 'string', default: '50' },
  budget: { type: 'string' },
  http: { type: 'boolean', default: false },
  honest: { type: 'string', default: '50' },
  help: { type: 'boolean', default: false },
} as const;

interface Target {
  readonly port: number;
  readonly localAddress: string;
}

interface Load {
  readonly octets: number;
  readonly vanishes: boolean;
}

/** Octets with line ends, as a message's body has them. */
function content(octets: number): string {
  return `${'0123456789'.repeat(7)}\r\n`.repeat(Math.ceil(octets / 72)).slice(0, octets);
}

const head = 'From: bench@example.com\r\nTo: rcpt@example.net\r\nSubject: A large message\r\n\r\n';

/** Answers what `until` finds in what has come, or 'cut' when the connection ends before. */
function heard(socket: Socket, until: RegExp): Promise<string> {
  let text = '';
  return new Promise((resolve) => {
    const end = (found: string): void => {
      socket.removeAllListeners('data');
      resolve(found);
    };
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      const found = until.exec(text)?.[1];
      if (found !== undefined) end(found);
    });
    socket.once('close', () => end('cut'));
    socket.once('error', () => end('cut'));
  });
}

function open({ port, localAddress }: Target): Socket {
  const socket = connect({ port, host: '127.0.0.1', localAddress, noDelay: true });
  socket.on('error', () => undefined);
  return socket;
}

/** Sends one message by SMTP; resolves to the code of the last reply, or to `cut`. */
async function bySmtp(target: Target, { octets, vanishes }: Load): Promise<string> {
  const socket = open(target);
  const say = (text: string, until: RegExp): Promise<string> => {
    const answer = heard(socket, until);
    socket.write(text, 'latin1');
    return answer;
  };
  if ((await heard(socket, /^(\d{3}) [^\n]*\n/)) !== '220') return 'not greeted';
  await say('EHLO bench\r\n', /^(250) /m);
  const begun = await say(
    'MAIL FROM:<bench@example.com>\r\nRCPT TO:<rcpt@example.net>\r\nDATA\r\n',
    /(354|4\d\d|5\d\d) [^\n]*\n/,
  );
  if (begun !== '354') {
    socket.destroy();
    return begun;
  }
  const body = content(octets);
  if (vanishes) {
    socket.write(head + body.slice(0, octets / 2), 'latin1', () => socket.resetAndDestroy());
    return await heard(socket, /(never)/);
  }
  const answer = await say(`${head}${body}\r\n.\r\n`, /^(\d{3}) [^\n]*\n/m);
  socket.destroy();
  return answer;
}

/** Sends one message by REST; resolves to the status, or to `cut`. */
async function byHttp(target: Target, { octets, vanishes }: Load): Promise<string> {
  const socket = open(target);
  const fields = { from: 'bench@example.com', to: 'rcpt@example.net', subject: 'A large message', text: 'See there.' };
  const attachment = { content: 'QUJD'.repeat(octets / 4), filename: 'a.bin', type: 'application/octet-stream' };
  const body = JSON.stringify({ ...fields, attachments: [{ ...attachment, disposition: 'attachment' }] });
  const path = '/client/v4/accounts/dev/email/sending/send';
  const start = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${benchToken}\r\n`;
  const request = `${start}Content-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
  const answer = heard(socket, /^HTTP\/1\.1 (\d{3}) /);
  if (vanishes) socket.write(request + body.slice(0, octets / 2), 'latin1', () => socket.resetAndDestroy());
  else socket.write(request + body, 'latin1');
  const status = await answer;
  socket.destroy();
  return status;
}

async function metric(port: number, name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1] ?? Number.NaN);
}

const { values } = parseArgs({ options });
if (values.help) {
  console.log(usage);
  process.exit(0);
}
const connections = Number(values.connections);
const addresses = Number(values.addresses);
const octets = Number(values.octets);
const postern = await startPostern({
  sinkPort: 1, // nobody listens: everything stays in the spool
  platformSignature: false,
  smtpLimits: { connections: connections + 10, connectionsPerAddress: connections + 10 },
  ...(values.budget === undefined ? {} : { limits: { bodiesInFlightBytes: Number(values.budget) } }),
});
const port = values.http ? postern.httpPort : postern.port;
const send = values.http ? byHttp : bySmtp;
const before = peakMebibytes(postern.pid);
let heldMost = 0;
const watch = setInterval(() => {
  void metric(postern.httpPort, 'postern_body_bytes_held').then(
    (held) => (heldMost = Math.max(heldMost, held || 0)),
    () => undefined,
  );
}, 200);
const started = performance.now();
const outcomes = await Promise.all(
  Array.from({ length: connections }, (_, index) =>
    send(
      { port, localAddress: `127.0.0.${2 + (index % addresses)}` },
      { octets, vanishes: index % Math.ceil(connections / Math.max(1, Number(values.vanish))) === 1 },
    ),
  ),
);
clearInterval(watch);
const seconds = (performance.now() - started) / 1000;
const peak = peakMebibytes(postern.pid);
const answers: Record<string, number> = {};
for (const outcome of outcomes) answers[outcome] = (answers[outcome] ?? 0) + 1;
let honest = 0;
for (let index = 0; index < Number(values.honest); index += 1) {
  const answer = await send({ port, localAddress: '127.0.0.2' }, { octets: 20_000, vanishes: false });
  if (answer === '250' || answer === '200') honest += 1;
}
const held = await metric(postern.httpPort, 'postern_body_bytes_held');
const limit = await metric(postern.httpPort, 'postern_body_bytes_limit');
const mebibytes = (value: number): number => Math.round(value / 104_857.6) / 10;
console.log(
  JSON.stringify({
    door: values.http ? 'http' : 'smtp',
    connections,
    octets,
    addresses,
    answers,
    seconds: Math.round(seconds * 10) / 10,
    rssMebibytes: { before: Math.round(before), peak: Math.round(peak) },
    octetCost: Math.round(((peak - before) * 1_048_576 * 100) / (connections * octets)) / 100,
    budgetMebibytes: { limit: mebibytes(limit), heldMost: mebibytes(heldMost), heldAfterwards: mebibytes(held) },
    honest: `${honest} of ${values.honest}`,
  }),
);
await postern.stop();
process.exit(honest === Number(values.honest) && held === 0 ? 0 : 1);
