import { createHmac, createSecretKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { base32 } from '../../src/base/ids.ts';
import { makeTokens, readBounceLocalPart, readToken } from '../../src/mail/return-token.ts';
import fc from '../support/properties.ts';

const key = createSecretKey(Buffer.alloc(32, 1));
const other = createSecretKey(Buffer.alloc(32, 2));

test('a token gives its message back, in any case, for its kind and key only', () => {
  fc.assert(
    fc.property(fc.uuid(), (id) => {
      const { bounce, feedback } = makeTokens(id, key);
      expect(bounce).toMatch(/^[a-z2-7]{52}$/);
      expect(`b+${bounce}`.length).toBeLessThanOrEqual(64);
      expect(readToken(bounce.toUpperCase(), 'bounce', key)).toBe(id);
      expect(readToken(feedback, 'feedback', key)).toBe(id);
      expect(readToken(bounce, 'feedback', key)).toBeUndefined();
      expect(readToken(feedback, 'bounce', key)).toBeUndefined();
      expect(readToken(bounce, 'bounce', other)).toBeUndefined();
      expect(readBounceLocalPart(`B+${bounce}`, key)).toBe(id);
    }),
    { numRuns: 50 },
  );
});

test('no other token is one', () => {
  const { bounce } = makeTokens('019aa5b8-5c00-7abc-8def-0123456789ab', key);
  for (let index = 0; index < bounce.length; index += 1) {
    for (const digit of 'abcdefghijklmnopqrstuvwxyz234567') {
      if (digit === bounce[index]) continue;
      const changed = bounce.slice(0, index) + digit + bounce.slice(index + 1);
      expect(readToken(changed, 'bounce', key)).toBeUndefined();
    }
  }
  for (const wrong of ['', bounce.slice(1), `${bounce}a`, bounce.replace(/^./, '0'), `${bounce.slice(0, 51)}ä`]) {
    expect(readToken(wrong, 'bounce', key)).toBeUndefined();
  }
  expect(readBounceLocalPart(bounce, key)).toBeUndefined();
});

test('an id that is no UUID is a fault of ours', () => {
  expect(() => makeTokens('42', key)).toThrow('it is no UUID');
});

test('what authenticates a token is HMAC-SHA256 of the id, whatever the length of the key', () => {
  const id = '019aa5b8-5c00-7abc-8def-0123456789ab';
  for (const length of [1, 32, 63, 64, 65, 200]) {
    const ofLength = createSecretKey(Buffer.alloc(length, 7));
    const octets = Buffer.from(id.replaceAll('-', ''), 'hex');
    const mac = createHmac('sha256', ofLength).update('postern return token 1\0').update(octets).digest();
    // Twice, since what is kept of a key is written over for each id.
    makeTokens('019aa5b8-5c00-7abc-8def-ffffffffffff', ofLength);
    const { bounce, feedback } = makeTokens(id, ofLength);
    expect(bounce).toBe(base32(Buffer.concat([octets, mac.subarray(0, 16)])));
    expect(feedback).toBe(base32(Buffer.concat([octets, mac.subarray(16)])));
  }
});
