// A route that leads back to the gateway itself: the loop ends after a few passes, also where the trace is removed (D4, D4a).

import { afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { freePort } from '../support/free-port.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { RawClient } from '../support/smtp-peers.ts';

let postern: PosternHere | undefined;
afterEach(() => postern?.cleanUp());

const ours = ['DKIM-Signature', 'Feedback-ID', 'CFBL-*'];

test.each([
  ['of a trusted hop', { trustedHop: true, strip: ours }],
  ['of a mailer whose trace is removed', { strip: ['Received', ...ours] }],
])(
  'a loop %s ends, and its sender is told once',
  async (_, credential) => {
    const port = await freePort();
    const config = deviceConfiguration({
      routes: [
        {
          name: 'circle',
          type: 'smarthost',
          url: `smtp://127.0.0.1:${port}`,
          tls: 'none',
          match: { recipientDomains: ['loop.test'] },
        },
        captureRoute,
      ],
      credential,
      // The reverse-path that leaves must be one that may come in.
      account: { sendingDomains: [{ name: 'example.com' }, { name: 'bounces.platform.example' }] },
    });
    const text = JSON.stringify({ ...config, reports: { gatherSeconds: 0 } }).replace(
      '127.0.0.1:0","tls":"none"',
      `127.0.0.1:${port}","tls":"none"`,
    );
    postern = await startHere({ config: JSON.parse(text) as object });
    const client = RawClient.open(port);
    await client.reply();
    await client.ask('EHLO client.example');
    await client.ask('MAIL FROM:<alice@example.com>');
    await client.ask('RCPT TO:<bob@loop.test>');
    await client.ask('DATA');
    client.send('From: a@example.com\r\nSubject: Round and round\r\n\r\nHi\r\n.\r\n');
    expect(await client.reply()).toMatch(/^250/);
    client.destroy();
    const failed = await postern.until(() => postern?.log().find(({ msg }) => msg === 'failed'));
    expect(failed).toMatchObject({ code: 554, enhanced: '5.4.6' });
    expect(String(failed['reply'])).toMatch(/^E_MAIL_LOOP: The message has passed this gateway 4 times/);
    await postern.until(() => postern?.captured().length === 1);
    expect(postern.log().filter(({ msg, via }) => msg === 'accepted' && via === 'smtp')).toHaveLength(4);
    expect(postern.captured()[0]?.toString('latin1')).toContain('The message went in a circle.');
  },
  60_000,
);
