// The reader of command lines where its listener or its client holds it up.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type WireListener, WireReader } from '../../../src/doors/smtp/wire-reader.ts';
import { deviceListener, RawClient, startDoor } from '../../support/smtp-peers.ts';

test('no further line is cut while the listener waits for its replies to be read', async () => {
  const lines: string[] = [];
  let wake: (() => void) | undefined;
  const listener: WireListener = {
    onEarlyOctets: () => undefined,
    onLine: (line) => {
      lines.push(line.toString());
      return lines.length % 2 === 0 ? new Promise<void>((resolve) => (wake = resolve)) : undefined;
    },
    onOverlongLine: () => undefined,
    onBrokenLine: () => undefined,
    onData: () => undefined,
    onDrained: () => undefined,
    onEnd: () => undefined,
  };
  const reader = new WireReader(listener);
  reader.ready = true;
  reader.write('one\r\ntwo\r\nthree\r\nfour\r\nfive\r\n');
  await nextTurn();
  expect(lines).toEqual(['one', 'two']);
  wake?.();
  await nextTurn();
  expect(lines).toEqual(['one', 'two', 'three', 'four']);
  wake?.();
  await nextTurn();
  expect(lines).toHaveLength(5);
});

test('a client that asks much and reads late gets every answer in order', async () => {
  const running = await startDoor({ listeners: [deviceListener] });
  const client = RawClient.open(running.port('devices'));
  await client.reply();
  client.send(`EHLO client.example\r\n${'HELP\r\n'.repeat(20_000)}QUIT\r\n`);
  const said = await client.untilEnd();
  expect(said.match(/^214 /gm)).toHaveLength(20_000);
  expect(said.endsWith('221 2.0.0 Bye\r\n')).toBe(true);
  await running.door.drain(0);
});

test('2 MiB without a line end get their answer while they still come', async () => {
  const running = await startDoor({ listeners: [deviceListener] });
  const client = RawClient.open(running.port('devices'));
  await client.reply();
  client.send('A'.repeat(2_097_152));
  expect(await client.reply()).toBe('500 5.5.2 Command line too long\r\n');
  client.halfClose();
  await client.untilEnd();
  await expect.poll(() => running.door.counts().connections).toBe(0);
  await running.door.drain(0);
});
