// Which addresses a bounce listener takes, and for how long (D26, D29, D40a).

import { createSecretKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { uuidv7 } from '../../../src/base/ids.ts';
import { createMinuteRate, readBounceAddress, readFeedbackIds } from '../../../src/doors/bounce/bounce-desk.ts';
import { makeTokens } from '../../../src/mail/return-token.ts';

const dayMs = 86_400_000;
const sentAt = Date.UTC(2026, 0, 1);
const hmacKey = createSecretKey(Buffer.alloc(32, 1));
const id = uuidv7(sentAt);
const { bounce, feedback } = makeTokens(id, hmacKey);
const addresses = {
  ...{ bounceDomain: 'bounces.platform.example', returnPathDomains: new Set(['b.xn--bcher-kva.example']) },
  ...{ hmacKey, tokenDays: 30 },
};

function read(mailbox: string, nowMs = sentAt): unknown {
  return readBounceAddress(mailbox, addresses, nowMs);
}

test('a token counts so many days after its message, to the millisecond', () => {
  const mailbox = `b+${bounce}@bounces.platform.example`;
  expect(read(mailbox, sentAt + 30 * dayMs)).toEqual({ kind: 'bounce', queueId: id });
  expect(read(mailbox, sentAt + 30 * dayMs + 1)).toEqual({ kind: 'expired' });
  // The clock was set back since: the message is from the future, and its token still ours.
  expect(read(mailbox, sentAt - dayMs)).toEqual({ kind: 'bounce', queueId: id });
  expect(readFeedbackIds(['x', feedback], addresses, sentAt + 30 * dayMs)).toBe(id);
  expect(readFeedbackIds([feedback], addresses, sentAt + 30 * dayMs + 1)).toBeUndefined();
  expect(readFeedbackIds([bounce], addresses, sentAt)).toBeUndefined();
});

test('case does not matter, of token, local part and domain; the domain may be in its own script', () => {
  const found = { kind: 'bounce', queueId: id };
  expect(read(`B+${bounce.toUpperCase()}@BOUNCES.Platform.example`)).toEqual(found);
  expect(read(`b+${bounce}@b.bücher.example`)).toEqual(found);
  expect(read('FBL@bounces.platform.example')).toEqual({ kind: 'feedback' });
});

test('every other address is unknown', () => {
  const other = makeTokens(id, createSecretKey(Buffer.alloc(32, 2))).bounce;
  for (const mailbox of [
    ...[
      `b+${other}@bounces.platform.example`,
      `b+${feedback}@bounces.platform.example`,
      `b+${bounce}@platform.example`,
    ],
    ...[`b+${bounce}=@bounces.platform.example`, `b+${bounce.slice(1)}@bounces.platform.example`, `b+${bounce}`],
    ...['fbl@b.xn--bcher-kva.example', 'fbl', '', '@bounces.platform.example', `b-${bounce}@bounces.platform.example`],
    `"b+${bounce}"@bounces.platform.example`,
  ]) {
    expect(read(mailbox), mailbox).toEqual({ kind: 'unknown' });
  }
});

test('the rate of an address is that of a minute, of IPv6 that of a /64, and the addresses remembered are bounded', () => {
  let now = 0;
  const isOver = createMinuteRate('x', { now: () => now });
  const isSecond = (address: string) => isOver(address, 1);
  expect(['192.0.2.1', '192.0.2.1', '192.0.2.2'].map(isSecond)).toEqual([false, true, false]);
  expect(['2001:db8::1', '2001:db8::2'].map(isSecond)).toEqual([false, true]);
  now = 59_999;
  expect(isSecond('192.0.2.1')).toBe(true);
  now = 60_000;
  expect(isSecond('192.0.2.1')).toBe(false);
  for (let at = 0; at < 10_000; at += 1) void isOver(`10.0.${at >> 8}.${at & 255}`, 1);
  expect(isSecond('192.0.2.1')).toBe(false);
});
