// What a gateway opens in which order as it starts.

import { expect, test } from 'vitest';
import { freePort } from '../support/free-port.ts';
import { startHere } from '../support/postern-here.ts';
import { RawClient } from '../support/smtp-peers.ts';

test('HTTP listens once mail is taken: requests that came before would be 503, though another process would answer them', async () => {
  const port = await freePort();
  let greeting = '';
  const postern = await startHere({
    env: { POSTERN_SMTP_PORT: String(port), POSTERN_SMTPS_PORT: '0', POSTERN_HTTP_PORT: '0' },
    aboutToListen: async () => {
      const client = RawClient.open(port);
      greeting = await client.reply();
      client.destroy();
    },
  });
  await postern.cleanUp();
  expect(greeting).toMatch(/^220 /);
});
