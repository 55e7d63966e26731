// Which address a connection ends at: what the function says is held against what this system does (D84).

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { reachedAddresses } from '../../../src/base/net/socket-address.ts';
import { canonicalAddress } from '../../../src/proxy/application/texts.ts';

const servers: Server[] = [];
let port = 0;

beforeAll(async () => {
  for (const host of ['127.0.0.1', '::1']) {
    const server = createServer((socket) => void socket.end());
    server.listen({ host, port, ipv6Only: true });
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
    servers.push(server);
  }
});
afterAll(() => {
  for (const server of servers) server.close();
});

/** Where a connection came to; undefined where it came to nothing. */
function connectedTo(host: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, autoSelectFamily: false });
    const end = (where: string | undefined): void => {
      socket.destroy();
      resolve(where);
    };
    socket.once('connect', () => end(canonicalAddress(socket.remoteAddress ?? '')));
    socket.once('error', () => end(undefined));
  });
}

test.each([
  '127.0.0.1',
  '0.0.0.0',
  '::',
  '::0',
  '0:0:0:0:0:0:0:0',
  '::0.0.0.0',
  '::1',
  '0::0001',
  '::0.0.0.1',
  '::ffff:0.0.0.0',
  '::ffff:0:0',
  '::ffff:127.0.0.1',
  '::FFFF:7F00:1',
  '0:0:0:0:0:ffff:7f00:0001',
  '::1%lo',
  '::%lo',
])('%s comes to an address that is told', async (address) => {
  const at = await connectedTo(address);
  expect(at).toBeDefined();
  expect(reachedAddresses(address)).toContain(at);
});

describe('an IPv4 address inside IPv6 is told beside it', () => {
  test.each([
    ['2002:7f00:1::', '127.0.0.1'],
    ['2002:7f00:0001:abcd::9', '127.0.0.1'],
    ['2002::', '127.0.0.1'],
    ['64:ff9b::7f00:1', '127.0.0.1'],
    ['64:ff9b::127.0.0.1', '127.0.0.1'],
    ['64:ff9b:1::7f00:1', '127.0.0.1'],
    ['64:ff9b:1:7f00:0:100::', '127.0.0.1'],
    ['::ffff:0:127.0.0.1', '127.0.0.1'],
    ['::127.0.0.1', '127.0.0.1'],
    ['::7f00:1', '127.0.0.1'],
    ['2002:c000:0207::', '192.0.2.7'],
  ])('%s', (address, inner) => {
    expect(reachedAddresses(address)).toEqual(expect.arrayContaining([canonicalAddress(address), inner]));
  });

  test.each([
    ['2001:db8::7f00:1', ['2001:db8::7f00:1']],
    ['fe80::1%eth0', ['fe80::1']],
    ['::1', ['::1']],
    ['192.0.2.1', ['192.0.2.1']],
    ['origin.example.com', []],
    ['127.1', []],
  ])('%s is itself alone', (address, wanted) => {
    expect(reachedAddresses(address)).toEqual(wanted);
  });
});
