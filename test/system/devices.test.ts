// A device that cannot log in (D40c): a scanner's few lines over a bare socket, without TLS, AUTH, Date, Message-ID or a
// domain of its own, with Latin-1 text and bare line feeds in the body.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addressesOf, type ClientGateway, startClientGateway } from '../support/client-gateway.ts';
import { requirePrograms, runProgram } from './programs.ts';

let gateway: ClientGateway;

beforeAll(async () => {
  requirePrograms('python3', 'swaks');
  gateway = await startClientGateway();
});
afterAll(() => gateway?.postern.cleanUp());

/** Says HELO and the rest, one command at a time, then the message (read as Latin-1) and the final dot; prints replies. */
const device = `
import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
replies = s.makefile('rb')
def hear():
    while True:
        line = replies.readline()
        print(line.decode('latin-1').rstrip('\\r\\n'))
        if line[3:4] != b'-':
            return
hear()
for command in ('HELO scanner', 'MAIL FROM:<scanner>', 'RCPT TO:<office@partner.test>', 'DATA'):
    s.sendall(command.encode() + b'\\r\\n')
    hear()
s.sendall(sys.stdin.buffer.read() + b'\\r\\n.\\r\\n')
hear()
s.sendall(b'QUIT\\r\\n')
hear()
`;

function scan(message: string, port = gateway.postern.ports['devices']) {
  return runProgram('python3', ['-c', device, `${port}`], { input: Buffer.from(message, 'latin1') });
}

test('a scanner’s message is completed, its body repaired, and signed', async () => {
  const head = 'From: scanner\r\nTo: office@partner.test\r\nSubject: from the scanner\r\n\r\n';
  const { code, output } = await scan(`${head}Gerät 3, Büro\nSeite 1\n\nSeite 2`);
  expect([code, output.split('\n').slice(0, -1)]).toEqual([
    0,
    [
      '220 mx.platform.example ESMTP Postern',
      '250 mx.platform.example',
      expect.stringMatching(/^250 2\.1\.0 /),
      expect.stringMatching(/^250 2\.1\.5 /),
      expect.stringMatching(/^354 /),
      expect.stringMatching(/^250 2\.0\.0 Ok <[^>]+@platform\.example>$/),
      expect.stringMatching(/^221 2\.0\.0 /),
    ],
  ]);
  const { raw, parsed } = await gateway.arrived('from the scanner', 'SMTP');
  expect(addressesOf(parsed.from)).toEqual(['scanner@example.com']);
  expect(parsed.text).toBe('Gerät 3, Büro\nSeite 1\n\nSeite 2\n');
  expect(raw.toString('latin1').replaceAll('\r\n', '')).not.toMatch(/[\r\n]/);
  expect(await gateway.logged('accepted', { credential: 'devices' })).toMatchObject({ helo: 'scanner' });
});

test('line feeds alone in the header section are no line ends: refused, and nothing of it leaves', async () => {
  const { output } = await scan('From: scanner\nTo: office@partner.test\nSubject: bare header\n\nbody');
  expect(output).toContain('\n554 5.6.0 E_HEADER_VALUE_INVALID: From ');
  const inbox = join(gateway.postern.dataDir, 'capture/new');
  expect(readdirSync(inbox).length).toBe(1);
});

test('the same without the listener for devices: TLS and a login are wanted', async () => {
  const { output } = await scan('Subject: x\r\n\r\nx', gateway.port);
  expect(output).toContain('530 5.7.0 Must issue STARTTLS first');
});

test('the listener for devices offers no AUTH and no TLS, and takes no other sender domain', async () => {
  const { code, output } = await runProgram('swaks', [
    ...['--server', '127.0.0.1', '--port', `${gateway.postern.ports['devices']}`],
    ...['--from', 'scanner@elsewhere.test', '--to', 'office@partner.test', '--body', 'x'],
  ]);
  expect(code).toBe(23); // swaks: MAIL was refused
  expect(output).not.toMatch(/250[ -](?:AUTH|STARTTLS)/);
  expect(output).toMatch(/<\*\* 550 5\.7\.1 .*elsewhere\.test/);
});
