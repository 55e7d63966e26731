// Sending again and previews, at their edges: what a message asked for stays so, who may not send does not, and what waits is small.

import { expect, test } from 'vitest';
import type { Submission } from '../../../src/pipeline/submit.ts';
import type { JournalEntry } from '../../../src/spool/journal/journal.ts';
import { contentEndpoints } from '../../../src/web/admin/journal/content-endpoints.ts';
import { resendEndpoint } from '../../../src/web/admin/journal/resend-endpoint.ts';
import { startConsole } from '../../support/console-app.ts';
import { MemorySpool } from '../../support/memory-spool/memory-spool.ts';

function entry(credential: string, dialogue: string): JournalEntry {
  const facts = { credential, via: 'smtp', sender: 'a@dev.example', recipients: ['b@next.test'], count: 1 };
  const more = { session: 's', dialogue };
  return { seq: 1, id: 'one', at: 0, account: 'dev', outcome: 'delivered', facts, more };
}

const content = {
  receivedHead: Buffer.from('From: a@dev.example\r\nTo: b@next.test\r\n\r\n'),
  receivedBody: Buffer.from('Hi.\r\n'),
};
const again = '/client/v4/accounts/dev/email/sending/journal/one/resend';

async function resend(found: JournalEntry) {
  const seen: Submission[] = [];
  const app = await startConsole({
    plugins: [
      resendEndpoint({
        isOn: true,
        journal: { find: async () => found, content: async () => content },
        events: new MemorySpool({ now: () => 0, monotonic: () => 0 }).events,
        suppressed: async () => false,
        submit: async (submission) => {
          seen.push(submission);
          return { accepted: true, id: 'two', messageId: '<two@platform.example>' };
        },
      }),
    ],
  });
  const { status } = await app.ask(again, { method: 'POST', headers: { Cookie: await app.signIn('dev-editor') } });
  return { status, seen };
}

test('what asked for TLS on its whole way asks for it again', async () => {
  const said = 'S 0 220 mx\nC 1 EHLO c\nC 2 MAIL FROM:<a@dev.example> SIZE=5 REQUIRETLS\nC 3 DATA\n';
  const { status, seen } = await resend(entry('sender', said));
  expect([status, seen.map(({ envelope }) => envelope.requireTls)]).toEqual([200, [true]]);
  const plain = await resend(entry('sender', 'C 2 MAIL FROM:<a@dev.example>\nC 3 RCPT TO:<x@y> REQUIRETLS\n'));
  expect(plain.seen.map(({ envelope }) => envelope.requireTls)).toEqual([false]);
});

test.each(['reader', 'gone'])('a credential that may not send does not send again: %s', async (credential) => {
  const { status, seen } = await resend(entry(credential, ''));
  expect([status, seen]).toEqual([403, []]);
});

test('of the previews of an account that wait, one holds its content', async () => {
  let loaded = 0;
  let most = 0;
  const app = await startConsole({
    plugins: [
      contentEndpoints({
        isOn: true,
        journal: {
          find: async () => entry('sender', ''),
          content: async () => {
            loaded += 1;
            most = Math.max(most, loaded);
            return content;
          },
        },
        reader: {
          preview: async () => {
            await new Promise((done) => setTimeout(done, 5));
            loaded -= 1;
            return { error: 'unreadable' };
          },
          verify: async () => [],
        },
        keyRecords: () => [],
      }),
    ],
  });
  const Cookie = await app.signIn('dev-reader');
  const path = '/client/v4/accounts/dev/email/sending/journal/one/preview';
  const answers = await Promise.all(Array.from({ length: 30 }, () => app.ask(path, { headers: { Cookie } })));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  expect(most).toBe(1);
});
