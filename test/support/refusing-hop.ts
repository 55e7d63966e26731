// A next hop that refuses each recipient as its local part says, and takes the others.

import { createServer, type Socket } from 'node:net';

/** What it answers for a recipient, at RCPT or behind the data, by the local part; others are taken. */
export type Refusals = Readonly<Record<string, { readonly rcpt?: string; readonly data?: string }>>;

/** A running next hop. */
export interface RefusingHop {
  readonly port: number;
  /** What was taken, in the order of its coming, one for each recipient; line ends are CRLF. */
  readonly taken: { readonly recipient: string; readonly message: string }[];
  close(): void;
}

/** One session of the next hop: as much SMTP as these servers speak. */
function serve(socket: Socket, refusals: Refusals, taken: RefusingHop['taken']): void {
  let buffered = '';
  let recipients: string[] = [];
  let data: string[] | undefined;
  const answer = (line: string): void => void socket.write(`${line}\r\n`);
  const endOfData = (lines: readonly string[]): string => {
    const causes = recipients.map((recipient) => recipient.split('@')[0] ?? '');
    const refused = causes.map((cause) => refusals[cause]?.data).find((line) => line !== undefined);
    if (refused !== undefined) return refused;
    for (const recipient of recipients) taken.push({ recipient, message: `${lines.join('\r\n')}\r\n` });
    return '250 2.0.0 Ok';
  };
  const take = (line: string): string | undefined => {
    if (data) {
      if (line !== '.') {
        data.push(line.startsWith('.') ? line.slice(1) : line);
        return undefined;
      }
      const lines = data;
      data = undefined;
      return endOfData(lines);
    }
    const verb = line.slice(0, 4).toUpperCase();
    if (verb === 'EHLO') return '250-next.example.net\r\n250-PIPELINING\r\n250-ENHANCEDSTATUSCODES\r\n250 8BITMIME';
    if (verb === 'HELO') return '250 next.example.net';
    if (verb === 'MAIL') {
      recipients = [];
      return '250 2.1.0 Ok';
    }
    if (verb === 'RCPT') {
      const recipient = /<([^>]*)>/.exec(line)?.[1] ?? '';
      const refused = refusals[recipient.split('@')[0] ?? '']?.rcpt;
      if (refused === undefined) recipients.push(recipient);
      return refused ?? '250 2.1.5 Ok';
    }
    if (verb === 'DATA') {
      if (recipients.length === 0) return '554 5.5.1 No valid recipients';
      data = [];
      return '354 Go on';
    }
    return verb === 'QUIT' ? '221 2.0.0 Bye' : '250 2.0.0 Ok';
  };
  socket.on('error', () => socket.destroy());
  answer('220 next.example.net ESMTP');
  socket.setEncoding('latin1').on('data', (text: string) => {
    buffered += text;
    for (let at = buffered.indexOf('\r\n'); at >= 0; at = buffered.indexOf('\r\n')) {
      const reply = take(buffered.slice(0, at));
      buffered = buffered.slice(at + 2);
      if (reply !== undefined) answer(reply);
    }
  });
}

/** Starts it on a free port of loopback. */
export async function startRefusingHop(refusals: Refusals): Promise<RefusingHop> {
  const taken: RefusingHop['taken'] = [];
  const server = createServer((socket) => serve(socket, refusals, taken));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return { port: typeof address === 'object' && address ? address.port : 0, taken, close: () => server.close() };
}
