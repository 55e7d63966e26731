// However much is wrong with a request, its answer stays small, and every part of it is told or counted.

import { expect, test } from 'vitest';
import { type RestGateway, startRest } from '../../support/rest-gateway.ts';

/** Octets of a whole answer: its faults, and the envelope around them. */
const longestAnswer = 66_000;

const many = 9_900;

function times(count: number, write: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => write(index)).join(',');
}

interface Told {
  readonly octets: number;
  readonly errors: readonly { readonly message: string; readonly source?: { readonly pointer: string } }[];
}

async function refusal(rest: RestGateway, body: string, endpoint = 'send'): Promise<Told> {
  const answer = await rest.post(endpoint, body);
  expect(answer.status).toBe(400);
  return { octets: Buffer.byteLength(answer.text), errors: answer.json.errors };
}

const message = '"from":"shop@example.com","to":"you@example.net","subject":"x","text":"x"';

test('a name of 8 MB over thousands of strings is cut, with its length', async () => {
  const rest = await startRest();
  const { errors, octets } = await refusal(
    rest,
    `{${message},"${'n'.repeat(8_200_000)}":[${times(many, () => '""')}]}`,
  );
  expect(errors).toEqual([
    {
      code: 10001,
      message: `E_VALIDATION_ERROR: "${'n'.repeat(60)}..." (8200000 characters) is no field; there are from, to, cc, bcc, reply_to, subject, text, html, attachments, headers`,
      source: { pointer: `/${'n'.repeat(60)}...(8200000 characters)` },
    },
  ]);
  expect(octets).toBeLessThan(1000);
});

test.each([
  ['a name that repeats under a long one', `{"${'n'.repeat(20_000)}":{${times(many, () => '"a":1')}}}`, 9_904],
  ['unknown names', `{${message},${times(9_000, (n) => `"unknown${n}":1`)}}`, 9_000],
  ['recipients that are none', `{${message},"cc":[${times(1_900, () => '"x"')}]}`, 1_901],
  ['recipients beyond what is read', `{${message},"cc":[${times(5_000, () => '"x"')}]}`, 2],
  ['headers that are refused', `{${message},"headers":{${times(1_900, (n) => `"Unknown-${n}":"x"`)}}}`, 1_900],
  ['headers beyond what is read', `{${message},"headers":{${times(5_000, (n) => `"X-${n}":"x"`)}}}`, 1],
  ['attachments that are none', `{${message},"attachments":[${times(4_900, () => '{"x":1}')}]}`, 9_801],
])('of %s a hundred are told, the others counted', async (_what, body, faults) => {
  const rest = await startRest();
  const { errors, octets } = await refusal(rest, body);
  expect(octets).toBeLessThan(longestAnswer);
  expect(errors.length).toBe(Math.min(faults, 101));
  if (faults > 100) {
    expect(errors[100]).toEqual({
      code: expect.any(Number),
      message: expect.stringMatching(new RegExp(`^E_[A-Z_]+: ${faults - 100} more faults are not told$`)),
    });
  }
  const { octets: verdictOctets, errors: judged } = await verdict(rest, body);
  expect([judged.length, verdictOctets < 1_000_000]).toEqual([errors.length, true]);
});

async function verdict(rest: RestGateway, body: string): Promise<Told> {
  const { text } = await rest.post('validate', body);
  const { result } = JSON.parse(text) as { result: Pick<Told, 'errors'> };
  return { octets: Buffer.byteLength(text), errors: result.errors };
}

test('long pointers count, too: 64 KiB of faults are told', async () => {
  const rest = await startRest();
  const deep = `{"${'a'.repeat(20_000)}":`.repeat(12);
  const { errors, octets } = await refusal(rest, `${deep}{${times(5_000, () => '"a":1')}}${'}'.repeat(12)}`);
  expect(octets).toBeLessThan(longestAnswer);
  expect(errors.at(-1)?.message).toBe(`E_VALIDATION_ERROR: ${5_004 - errors.length + 1} more faults are not told`);
});

test('the verdict on a header of a long name is cut', async () => {
  const rest = await startRest();
  const answer = await rest.post('validate', `{${message},"headers":{"X-${'n'.repeat(200_000)}":"x"}}`);
  expect(Buffer.byteLength(answer.text)).toBeLessThan(3_000);
  expect(answer.text).toContain(`"name":"X-${'n'.repeat(58)}...(200002 characters)"`);
});
