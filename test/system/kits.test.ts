// The rules that postern report writes for old servers, in Debian's Postfix and Exim: what they hand on has nothing left that was refused.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { kitLines } from '../../src/pipeline/report/kits.ts';
import { type Exim, startExim } from '../support/exim.ts';
import { estateReasons, reportsOf, valueReasons } from '../support/kit-reports.ts';
import { type Postfix, startPostfix } from '../support/postfix.ts';
import { type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts';
import { requirePrograms, runProgram } from './programs.ts';

let hop: SmtpSink;
let postfix: Postfix | undefined;
let exim: Exim | undefined;

const kit = (format: 'postfix' | 'exim'): readonly string[] =>
  kitLines(format, reportsOf([...estateReasons, ...valueReasons]), () => 'example.com');

/** The lines of a kit under a heading, up to the next empty line. */
function section(lines: readonly string[], heading: string): readonly string[] {
  const from = lines.indexOf(heading) + 1;
  const length = [...lines.slice(from), ''].indexOf('');
  return lines.slice(from, from + length);
}

beforeAll(async () => {
  requirePrograms('postfix', 'swaks');
  hop = await startSmtpSink();
  const ofPostfix = kit('postfix');
  postfix = await startPostfix({
    mainCf: (folder) => {
      for (const name of ['postern_headers', 'postern_senders'])
        writeFileSync(join(folder, name), `${section(ofPostfix, `# /etc/postfix/${name}`).join('\n')}\n`);
      const own = section(ofPostfix, '# main.cf, of what hands mail to Postern');
      return [`relayhost = [127.0.0.1]:${hop.port}`, ...own.map((line) => line.replace('/etc/postfix/', `${folder}/`))];
    },
  });
  const lines = kit('exim').slice(1).join('\n');
  exim = await startExim({
    ...{ next: hop.port, dsn: false },
    more: () => ({
      routers: `cured:
  driver = manualroute
  route_list = * 127.0.0.1
  self = send
  transport = cured
`,
      transports: `cured:
  driver = smtp
  port = ${hop.port}
${lines}
`,
    }),
  });
}, 60_000);
afterAll(async () => {
  postfix?.stop();
  await exim?.stop();
  await hop?.stop();
});

test.each([
  ['Postfix', () => postfix?.port],
  ['Exim', () => exim?.port],
] as const)('%s', async (name, port) => {
  const hand = async (from: string, subject: string, ...more: string[]) => {
    const { code, output } = await runProgram('swaks', [
      ...['--server', '127.0.0.1', '--port', `${port()}`, '--from', from, '--to', 'a@partner.test'],
      ...['--header', `Subject: ${subject}`, ...more.flatMap((line) => ['--add-header', line])],
    ]);
    expect([code, output]).toEqual([0, expect.stringContaining('<-  250')]);
    const find = () => hop.messages().find((message) => message.includes(`Subject: ${subject}\r\n`));
    await expect.poll(() => find() !== undefined, { timeout: 20_000, message: name }).toBe(true);
    return find()?.toString('latin1') ?? '';
  };
  const named = ['User-Agent: old/1', 'X-Old: ', 'X-Older: stays', 'Precedence: urgent'];
  const part = 'x'.repeat(700);
  const long = `X-Long: ${part}\\n ${part}\\n ${part}`;
  const bad = await hand('root@box.internal', `${name} bad`, ...named, 'X-Twice: one', 'X-Twice: two', long);
  expect(bad).not.toMatch(/^(?:User-Agent|X-Old|Precedence):/im);
  // Postfix looks at one header at a time, and counts no octets.
  const [twice, isLong] = [bad.match(/^X-Twice: .*(?=\r$)/gm), /^X-Long:/m.test(bad)];
  const cured = [['X-Twice: one'], false];
  expect([twice, isLong]).toEqual(name === 'Exim' ? cured : [['X-Twice: one', 'X-Twice: two'], true]);
  expect(bad).toMatch(/^X-Older: stays\r$/m);
  expect(bad).toMatch(/^From: root@example\.com\r$/m);
  expect(bad).toMatch(/^X-Mail-Args: <root@example\.com>/m);
  // What was in order is left as it is.
  const fine = ['X-Old: value', 'Precedence: BULK', 'X-Twice: a:b', `X-Long: ${'y'.repeat(800)}`];
  const good = await hand('app@example.org', `${name} good`, ...fine);
  for (const line of fine) expect(good).toContain(`\r\n${line}\r\n`);
  expect(good).toMatch(/^From: app@example\.org\r$/m);
  expect(good).toMatch(/^X-Mail-Args: <app@example\.org>/m);
});
