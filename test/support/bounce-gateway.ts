// A Postern with a bounce listener, and what a test needs to send reports about its messages.

import { randomUUID } from 'node:crypto';
import type { PosternProcess } from './postern-process.ts';
import { connectSmtp, type RawReply, type RawSmtpClient } from './raw-smtp-client.ts';
import { type Reloadable, type ReloadedConfig, startReloadable, testToken } from './reloadable.ts';

/** A message that was accepted, as the next hop has it. */
export interface SentMessage {
  readonly messageId: string;
  /** The id in the spool. */
  readonly id: string;
  /** `b+TOKEN@...` */
  readonly reversePath: string;
  readonly feedbackId: string;
  /** As it left. */
  readonly raw: string;
}

/** The running gateway. */
export interface BounceGateway extends Reloadable {
  readonly postern: PosternProcess;
  /** The account's endpoints, with a token that may do everything. */
  api(method: string, path: string, body?: object): Promise<{ readonly status: number; readonly result: unknown }>;
  /** Sends a message and waits until it has left. */
  send(recipients: readonly string[]): Promise<SentMessage>;
  /** Connects to the bounce listener, from a local address if one is named, and says EHLO. */
  connect(localAddress?: string): Promise<RawSmtpClient>;
  /** Hands in a report. @returns the reply to its end, or the one that refused it before */
  report(recipient: string, message: string, sender?: string): Promise<RawReply>;
  /** The addresses on the account's suppression list, with the reason. */
  suppressed(): Promise<readonly string[]>;
  /** The log lines of one kind. */
  logged(msg: string): readonly Record<string, unknown>[];
}

const account = 'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1';

/** Starts it. The caller ends it by `postern.cleanUp()`. */
export async function startBounceGateway(
  edit: (config: ReloadedConfig) => void = () => undefined,
): Promise<BounceGateway> {
  const reloadable = await startReloadable((config) => {
    for (const listener of config.smtp.listeners) if (listener['name'] === 'bounce') listener['enabled'] = true;
    edit(config);
  });
  const { postern } = reloadable;
  const api: BounceGateway['api'] = async (method, path, body) => {
    const answer = await fetch(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/${account}${path}`, {
      method,
      headers: { authorization: `Bearer ${testToken}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const { result } = (await answer.json()) as { result: unknown };
    return { status: answer.status, result };
  };
  const connect = async (localAddress?: string): Promise<RawSmtpClient> => {
    const client = await connectSmtp(postern.ports['bounce'] ?? 0, '127.0.0.1', localAddress);
    await client.reply();
    await client.command('EHLO reporter.example');
    return client;
  };
  return {
    ...reloadable,
    api,
    connect,
    async send(recipients) {
      const subject = randomUUID();
      const { result } = await api('POST', '/email/sending/send', {
        ...{ from: 'alice@example.com', to: recipients, subject, text: 'Hello.' },
      });
      const messageId = (result as { message_id: string }).message_id;
      const octets = await postern.until(() =>
        postern.captured().find((message) => message.includes(`\r\nSubject: ${subject}\r\n`)),
      );
      const raw = octets.toString('latin1');
      return {
        messageId,
        id: /<?([0-9a-f-]{36})@/.exec(messageId)?.[1] ?? '',
        reversePath: /^Return-Path: <([^>]+)>/m.exec(raw)?.[1] ?? '',
        feedbackId: /^CFBL-Feedback-ID: (\S+)/im.exec(raw)?.[1] ?? '',
        raw,
      };
    },
    async report(recipient, message, sender = '') {
      const client = await connect();
      try {
        for (const line of [`MAIL FROM:<${sender}>`, `RCPT TO:<${recipient}>`, 'DATA']) {
          const reply = await client.command(line);
          if (reply.code >= 400) return reply;
        }
        const dotted = message.replaceAll(/\r?\n/g, '\r\n').replaceAll(/^\./gm, '..');
        return await client.command(`${dotted}\r\n.`);
      } finally {
        client.close();
      }
    },
    async suppressed() {
      const { result } = await api('GET', '/email/sending/suppressions');
      return (result as { address: string; reason: string }[]).map(({ address, reason }) => `${address} ${reason}`);
    },
    logged: (msg) => postern.log().filter((line) => line['msg'] === msg),
  };
}

/** A report as RFC 3464 says. @param fields of the recipient, such as `Status: 5.1.1` */
export function deliveryReport(recipients: readonly string[], fields: readonly string[]): string {
  const groups = recipients.map((recipient) => [`Final-Recipient: rfc822; ${recipient}`, ...fields].join('\n'));
  return `From: MAILER-DAEMON@mx.example.net
Subject: Undelivered
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="=b"

--=b
Content-Type: text/plain

It did not arrive.

--=b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.net

${groups.join('\n\n')}

--=b--
`;
}

/** A complaint as RFC 5965 says, with the message that it returns. */
export function complaint(returned: string, fields: readonly string[] = []): string {
  return `From: fbl@mx.example.net
Subject: Complaint
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary="=b"

--=b
Content-Type: text/plain

This is a complaint.

--=b
Content-Type: message/feedback-report

Feedback-Type: abuse
User-Agent: Reporter/1.0
Version: 1
${fields.map((field) => `${field}\n`).join('')}
--=b
Content-Type: message/rfc822

${returned}
--=b--
`;
}
