// Request smuggling (RFC 9112 §11.2): whatever the framing of a request says, the origin reads no more requests than we
// answered, and none that we did not route.

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { always, type FaultOrigin, faultOrigin } from '../../support/fault-origin.ts';
import { type OriginFront, originFront } from '../../support/origin-front.ts';
import fc from '../../support/properties.ts';
import { rawAsk, rawHttp } from '../../support/raw-http.ts';

let origin: FaultOrigin;
let front: OriginFront;
beforeAll(async () => {
  // It answers each head and closes: what follows a request on its connection is kept and looked at.
  origin = await faultOrigin(always('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok'));
  front = await originFront({ origin: `http://127.0.0.1:${origin.port}` });
});
afterAll(async () => {
  await front.close();
  await origin.close();
});

const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: example.com\r\nX-Smuggled: 1\r\n\r\n';

/** What the origin got since the last call, a string a connection. */
function newlyReceived(): readonly string[] {
  const all = origin.received().slice(seen);
  seen += all.length;
  return all;
}
let seen = 0;

/** Sends a POST with this framing and body, then closes our side; gives the answers' statuses and what arrived. */
async function post(
  fields: string,
  body: string,
): Promise<{ readonly statuses: readonly string[]; readonly arrived: readonly string[] }> {
  const text = await rawAsk(front.port, `POST /first HTTP/1.1\r\nHost: example.com\r\n${fields}\r\n${body}`);
  return {
    statuses: [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => match[1] ?? ''),
    arrived: newlyReceived(),
  };
}

const refusedFramings: readonly (readonly [name: string, fields: string, body: string])[] = [
  ['TE and CL', 'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', `0\r\n\r\n${smuggled}`],
  ['CL and TE', 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${smuggled}`],
  ['chunked, identity', 'Transfer-Encoding: chunked, identity\r\n', `0\r\n\r\n${smuggled}`],
  ['identity', 'Transfer-Encoding: identity\r\n', smuggled],
  ['identity, chunked', 'Transfer-Encoding: identity, chunked\r\n', `0\r\n\r\n${smuggled}`],
  ['gzip, chunked', 'Transfer-Encoding: gzip, chunked\r\n', `0\r\n\r\n${smuggled}`],
  ['chunked, chunked', 'Transfer-Encoding: chunked, chunked\r\n', `0\r\n\r\n${smuggled}`],
  ['chunked on two lines', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${smuggled}`],
  ['chunked and another line', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n', `0\r\n\r\n${smuggled}`],
  ['another line and chunked', 'Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${smuggled}`],
  ['xchunked', 'Transfer-Encoding: xchunked\r\n', `0\r\n\r\n${smuggled}`],
  ['quoted chunked', 'Transfer-Encoding: "chunked"\r\n', `0\r\n\r\n${smuggled}`],
  ['chunked with a vertical tab', 'Transfer-Encoding: \x0bchunked\r\n', `0\r\n\r\n${smuggled}`],
  ['chunked with a parameter', 'Transfer-Encoding: chunked;q=1\r\n', `0\r\n\r\n${smuggled}`],
  ['an empty TE', 'Transfer-Encoding:\r\nContent-Length: 0\r\n', smuggled],
  ['a blank before the colon of TE', 'Transfer-Encoding : chunked\r\n', `0\r\n\r\n${smuggled}`],
  ['a blank before the colon of CL', 'Content-Length : 5\r\n', `12345${smuggled}`],
  ['a folded TE', 'Transfer-Encoding:\r\n chunked\r\n', `0\r\n\r\n${smuggled}`],
  ['a folded field', 'X: 1\r\n Content-Length: 5\r\n', `12345${smuggled}`],
  ['a bare LF in the fields', 'X: 1\nContent-Length: 5\r\n', `12345${smuggled}`],
  ['a bare CR in the fields', 'X: 1\rContent-Length: 5\r\n', `12345${smuggled}`],
  ['NUL in a field', 'X: 1\x00\r\nContent-Length: 5\r\n', `12345${smuggled}`],
  ['two different CL', 'Content-Length: 5\r\nContent-Length: 6\r\n', `12345${smuggled}`],
  ['two equal CL', 'Content-Length: 5\r\nContent-Length: 5\r\n', `12345${smuggled}`],
  ['two CL in a line', 'Content-Length: 5, 5\r\n', `12345${smuggled}`],
  ['+5', 'Content-Length: +5\r\n', `12345${smuggled}`],
  ['-5', 'Content-Length: -5\r\n', `12345${smuggled}`],
  ['0x5', 'Content-Length: 0x5\r\n', `12345${smuggled}`],
  ['5 6', 'Content-Length: 5 6\r\n', `12345${smuggled}`],
  ['a CL beyond 64 bits', 'Content-Length: 18446744073709551621\r\n', `12345${smuggled}`],
  ['a CL beyond 53 bits', 'Content-Length: 9007199254740993\r\n', `12345${smuggled}`],
];

describe('a framing that could be read in two ways reaches no origin', () => {
  test.each(refusedFramings)('%s', async (_name, fields, body) => {
    const { statuses, arrived } = await post(`${fields}Connection: keep-alive\r\n`, body);
    expect(statuses).toHaveLength(1);
    expect(statuses[0]).toMatch(/^(?:400|501)$/);
    expect(arrived.join('')).toBe('');
  });
});

const refusedChunks: readonly (readonly [name: string, body: string])[] = [
  ['a size with a sign', `+5\r\n12345\r\n0\r\n\r\n${smuggled}`],
  ['a size in 0x', `0x5\r\n12345\r\n0\r\n\r\n${smuggled}`],
  ['a size beyond 64 bits', `10000000000000005\r\n12345\r\n0\r\n\r\n${smuggled}`],
  ['no size', `\r\n12345\r\n0\r\n\r\n${smuggled}`],
  ['a blank before the size', ` 5\r\n12345\r\n0\r\n\r\n${smuggled}`],
  ['a bare LF after the size', `5\n12345\r\n0\r\n\r\n${smuggled}`],
  ['a bare LF after the data', `5\r\n12345\n0\r\n\r\n${smuggled}`],
  ['a bare LF in an extension', `5;a\nb\r\n12345\r\n0\r\n\r\n${smuggled}`],
  ['a bare CR after the size', `5\r12345\r\n0\r\n\r\n${smuggled}`],
  ['more data than the size', `5\r\n12345X\r\n0\r\n\r\n${smuggled}`],
  ['an end in bare LF', `5\r\n12345\r\n0\n\n${smuggled}`],
];

describe('chunks that could be read in two ways end the connection', () => {
  test.each(refusedChunks)('%s', async (_name, body) => {
    const { arrived } = await post('Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n', body);
    // The head may have been sent on before the fault came; a second request must not have been.
    expect(arrived.length).toBeLessThanOrEqual(1);
    expect(arrived.join('')).not.toContain('smuggled');
    expect(arrived.join('')).not.toContain('\r\n0\r\n\r\n');
  });
});

describe('what is well framed stays one request', () => {
  test('chunk extensions and trailers are taken off; what follows is a request of its own', async () => {
    const { statuses, arrived } = await post(
      'Transfer-Encoding: Chunked\r\n',
      `5;a=b;c="d"\r\n12345\r\n0;x\r\nX-Trailer: 1\r\nX-Smuggled: 1\r\n\r\n${smuggled.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')}`,
    );
    expect(statuses).toEqual(['200', '200']);
    expect(arrived).toHaveLength(2);
    const first = arrived.find((text) => text.startsWith('POST /first '));
    const second = arrived.find((text) => text.startsWith('GET /smuggled '));
    expect(first).not.toMatch(/smuggled|trailer|;/i);
    expect(second?.match(/Ray-ID/g)).toHaveLength(1);
  });

  test('a body that looks like a request stays a body', async () => {
    const { statuses, arrived } = await post(`Content-Length: ${smuggled.length}\r\nConnection: close\r\n`, smuggled);
    expect(statuses).toEqual(['200']);
    expect(arrived).toHaveLength(1);
    expect(arrived[0]?.endsWith(`\r\n\r\n${smuggled}`) || !arrived[0]?.includes('smuggled')).toBe(true);
  });

  test('leading zeros of a length, and blanks around it', async () => {
    const { statuses, arrived } = await post('Content-Length: \t005 \r\nConnection: close\r\n', '12345');
    expect(statuses).toEqual(['200']);
    expect(arrived[0]).toMatch(/\r\nContent-Length: 5\r\n/);
  });
});

/** Holds one connection's octets against what may be there: one request, framed once, and no more than its framing says. */
function expectOneRequest(text: string): void {
  const end = text.indexOf('\r\n\r\n');
  const head = text.slice(0, end);
  const rest = text.slice(end + 4);
  expect(head).toMatch(/^POST \/first HTTP\/1\.1\r\n/);
  const framings = head.match(/^(?:content-length|transfer-encoding):/gim) ?? [];
  expect(framings.length).toBeLessThanOrEqual(1);
  expect(head.match(/^Host: /gm)).toHaveLength(1);
  const length = /^content-length: *(\d+)$/im.exec(head)?.[1];
  if (framings.length === 0) expect(rest).toBe('');
  else if (length !== undefined) expect(rest.length).toBeLessThanOrEqual(Number(length));
  else expect(rest).toMatch(/^(?:[1-9a-f][0-9a-f]*\r\n[a-z0-9]+\r\n)*(?:0\r\n\r\n)?$/);
}

test('whatever framing fields come together, each request reaches the origin framed once, or not at all', async () => {
  const name = fc.constantFrom(
    ...['Transfer-Encoding', 'transfer-encoding', 'Content-Length', 'Content-Length ', 'Connection', 'Content_Length'],
  );
  const value = fc.constantFrom(
    ...['chunked', ' chunked', 'chunked\t', 'identity', '0', '3', '5', '05', '+3', 'x', '', 'Content-Length', 'Host'],
  );
  const line = fc.tuple(name, value).map(([left, right]) => `${left}: ${right}\r\n`);
  const body = fc.constantFrom('', '12345', '0\r\n\r\n', '3\r\nabc\r\n0\r\n\r\n', '5\r\n12345\r\n0\r\n\r\n');
  const first = origin.received().length;
  let sent = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(line, { maxLength: 4 }), body, async (lines, octets) => {
      const client = await rawHttp(front.port);
      const ask = `POST /first HTTP/1.1\r\nHost: example.com\r\n${lines.join('')}Connection: close\r\n\r\n${octets}${smuggled}`;
      client.socket.end(Buffer.from(ask, 'latin1'));
      await client.closed();
      sent += 1;
      // A connection that was given up before anything was sent on it stays empty.
      for (const text of origin.received().slice(first)) if (text !== '') expectOneRequest(text);
    }),
    { numRuns: 150 },
  );
  expect(origin.received().length).toBeGreaterThan(first + sent / 20);
});
