// Real mail servers as next hops: what they report after they have taken a message comes back to the bounce listener, and
// suppresses the recipient that cannot be reached, and nobody else (D26, D40a, D51).

import { afterEach, expect, test } from 'vitest';
import { type BounceGateway, startBounceGateway } from '../support/bounce-gateway.ts';
import { startExim } from '../support/exim.ts';
import { freePort } from '../support/free-port.ts';
import { startPostfix } from '../support/postfix.ts';
import { startRefusingHop } from '../support/refusing-hop.ts';

const closers: (() => void | Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

const refusals = {
  gone: { rcpt: '550 5.1.1 <gone@example.net>: Recipient address rejected: User unknown' },
  full: { rcpt: '552 5.2.2 Mailbox full' },
};

/** Sends one message to three recipients through a server that takes it and finds out later. */
async function expectSuppressed(
  gateway: BounceGateway,
  hop: Awaited<ReturnType<typeof startRefusingHop>>,
): Promise<void> {
  const { status } = await gateway.api('POST', '/email/sending/send', {
    from: 'alice@example.com',
    to: ['gone@example.net', 'full@example.net', 'there@example.net'],
    ...{ subject: 'Three', text: 'Hello.' },
  });
  expect(status).toBe(200);
  const waiting = { timeout: 60_000, interval: 100 };
  await expect.poll(() => gateway.suppressed(), waiting).toEqual(['gone@example.net hard_bounce']);
  await expect
    .poll(
      () => gateway.logged('bounced').map((line) => `${String(line['recipient'])} ${String(line['class'])}`),
      waiting,
    )
    .toHaveLength(2);
  const bounced = gateway.logged('bounced').map((line) => `${String(line['recipient'])} ${String(line['class'])}`);
  expect(bounced.toSorted()).toEqual(['full@example.net soft', 'gone@example.net hard']);
  expect(hop.taken.map(({ recipient }) => recipient)).toEqual(['there@example.net']);
  expect(await gateway.suppressed()).toEqual(['gone@example.net hard_bounce']);
}

/** A Postern whose only route is a server on this port. */
async function startThrough(port: () => number): Promise<BounceGateway> {
  const gateway = await startBounceGateway((config) => {
    config.routes = [{ name: 'server', type: 'smarthost', url: `smtp://127.0.0.1:${port()}`, tls: 'none' }];
  });
  closers.push(() => gateway.postern.cleanUp());
  return gateway;
}

test('Postfix: its report suppresses the recipient that is unknown', async () => {
  const hop = await startRefusingHop(refusals);
  closers.push(() => hop.close());
  const relay = await freePort();
  const gateway = await startThrough(() => relay);
  const mainCf = [
    ...[
      'myhostname = mx.example.net',
      'mydestination =',
      'local_recipient_maps =',
      `relayhost = [127.0.0.1]:${hop.port}`,
    ],
    `transport_maps = inline:{{bounces.platform.example = smtp:[127.0.0.1]:${gateway.postern.ports['bounce']}}}`,
    ...['smtp_tls_security_level = may', 'smtpd_recipient_restrictions = permit_mynetworks, reject'],
  ];
  const postfix = await startPostfix({ mainCf, port: relay });
  closers.push(() => postfix.stop());
  await gateway.postern.until(() => gateway.postern.ports['bounce']);
  await expectSuppressed(gateway, hop);
  expect(postfix.mailLog()).toMatch(/to=<b\+[a-z2-7]{52}@bounces\.platform\.example>.* status=sent/);
});

test('Exim: its report suppresses the recipient that is unknown', async () => {
  const hop = await startRefusingHop(refusals);
  closers.push(() => hop.close());
  const relay = await freePort();
  const gateway = await startThrough(() => relay);
  const exim = await startExim({
    ...{ next: hop.port, dsn: false, port: relay },
    more: () => ({
      routers: `reports:
  driver = manualroute
  domains = bounces.platform.example
  route_list = * 127.0.0.1
  self = send
  transport = reports
`,
      transports: `reports:
  driver = smtp
  port = ${gateway.postern.ports['bounce']}
  hosts_avoid_tls = *
`,
    }),
  });
  closers.push(() => exim.stop());
  await expectSuppressed(gateway, hop);
});
