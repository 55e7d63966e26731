// The client's connection against a real next hop that fails on demand: every stage, every option.

import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  connectSmtp,
  type OutgoingMail,
  type SmtpClientOptions,
  type SmtpConnection,
  type TransactionEnd,
} from '../../../src/delivery/smtp/smtp-client.ts';
import { defaultTimeouts, type SmtpTimeouts } from '../../../src/delivery/smtp/smtp-transaction.ts';
import { type TestCertificate, testCertificate } from '../../support/certificate.ts';
import { FaultSink, type FaultSinkOptions } from '../../support/fault-sink.ts';

let certificate: TestCertificate;
let otherName: TestCertificate;
const closers: (() => unknown)[] = [];

beforeAll(async () => {
  certificate = await testCertificate();
  otherName = await testCertificate(['elsewhere.test']);
});

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function startSink(options: FaultSinkOptions = {}): Promise<FaultSink> {
  const sink = await FaultSink.start(options);
  closers.push(() => sink.close());
  return sink;
}

function clientOptions(port: number, changes: Partial<SmtpClientOptions> = {}): SmtpClientOptions {
  return {
    host: '127.0.0.1',
    port,
    tls: 'none',
    tlsVerify: false,
    hostname: 'client.test',
    timeouts: defaultTimeouts,
    ...changes,
  };
}

async function connectTo(port: number, changes: Partial<SmtpClientOptions> = {}): Promise<SmtpConnection> {
  const result = await connectSmtp(clientOptions(port, changes));
  if ('refused' in result) throw new Error(`${result.refused.enhanced} ${result.refused.text}`);
  closers.push(() => result.connection.destroy({ code: 451, text: 'the test is over' }));
  return result.connection;
}

function mail(recipients: readonly string[] = ['bob@example.org'], changes: Partial<OutgoingMail> = {}): OutgoingMail {
  return {
    reversePath: 'alice@example.com',
    recipients,
    requireTls: false,
    head: [Buffer.from('Subject: hello\r\n\r\n')],
    body: Buffer.from('One.\r\nTwo.\r\n'),
    ...changes,
  };
}

function send(connection: SmtpConnection, message: OutgoingMail): Promise<TransactionEnd> {
  return new Promise((resolve) => connection.begin(message, resolve));
}

async function kinds(connection: SmtpConnection, message: OutgoingMail): Promise<string> {
  const { results } = await send(connection, message);
  return results.map(({ kind, reply }) => `${kind} ${reply.code}`).join(', ');
}

const starttls = (cert = certificate): FaultSinkOptions => ({ tls: { mode: 'starttls', ...cert } });

async function failureOf(port: number, changes: Partial<SmtpClientOptions>): Promise<string> {
  const result = await connectSmtp(clientOptions(port, changes));
  if ('connection' in result) {
    result.connection.destroy({ code: 451, text: 'the test is over' });
    return 'connected';
  }
  expect(result.refused.code).toBe(451);
  return `${result.refused.enhanced} ${result.refused.text}`;
}

async function failureAt(port: number, timeouts: Partial<SmtpTimeouts> = {}): Promise<string> {
  const result = await connectSmtp(clientOptions(port, { timeouts: { ...defaultTimeouts, ...timeouts } }));
  if ('connection' in result) throw new Error('connected');
  return `${result.refused.code} ${result.refused.enhanced} ${result.refused.text}`;
}

const short = (changes: Partial<SmtpTimeouts>): Partial<SmtpClientOptions> => ({
  timeouts: { ...defaultTimeouts, ...changes },
});

const modes: readonly [string, FaultSinkOptions][] = [
  ['pipelined', {}],
  ['in lock-step', { noPipelining: true }],
  ['with HELO only', { heloOnly: true }],
];

describe.each(modes)('a transaction %s', (_, options) => {
  test('delivers the octets as they are', async () => {
    const sink = await startSink(options);
    const connection = await connectTo(sink.port);
    const { results, untouched } = await send(connection, mail(['bob@example.org', 'carol@example.net']));
    expect(results).toEqual([
      { kind: 'delivered', reply: { code: 250, enhanced: '2.0.0', text: 'Taken' } },
      { kind: 'delivered', reply: { code: 250, enhanced: '2.0.0', text: 'Taken' } },
    ]);
    expect(untouched).toBe(false);
    expect(sink.messages[0]?.raw.toString()).toBe('Subject: hello\r\n\r\nOne.\r\nTwo.\r\n');
    expect(sink.messages[0]?.mailFrom).toBe('alice@example.com');
    expect(sink.messages[0]?.recipients).toEqual(['bob@example.org', 'carol@example.net']);
  });

  test('serves many messages on one connection, without RSET', async () => {
    const sink = await startSink(options);
    const connection = await connectTo(sink.port);
    for (let count = 0; count < 5; count += 1) expect(await kinds(connection, mail())).toBe('delivered 250');
    expect(sink.connections).toBe(1);
    expect(sink.commands).not.toContain('RSET');
    expect(sink.messages).toHaveLength(5);
  });

  test.each([
    ['fail-rcpt@x.test, ok@x.test', 'failed 550, delivered 250'],
    ['ok@x.test, defer-rcpt@x.test, ok2@x.test', 'delivered 250, deferred 451, delivered 250'],
    ['fail-rcpt@x.test, defer-rcpt@x.test', 'failed 550, deferred 451'],
    ['too-many@x.test, ok@x.test', 'deferred 452, delivered 250'],
    ['ok@x.test, fail-data@x.test, fail-rcpt@x.test', 'failed 554, failed 554, failed 550'],
    ['ok@x.test, defer-data@x.test', 'deferred 451, deferred 451'],
    ['ok@x.test, fail-dot@x.test, defer-rcpt@x.test', 'failed 554, failed 554, deferred 451'],
    ['defer-dot@x.test', 'deferred 451'],
    ['fail-mail@x.test, defer-mail@x.test, ok@x.test', 'failed 550, deferred 451, delivered 250'],
  ])('%s: %s, and the connection goes on', async (recipients, wanted) => {
    const sink = await startSink(options);
    const connection = await connectTo(sink.port);
    expect(await kinds(connection, mail(recipients.split(', ')))).toBe(wanted);
    expect(await kinds(connection, mail())).toBe('delivered 250');
    expect(sink.connections).toBe(1);
  });

  test.each([
    ['fail-mail@x.test', 'failed 550, failed 550'],
    ['defer-mail@x.test', 'deferred 451, deferred 451'],
  ])('a sender %s: %s, and the connection goes on', async (reversePath, wanted) => {
    const sink = await startSink(options);
    const connection = await connectTo(sink.port);
    expect(await kinds(connection, mail(['a@x.test', 'b@x.test'], { reversePath }))).toBe(wanted);
    expect(await kinds(connection, mail())).toBe('delivered 250');
  });

  test.each([
    ['drop-rcpt@x.test', 'deferred 451', 'The connection was lost at RCPT'],
    ['drop-data@x.test', 'deferred 451', 'The connection was lost at'],
    ['drop-dot@x.test', 'deferred 451', 'The connection was lost at end of data'],
    ['reply-421@x.test', 'deferred 421', 'Closing'],
    ['reply-421-dot@x.test', 'deferred 421', 'Going down'],
    ['garbage@x.test', 'deferred 451', 'Not a reply: "This is not SMTP"'],
    ['endless@x.test', 'deferred 451', 'A line of the reply is too long'],
  ])('%s defers those that are not finished, and only those', async (address, wanted, words) => {
    const sink = await startSink(options);
    const connection = await connectTo(sink.port);
    let closed = 0;
    connection.onClosed = () => void (closed += 1);
    const { results, untouched } = await send(connection, mail(['fail-rcpt@x.test', 'ok@x.test', address]));
    expect(results.map(({ kind, reply }) => `${kind} ${reply.code}`)).toEqual(['failed 550', wanted, wanted]);
    expect(results[2]?.reply.text).toContain(words);
    expect(results[0]?.reply.text).toBe('No such user\nhere');
    expect(untouched).toBe(false);
    expect(closed).toBe(1);
    expect(connection.isVacant).toBe(false);
    expect(sink.messages).toHaveLength(address.startsWith('drop-dot') ? 1 : 0);
  });

  test('a connection lost at MAIL defers on a fresh one, and is nobody’s fault on one that has served', async () => {
    const sink = await startSink(options);
    const fresh = await connectTo(sink.port);
    const first = await send(fresh, mail(['a@x.test'], { reversePath: 'drop-mail@x.test' }));
    expect(first).toMatchObject({ untouched: false, results: [{ kind: 'deferred' }] });
    const used = await connectTo(sink.port);
    await send(used, mail());
    const second = await send(used, mail(['a@x.test'], { reversePath: 'drop-mail@x.test' }));
    expect(second).toMatchObject({ untouched: true, results: [{ kind: 'deferred' }] });
  });
});

describe('pipelining', () => {
  test('sends the commands in one go, and the next message’s with the content', async () => {
    const sink = await startSink();
    const connection = await connectTo(sink.port);
    const ends: string[] = [];
    let left = 4;
    const next = (): void => {
      if (left === 0) return;
      left -= 1;
      const name = `m${left}`;
      connection.begin(mail([`${name}@x.test`]), (end) => ends.push(`${name} ${end.results[0]?.kind}`));
    };
    let earlier = 0;
    connection.onVacant = () => {
      if (!connection.isIdle) earlier += 1;
      next();
    };
    next();
    await sink.received(4);
    await expect.poll(() => ends.length).toBe(4);
    expect(ends).toEqual(['m3 delivered', 'm2 delivered', 'm1 delivered', 'm0 delivered']);
    expect(earlier).toBeGreaterThanOrEqual(3);
  });

  test('a message begun behind one that ends with 421 is untouched', async () => {
    const sink = await startSink();
    const connection = await connectTo(sink.port);
    const second = new Promise<TransactionEnd>((resolve) => {
      connection.onVacant = () => {
        if (!connection.isIdle) connection.begin(mail(), resolve);
      };
    });
    const first = await send(connection, mail(['reply-421-dot@x.test']));
    expect(first.results[0]?.reply.code).toBe(421);
    expect(await second).toMatchObject({ untouched: true, results: [{ kind: 'deferred' }] });
  });

  test('354 although nobody was accepted is answered with a lone dot', async () => {
    const sink = await startSink({ always354: true });
    const connection = await connectTo(sink.port);
    expect(await kinds(connection, mail(['fail-rcpt@x.test', 'defer-rcpt@x.test']))).toBe('failed 550, deferred 451');
    expect(sink.messages).toHaveLength(0);
    expect(await kinds(connection, mail())).toBe('delivered 250');
    expect(sink.commands).not.toContain('RSET');
  });

  test.each([
    ['552 Too many', 'deferred 552'],
    ['552 5.5.3 Too many', 'deferred 552'],
    ['552 5.2.2 Mailbox full', 'failed 552'],
  ])('%s to RCPT is %s', async (answer, wanted) => {
    const server = await rawServer((line, socket) => {
      if (line.startsWith('RCPT')) socket.write(`${answer}\r\n`);
      else socket.write(line.startsWith('EHLO') ? '250 raw.test\r\n' : '250 ok\r\n');
    });
    expect(await kinds(await connectTo(server.port), mail())).toBe(wanted);
  });

  test('takes 100 recipients', async () => {
    const sink = await startSink();
    const connection = await connectTo(sink.port);
    const recipients = Array.from({ length: 100 }, (_, index) => `${index % 3 ? 'ok' : 'fail-rcpt'}+${index}@x.test`);
    const { results } = await send(connection, mail(recipients));
    expect(results.map((result) => result.kind)).toEqual(
      recipients.map((address) => (address.startsWith('ok') ? 'delivered' : 'failed')),
    );
    expect(sink.messages[0]?.recipients).toHaveLength(66);
  });
});

describe('content', () => {
  test.each([
    ['dots at line starts', '.\r\n..\r\n.dot\r\nno.dot\r\n.\r\n'],
    ['nothing', ''],
    ['no line end at its end', 'half a line'],
    ['a lone line feed at its end', 'line\n'],
  ])('with %s arrives whole', async (_, body) => {
    const sink = await startSink();
    const connection = await connectTo(sink.port);
    expect(await kinds(connection, mail(['a@x.test'], { body: Buffer.from(body) }))).toBe('delivered 250');
    const wanted = `Subject: hello\r\n\r\n${body}${body === '' || body.endsWith('\r\n') ? '' : '\r\n'}`;
    expect(sink.messages[0]?.raw.toString()).toBe(wanted);
  });

  test('of 6 MiB arrives whole, with another message behind it', async () => {
    const sink = await startSink();
    const connection = await connectTo(sink.port);
    const body = Buffer.alloc(6 * 1024 * 1024, '.a line that begins with a dot\r\n');
    body.set(Buffer.from('\r\n'), body.length - 2);
    const behind = new Promise<TransactionEnd>((resolve) => {
      connection.onVacant = () => {
        if (!connection.isIdle) connection.begin(mail(), resolve);
      };
    });
    expect(await kinds(connection, mail(['a@x.test'], { body }))).toBe('delivered 250');
    expect((await behind).results[0]?.kind).toBe('delivered');
    expect(sink.messages[0]?.raw.subarray(18).equals(body)).toBe(true);
  });

  test('refused while it is still being sent fails, and the connection is given up', async () => {
    const server = await rawServer((line, socket) => {
      if (line.startsWith('DATA')) socket.write('354 go\r\n552 5.3.4 Too much already\r\n');
      else socket.write(line.startsWith('EHLO') ? '250 raw.test\r\n' : '250 ok\r\n');
    });
    const connection = await connectTo(server.port);
    const body = Buffer.alloc(32 * 1024 * 1024, 'line\r\n');
    const { results } = await send(connection, mail(['a@x.test'], { body }));
    expect(results).toEqual([{ kind: 'failed', reply: { code: 552, enhanced: '5.3.4', text: 'Too much already' } }]);
    expect(connection.isVacant).toBe(false);
  });

  test.each([
    ['250 2.0.0 Taken', 'deferred 451'],
    ['552 5.3.4 Too much already', 'failed 552'],
  ])('answered %s before any of it was sent is %s', async (answer, wanted) => {
    const server = await rawServer((line, socket) => {
      if (line.startsWith('DATA')) socket.write(`354 go\r\n${answer}\r\n`);
      else socket.write(line.startsWith('EHLO') ? '250 raw.test\r\n' : '250 ok\r\n');
    });
    const connection = await connectTo(server.port);
    expect(await kinds(connection, mail())).toBe(wanted);
    expect(connection.isVacant).toBe(false);
  });
});

describe('what the next hop offers', () => {
  const umlaut = mail(['a@x.test'], { head: [Buffer.from('Subject: ä\r\n\r\n')] });

  test('declares the size, 8-bit and UTF-8 where they are offered', async () => {
    const sink = await startSink();
    const connection = await connectTo(sink.port);
    await send(connection, mail());
    await send(connection, umlaut);
    await send(connection, mail(['jörg@bücher.example']));
    await send(connection, mail(['joerg@bücher.example'], { body: Buffer.from('ä\r\n') }));
    expect(sink.messages.map((message) => message.mailParameters.join(' '))).toEqual([
      'SIZE=30',
      'SIZE=27 BODY=8BITMIME SMTPUTF8',
      'SIZE=30 SMTPUTF8',
      'SIZE=22 BODY=8BITMIME',
    ]);
    expect(sink.messages[2]?.recipients).toEqual(['jörg@bücher.example']);
    expect(sink.messages[3]?.recipients).toEqual(['joerg@xn--bcher-kva.example']);
  });

  test('fails what it cannot carry, without sending anything of it', async () => {
    const sink = await startSink({ noSmtputf8: true, no8bitmime: true, sizeLimit: 1000 });
    const connection = await connectTo(sink.port);
    const ends = [
      await send(connection, umlaut),
      await send(connection, mail(['jörg@x.test'])),
      await send(connection, mail(['a@x.test'], { body: Buffer.from('ä\r\n') })),
      await send(connection, mail(['a@x.test'], { body: Buffer.alloc(983, 'x') })),
      await send(connection, mail(['a@x.test'], { requireTls: true })),
      await send(connection, mail(['a@x.test\r\nRSET'])),
      await send(connection, mail(['a@x.test'], { reversePath: 'a\r\n@x.test' })),
    ];
    expect(ends.map((end) => `${end.results[0]?.kind} ${end.results[0]?.reply.enhanced}`)).toEqual([
      'failed 5.6.7',
      'failed 5.6.7',
      'failed 5.6.3',
      'failed 5.3.4',
      'failed 5.7.30',
      'failed 5.1.3',
      'failed 5.1.3',
    ]);
    expect(sink.commands).toEqual(['EHLO client.test']);
    const fits = mail(['jörg@x.test', 'a@bücher.example'], { body: Buffer.alloc(982, 'x') });
    expect(await kinds(connection, fits)).toBe('failed 550, delivered 250');
    expect(sink.messages[0]?.recipients).toEqual(['a@xn--bcher-kva.example']);
  });

  test('sends what it must even if it says nothing of a size', async () => {
    const sink = await startSink({ heloOnly: true });
    const connection = await connectTo(sink.port);
    await send(connection, mail(['a@x.test'], { reversePath: '' }));
    expect(sink.commands.slice(0, 3)).toEqual(['EHLO client.test', 'HELO client.test', 'MAIL FROM:<>']);
  });
});

describe('TLS', () => {
  test.each(['starttls', 'implicit'] as const)(
    '%s: the message goes encrypted, the certificate is verified',
    async (mode) => {
      const sink = await startSink({ tls: { mode, ...certificate }, requiretls: true });
      const connection = await connectTo(sink.port, {
        host: 'localhost',
        tls: mode === 'starttls' ? 'required' : 'implicit',
        tlsVerify: true,
        ca: certificate.cert,
      });
      expect(connection.session.verifiedTls).toBe(true);
      expect(await kinds(connection, mail(['a@x.test'], { requireTls: true }))).toBe('delivered 250');
      expect(await kinds(connection, mail(['a@x.test'], { body: Buffer.alloc(300_000, 'line\r\n') }))).toBe(
        'delivered 250',
      );
      expect(sink.messages[0]).toMatchObject({ tls: true, mailParameters: ['SIZE=30', 'REQUIRETLS'] });
      expect(sink.messages[1]?.raw.length).toBe(300_018);
    },
  );

  test('an address is verified as an address', async () => {
    const sink = await startSink(starttls());
    const connection = await connectTo(sink.port, { tls: 'required', tlsVerify: true, ca: certificate.cert });
    expect(connection.session.verifiedTls).toBe(true);
  });

  test('a certificate nobody vouches for, or for another name, is refused where it is verified', async () => {
    const [unknown, wrong] = [await startSink(starttls()), await startSink(starttls(otherName))];
    const verify = { tls: 'opportunistic', tlsVerify: true } as const;
    expect(await failureOf(unknown.port, verify)).toMatch(/^4\.7\.5 The TLS handshake failed: self-signed certificate/);
    expect(await failureOf(wrong.port, { ...verify, ca: otherName.cert })).toMatch(
      /^4\.7\.5 .*IP: 127\.0\.0\.1 is not in/,
    );
    expect(await failureOf(wrong.port, { ...verify, tlsVerify: false })).toBe('connected');
  });

  test('the issuer may be in a file, which is read anew at each handshake', async () => {
    const sink = await startSink(starttls());
    const caFile = join(mkdtempSync(join(tmpdir(), 'postern-ca-')), 'ca.pem');
    const verify = { tls: 'required', tlsVerify: true, caFile } as const;
    expect(await failureOf(sink.port, verify)).toMatch(
      /^4\.3\.5 The certificates that the route trusts cannot be read: ENOENT/,
    );
    writeFileSync(caFile, otherName.cert);
    expect(await failureOf(sink.port, verify)).toMatch(/^4\.7\.5 The TLS handshake failed/);
    writeFileSync(caFile, certificate.cert);
    expect(await failureOf(sink.port, verify)).toBe('connected');
  });

  test('an unverified certificate does not do for REQUIRETLS', async () => {
    const sink = await startSink({ ...starttls(), requiretls: true });
    const connection = await connectTo(sink.port, { tls: 'required' });
    const { results } = await send(connection, mail(['a@x.test'], { requireTls: true }));
    expect(results[0]).toMatchObject({ kind: 'failed', reply: { enhanced: '5.7.30' } });
    expect(await kinds(connection, mail())).toBe('delivered 250');
  });

  test('a next hop without REQUIRETLS does not do for it either', async () => {
    const sink = await startSink(starttls());
    const connection = await connectTo(sink.port, { tls: 'required', tlsVerify: true, ca: certificate.cert });
    expect(await kinds(connection, mail(['a@x.test'], { requireTls: true }))).toBe('failed 550');
  });

  test('is used if offered, gone without if not, and insisted on if required', async () => {
    const [offers, plain] = [await startSink(starttls()), await startSink()];
    await send(await connectTo(offers.port, { tls: 'opportunistic' }), mail());
    await send(await connectTo(plain.port, { tls: 'opportunistic' }), mail());
    await send(await connectTo(offers.port, { tls: 'none' }), mail());
    expect(offers.messages.map((message) => message.tls)).toEqual([true, false]);
    expect(plain.messages[0]?.tls).toBe(false);
    expect(await failureOf(plain.port, { tls: 'required' })).toMatch(/^4\.7\.4 The next hop offers no TLS/);
  });

  test('a refused STARTTLS ends what requires it, and nothing else', async () => {
    const sink = await startSink({ ...starttls(), starttlsReply: '454 4.7.0 TLS is not available' });
    expect(await failureOf(sink.port, { tls: 'required' })).toMatch(/^4\.7\.0 The next hop refused STARTTLS: 454/);
    expect(await kinds(await connectTo(sink.port, { tls: 'opportunistic' }), mail())).toBe('delivered 250');
  });

  test.each(['250-injected.test\r\n250 AUTH PLAIN\r\n', '250', '\r\n'])(
    'octets slipped in behind the 220 of STARTTLS (%j) end the connection',
    async (injectAfterStarttls) => {
      const sink = await startSink({ ...starttls(), injectAfterStarttls });
      expect(await failureOf(sink.port, { tls: 'opportunistic' })).toBe(
        '4.7.0 The next hop sent octets between STARTTLS and TLS',
      );
    },
  );

  test('asks anew what is offered once TLS is on', async () => {
    const sink = await startSink(starttls());
    await connectTo(sink.port, { tls: 'required' });
    expect(sink.commands).toEqual(['EHLO client.test', 'STARTTLS', 'EHLO client.test']);
  });

  test('a peer that speaks no TLS is a failure, not a crash', async () => {
    const sink = await startSink();
    expect(await failureOf(sink.port, { tls: 'implicit' })).toMatch(/^4\.7\.5 The TLS handshake failed/);
  });

  describe('AUTH', () => {
    const auth = { user: 'postern', password: 'sécret' };
    const requireAuth = { user: 'postern', pass: 'sécret' };

    test.each(['PLAIN LOGIN', 'LOGIN', 'CRAM-MD5 PLAIN'])('is given by %s', async (mechanisms) => {
      const sink = await startSink({ ...starttls(), requireAuth: { ...requireAuth, mechanisms } });
      const connection = await connectTo(sink.port, { tls: 'required', auth });
      expect(await kinds(connection, mail())).toBe('delivered 250');
      expect(sink.messages[0]).toMatchObject({ authenticated: true, tls: true });
    });

    test('never goes over a connection without TLS', async () => {
      const sink = await startSink({ requireAuth });
      const anyone = { tlsVerify: false, auth };
      expect(await failureOf(sink.port, { tls: 'opportunistic', ...anyone })).toBe(
        '4.7.0 AUTH is sent only over TLS, and the next hop offers no TLS: use a port of it with STARTTLS or implicit TLS',
      );
      expect(await failureOf(sink.port, { tls: 'none', ...anyone })).toMatch(
        /^4\.7\.0 AUTH is sent only over TLS, and the route says tls: none/,
      );
      const refusing = await startSink({ ...starttls(), requireAuth, starttlsReply: '454 4.7.0 Not now' });
      expect(await failureOf(refusing.port, { tls: 'opportunistic', ...anyone })).toMatch(/^4\.7\.0 AUTH is sent only/);
      expect([...sink.commands, ...refusing.commands].filter((line) => line.startsWith('AUTH'))).toEqual([]);
    });

    test.each(['starttls', 'implicit'] as const)('never goes to a stranger by %s', async (mode) => {
      const [unknown, misnamed] = [
        await startSink({ tls: { mode, ...certificate }, requireAuth }),
        await startSink({ tls: { mode, ...otherName }, requireAuth }),
      ];
      const tls = mode === 'starttls' ? 'opportunistic' : 'implicit';
      const verify = { tls, tlsVerify: true, auth } as const;
      const remedy =
        'the password goes only to a next hop whose certificate is trusted here and names 127.0.0.1: ' +
        'trust its issuer (tls: { ca: FILE } in the route), or say tls: { verify: false } there';
      const failed = await failureOf(unknown.port, verify);
      expect(failed).toMatch(/^4\.7\.5 The TLS handshake failed: self-signed certificate/);
      expect(failed).toContain(`; ${remedy}`);
      expect(await failureOf(misnamed.port, { ...verify, ca: otherName.cert })).toContain(remedy);
      expect([...unknown.commands, ...misnamed.commands].filter((line) => line.startsWith('AUTH'))).toEqual([]);
      expect(await failureOf(unknown.port, { ...verify, ca: certificate.cert })).toBe('connected');
      expect(await failureOf(misnamed.port, { ...verify, tlsVerify: false })).toBe('connected');
    });

    test('refused or not offered defers', async () => {
      const [sink, without] = [await startSink({ ...starttls(), requireAuth }), await startSink(starttls())];
      expect(await failureOf(sink.port, { tls: 'required', auth: { ...auth, password: 'no' } })).toBe(
        '4.7.8 The next hop refused AUTH: 535 5.7.8 Wrong',
      );
      expect(await failureOf(without.port, { tls: 'required', auth })).toMatch(/^4\.7\.0 The next hop offers neither/);
    });
  });
});

describe('a session that does not come about', () => {
  test.each([
    ['554 5.7.1 Go away', '451 4.7.1 The next hop refused the connection: 554 5.7.1 Go away'],
    ['421 Too many connections', '451 4.3.0 The next hop refused the connection: 421 Too many connections'],
    ['hello there', '451 4.5.0 Not a reply: "hello there"'],
  ])('greeting %s', async (greeting, wanted) => {
    expect(await failureAt((await startSink({ greeting })).port)).toBe(wanted);
  });

  test('refused', async () => {
    const sink = await FaultSink.start();
    const { port } = sink;
    await sink.close();
    expect(await failureAt(port)).toBe(`451 4.4.1 Cannot connect: connect ECONNREFUSED 127.0.0.1:${port}`);
  });

  test('a name that does not resolve', async () => {
    const result = await connectSmtp(clientOptions(25, { host: 'no-such-host.invalid' }));
    expect(result).toMatchObject({ refused: { code: 451, enhanced: '4.4.1' } });
  });

  test('silence at the greeting, and after EHLO', async () => {
    const silent = await rawServer(() => undefined, '');
    expect(await failureAt(silent.port, { greeting: 50 })).toMatch(
      /^451 4\.4\.2 Timed out waiting for the reply to the conn/,
    );
    const mute = await rawServer(() => undefined);
    expect(await failureAt(mute.port, { handshake: 50 })).toMatch(
      /^451 4\.4\.2 Timed out waiting for the reply to EHLO/,
    );
  });

  test('closed at once', async () => {
    const server = await rawServer((_line, socket) => socket.destroy());
    expect(await failureAt(server.port)).toMatch(/^451 4\.4\.2 The connection was lost before it was ready/);
  });
});

describe('time', () => {
  test.each([
    ['mail', 'MAIL'],
    ['rcpt', 'RCPT'],
    ['data', 'DATA'],
    ['endOfData', 'end of data'],
  ] as const)('%s: no reply in time defers', async (timeout, stage) => {
    const stopAt = { mail: 'MAIL', rcpt: 'RCPT', data: 'DATA', endOfData: '.' }[timeout];
    const server = await rawServer((line, socket) => {
      if (line.startsWith(stopAt)) return;
      socket.write(
        line.startsWith('DATA') ? '354 go\r\n' : line.startsWith('EHLO') ? '250 raw.test\r\n' : '250 ok\r\n',
      );
    });
    const connection = await connectTo(server.port, short({ [timeout]: 50 }));
    const { results } = await send(connection, mail());
    expect(results[0]).toEqual({
      kind: 'deferred',
      reply: { code: 451, enhanced: '4.4.2', text: `Timed out waiting for the reply to ${stage}` },
    });
  });

  test('a next hop that does not take the content defers', async () => {
    const server = await rawServer((line, socket) => {
      if (line.startsWith('DATA')) socket.pause();
      socket.write(
        line.startsWith('DATA') ? '354 go\r\n' : line.startsWith('EHLO') ? '250 raw.test\r\n' : '250 ok\r\n',
      );
    });
    const connection = await connectTo(server.port, short({ dataBlock: 200 }));
    const { results } = await send(
      connection,
      mail(['a@x.test'], { body: Buffer.alloc(64 * 1024 * 1024, 'line\r\n') }),
    );
    expect(results[0]?.reply.text).toBe('Timed out waiting for the next hop to take the content');
  });

  test('a reply that drips does not go on for ever', async () => {
    const drips: NodeJS.Timeout[] = [];
    closers.push(() => drips.forEach(clearInterval));
    const server = await rawServer((line, socket) => {
      if (line.startsWith('MAIL')) drips.push(setInterval(() => socket.write('250-drip\r\n'), 20));
      else socket.write('250 raw.test\r\n');
    });
    const connection = await connectTo(server.port, short({ transaction: 300 }));
    const { results } = await send(connection, mail());
    expect(results[0]?.reply.text).toMatch(/^Timed out waiting for the reply to MAIL/);
  });

  test('an idle connection says goodbye', async () => {
    const sink = await startSink();
    const connection = await connectTo(sink.port, short({ idle: 50 }));
    await send(connection, mail());
    await new Promise<void>((resolve) => {
      connection.onClosed = resolve;
    });
    await expect.poll(() => sink.commands.at(-1)).toBe('QUIT');
    await expect.poll(() => sink.open).toBe(0);
    expect(connection.isVacant).toBe(false);
  });

  test('goodbye waits for what is under way', async () => {
    const sink = await startSink({ slowMilliseconds: 100 });
    const connection = await connectTo(sink.port);
    const sending = send(connection, mail(['slow@x.test']));
    connection.quit();
    expect(connection.isVacant).toBe(false);
    expect((await sending).results[0]?.kind).toBe('delivered');
    await expect.poll(() => sink.commands.at(-1)).toBe('QUIT');
  });

  test('an idle connection that the next hop ends is closed', async () => {
    const sink = await startSink();
    const connection = await connectTo(sink.port);
    const closed = new Promise<void>((resolve) => {
      connection.onClosed = resolve;
    });
    sink.dropAll();
    await closed;
    expect(connection.isVacant).toBe(false);
  });
});

/** A server of the test's own: greets, then hands every line to `onLine`. */
async function rawServer(
  onLine: (line: string, socket: Socket) => unknown,
  greeting = '220 raw.test\r\n',
): Promise<{ readonly port: number }> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    if (greeting) socket.write(greeting);
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      const lines = text.split('\r\n');
      text = lines.pop() ?? '';
      for (const line of lines) if (/^(EHLO|HELO|MAIL|RCPT|DATA|\.|QUIT)/.test(line)) onLine(line, socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return { port: typeof address === 'object' && address !== null ? address.port : 0 };
}
