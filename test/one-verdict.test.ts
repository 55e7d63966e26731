// D1: the same custom headers get the same codes in the same order through every door, and where they are accepted, the
// same octets leave. Header sets are generated; every door is the real one, over a socket where it has one.

import { afterAll, beforeAll, expect, test } from 'vitest';
import { findHeader } from '../src/pipeline/policy/header-catalogue.ts';
import { builtPolicy, type PolicyModule } from './support/built-policy.ts';
import { type Door, type Doors, type DoorVerdict, openDoors, requestJson, smtpMessage } from './support/doors.ts';
import { type HeaderSet, headerSet, isTakenOutOverSmtp, oneOfEach } from './support/header-sets.ts';
import fc from './support/properties.ts';

// With the seed that is the same at each run the sets are too; `npm run test:properties` looks at three times as many others.
const runs = process.env['POSTERN_PROPERTY_SEED'] === undefined ? 35 : 105;
/** Sets of one run. */
const setsOfRun = 20;

let opened: Doors;
let policy: PolicyModule;
beforeAll(async () => {
  opened = await openDoors();
  policy = await builtPolicy();
}, 60_000);
afterAll(() => opened?.close());

/** Field lines of the set's own headers as they leave, folds and all, in their order. */
function customLines({ headers }: HeaderSet, head: string | undefined): readonly string[] | undefined {
  const names = new Set(headers.filter(({ name }) => !isTakenOutOverSmtp(name)).map(({ name }) => name.toLowerCase()));
  return head?.split(/\r\n(?![ \t])/).filter((line) => names.has(line.slice(0, line.indexOf(':')).toLowerCase()));
}

/** SMTP prints 20 lines and counts the rest (D7). */
function asOverSmtp(codes: readonly string[]): readonly string[] {
  return codes.length > 20 ? [...codes.slice(0, 20), `and ${codes.length - 20} more`] : codes;
}

/** What `headers` of a request are refused for that SMTP lifts, reads or replaces (D3): one reason a name. */
function takenOutCodes({ headers }: HeaderSet): readonly string[] {
  const names = new Set(
    headers
      .map(({ name }) => name)
      .filter(isTakenOutOverSmtp)
      .map((name) => name.toLowerCase()),
  );
  return [...names].map((name) => (findHeader(name)?.apiField ? 'E_HEADER_USE_API_FIELD' : 'E_HEADER_NOT_ALLOWED'));
}

function codesOf({ violations }: DoorVerdict): readonly string[] {
  return violations.map(({ code }) => code);
}

async function judgeAll(set: HeaderSet): Promise<Readonly<Record<Door['name'], DoorVerdict>>> {
  const verdicts = await Promise.all(opened.doors.map(async (door) => [door.name, await door.judge(set)] as const));
  return Object.fromEntries(verdicts) as Record<Door['name'], DoorVerdict>;
}

const options = { sendingDomains: ['example.com'], account: 'dev', reversePath: 'app@example.com' };

/** Fails unless the built policy package says what the doors say, in their words, and lets the same octets leave. */
function expectPolicyAgrees(set: HeaderSet, { REST, SMTP }: Readonly<Record<'REST' | 'SMTP', DoorVerdict>>): void {
  const ofRequest = policy.judge({ json: requestJson(set) }, options);
  const ofMessage = policy.judge(smtpMessage(set), options);
  expect(ofRequest.violations.map(({ code, message }) => ({ code, message }))).toEqual(
    REST.violations.map(({ code, message }) => ({ code, message })),
  );
  expect(asOverSmtp(ofMessage.violations.map(({ code }) => code))).toEqual(codesOf(SMTP));
  const head = ({ wouldLeave }: typeof ofMessage) => wouldLeave && Buffer.from(wouldLeave).toString('latin1');
  expect(customLines(set, head(ofRequest) ?? undefined)).toEqual(customLines(set, REST.head));
  expect(customLines(set, head(ofMessage) ?? undefined)).toEqual(customLines(set, SMTP.head));
}

/** Fails unless every door says the same; gives of each set the codes of the doors that see every header. */
async function expectOneVerdict(sets: readonly HeaderSet[]): Promise<readonly (readonly string[])[]> {
  const codes: (readonly string[])[] = [];
  for (const [index, check] of (await opened.check(sets)).entries()) {
    const set = sets[index];
    if (set) codes.push(await expectVerdictOf(set, check));
  }
  return codes;
}

async function expectVerdictOf(set: HeaderSet, check: DoorVerdict): Promise<readonly string[]> {
  const { SMTP, REST, validate, binding } = await judgeAll(set);
  const taken = REST.violations.filter(({ name }) => name !== undefined && isTakenOutOverSmtp(name));
  expect(taken.map(({ code }) => code)).toEqual(takenOutCodes(set));
  const codes = REST.violations.filter((violation) => !taken.includes(violation)).map(({ code }) => code);
  expect(validate.violations).toEqual(REST.violations);
  expect(binding.violations).toEqual(REST.violations);
  expect(codesOf(check)).toEqual(codes);
  expect(codesOf(SMTP)).toEqual(asOverSmtp(codes));
  expectPolicyAgrees(set, { REST, SMTP });

  const lines = customLines(set, SMTP.head);
  expect(lines?.length).toBe(
    codes.length > 0
      ? undefined
      : set.headers.length - set.headers.filter(({ name }) => isTakenOutOverSmtp(name)).length,
  );
  expect(customLines(set, check.head)).toEqual(lines);
  for (const { head } of [REST, validate, binding])
    expect(customLines(set, head)).toEqual(taken.length > 0 ? undefined : lines);
  return codesOf(REST);
}

test('one of each: every rule is reached, and every door gives its code', { timeout: 60_000 }, async () => {
  const seen = new Set<string>();
  const found = await expectOneVerdict(oneOfEach.map(([set]) => set));
  for (const [index, [set, expected]] of oneOfEach.entries()) {
    const codes = found[index] ?? [];
    expect({ set, codes }).toEqual({ set, codes: expected });
    for (const code of codes) seen.add(code);
  }
  // The seven codes of headers.
  expect([...seen].sort()).toEqual([
    'E_HEADERS_TOO_LARGE',
    'E_HEADERS_TOO_MANY',
    'E_HEADER_NAME_INVALID',
    'E_HEADER_NOT_ALLOWED',
    'E_HEADER_USE_API_FIELD',
    'E_HEADER_VALUE_INVALID',
    'E_HEADER_VALUE_TOO_LONG',
  ]);
});

test('generated sets: one verdict through every door, and the same octets leave', { timeout: 300_000 }, async () => {
  let accepted = 0;
  const sets = fc.array(headerSet, { minLength: setsOfRun, maxLength: setsOfRun });
  const property = fc.asyncProperty(sets, async (some) => {
    accepted += (await expectOneVerdict(some)).filter((codes) => codes.length === 0).length;
  });
  await fc.assert(property, { numRuns: runs });
  // Doors that refuse everything would agree as well.
  expect(accepted).toBeGreaterThan((runs * setsOfRun) / 5);
  expect(accepted).toBeLessThan((runs * setsOfRun * 4) / 5);
});
