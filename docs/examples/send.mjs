// Sends one message through Postern: POSTERN_TOKEN=... node send.mjs you@example.net
// It needs the client: docs/binding.md tells how to get it.

import { createEmailBinding } from 'postern-client';

const email = createEmailBinding({
  endpoint: process.env.POSTERN_ENDPOINT ?? 'http://127.0.0.1:8080',
  token: process.env.POSTERN_TOKEN ?? '',
  account: process.env.POSTERN_ACCOUNT ?? 'dev',
});

try {
  const { messageId } = await email.send(
    {
      from: { email: 'shop@example.com', name: 'The shop' },
      to: process.argv[2] ?? 'you@example.net',
      replyTo: 'help@example.com',
      subject: 'Your order 4711',
      text: 'Thank you. The receipt is attached.',
      html: '<p>Thank you. The receipt is attached.</p>',
      headers: { 'X-Campaign-ID': 'orders', 'Auto-Submitted': 'auto-generated' },
      attachments: [{ content: Buffer.from('4711: one kettle\n'), filename: 'receipt.txt', type: 'text/plain' }],
    },
    // The same key again sends nothing twice, so this call may safely be repeated, by the binding and by you.
    { idempotencyKey: 'order-4711' },
  );
  console.log(`Accepted as ${messageId}`);
} catch (error) {
  console.error(`Not sent: ${error.message}`);
  for (const { code, pointer } of error.violations ?? []) console.error(`  ${code} ${pointer ?? ''}`);
  process.exitCode = 1;
}
