import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { dkimRecord, generateDkimKey, parseSigningKey } from '../../../src/pipeline/sign/dkim-key.ts';

const place = { domain: 'example.com', selector: 's1' };
let rsaPem: string;
let edPem: string;

beforeAll(async () => {
  [rsaPem, edPem] = await Promise.all([generateDkimKey('rsa'), generateDkimKey('ed25519')]);
});

test('an RSA key has 2048 bits and its record is that of RFC 6376', () => {
  const { name, value, zone } = dkimRecord({ ...place, pem: rsaPem });
  expect(name).toBe('s1._domainkey.example.com');
  const published = createPublicKey({
    key: Buffer.from(/^v=DKIM1; k=rsa; p=(.*)$/.exec(value)?.[1] ?? '', 'base64'),
    format: 'der',
    type: 'spki',
  });
  expect(published.asymmetricKeyDetails?.modulusLength).toBe(2048);
  const strings = [...zone.matchAll(/"([^"]*)"/g)].map((match) => match[1] ?? '');
  expect(strings.join('')).toBe(value);
  expect(strings[0]).toHaveLength(255);
  expect(strings).toHaveLength(2);
  expect(zone).toMatch(/^s1\._domainkey\.example\.com\. IN TXT \( "/);
});

test('an Ed25519 record has the 32 octets of the key', () => {
  const { value, zone } = dkimRecord({ ...place, pem: edPem });
  expect(Buffer.from(/^v=DKIM1; k=ed25519; p=(.*)$/.exec(value)?.[1] ?? '', 'base64')).toHaveLength(32);
  expect(zone).toBe(`s1._domainkey.example.com. IN TXT "${value}"`);
});

test('a key is parsed once', () => {
  expect(parseSigningKey({ ...place, pem: rsaPem, algorithm: 'rsa' })).toMatchObject({ ...place, algorithm: 'rsa' });
  expect(parseSigningKey({ ...place, pem: edPem, algorithm: 'ed25519' }).key.type).toBe('private');
});

function parse(pem: string, algorithm: 'rsa' | 'ed25519'): () => unknown {
  return () => parseSigningKey({ ...place, pem, algorithm });
}

test('what is wrong with a key is said', () => {
  const weak = generateKeyPairSync('rsa', { modulusLength: 1016 }).privateKey.export({ type: 'pkcs8', format: 'pem' });
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' });
  const at = 'DKIM key s1._domainkey.example.com';
  expect(parse(rsaPem, 'ed25519')).toThrow(`${at} is rsa, not ed25519`);
  expect(parse(edPem, 'rsa')).toThrow(`${at} is ed25519, not rsa`);
  expect(parse(weak.toString(), 'rsa')).toThrow(`${at} has 1016 bits, at least 1024 are needed`);
  expect(parse(ec.toString(), 'rsa')).toThrow(`${at} is ec, only rsa and ed25519 are known`);
  expect(parse('nonsense', 'rsa')).toThrow(`${at} cannot be read as a private key in PEM`);
});
