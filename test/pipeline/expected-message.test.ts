// What the pipeline tells the spool of messages that are still on their way, for which a commit waits.

import { expect, test } from 'vitest';
import { createSubmit } from '../../src/pipeline/submit.ts';
import { platform, submissionOf } from '../support/checked.ts';
import { makeKey } from '../support/dkim.ts';
import { clockOf } from '../support/manual-clock.ts';
import { MemorySpool } from '../support/memory-spool/memory-spool.ts';
import { someTime } from '../support/spool-entry.ts';

const { signing } = await makeKey('example.com', 's1', 'ed25519');

/** Submits a message. @param keys gives what signs it @returns what came of it, and how many messages were expected on the way and are now */
async function submitted(raw: string, keys = () => [signing]) {
  const spool = new MemorySpool(clockOf(() => someTime));
  const onTheWay: number[] = [];
  const add = spool.add.bind(spool);
  spool.add = (entry, until) => {
    onTheWay.push(spool.expected);
    return add(entry, until);
  };
  const submit = createSubmit({
    clock: clockOf(() => someTime),
    hostname: 'mx.platform.example',
    platform,
    sendingDomain: (_, name) => ({ name, subdomains: false, dkim: [] }),
    domainKeys: () => {
      onTheWay.push(spool.expected);
      return keys();
    },
    platformKeys: [],
    wantsPlatformSignature: () => false,
    spool,
    expireAfterSeconds: 1000,
    onAccepted: () => undefined,
    onRefused: () => undefined,
  });
  const outcome = await submit(submissionOf(raw)).then(
    ({ accepted }) => accepted,
    (error: unknown) => String(error),
  );
  return { outcome, onTheWay, left: spool.expected };
}

const good = 'From: a@example.com\nSubject: Hi\n\nHi\n';

test('a message is expected until it is added, so that its own commit waits for others alone', async () => {
  expect(await submitted(good)).toEqual({ outcome: true, onTheWay: [1, 0], left: 0 });
});

test('a message that is refused, or fails, is expected no longer', async () => {
  expect(await submitted(`Foo: bar\n${good}`)).toEqual({ outcome: false, onTheWay: [], left: 0 });
  const fail = () => {
    throw new Error('no key');
  };
  expect(await submitted(good, fail)).toEqual({ outcome: 'Error: no key', onTheWay: [1], left: 0 });
});
