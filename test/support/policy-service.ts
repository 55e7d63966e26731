// A policy server for Postfix (its SMTPD_POLICY_README): the tests tell by recipient what Postfix is to answer at RCPT.

import { type AddressInfo, createServer, type Server } from 'node:net';

/** A running policy server. */
export interface PolicyService {
  readonly port: number;
  /** Actions by recipient, as in access(5): `450 4.2.0 Come back later`. Others pass. */
  readonly actions: Map<string, string>;
  close(): Promise<void>;
}

function answer(request: string, actions: ReadonlyMap<string, string>): string {
  const recipient = /^recipient=(.*)$/m.exec(request)?.[1] ?? '';
  return `action=${actions.get(recipient) ?? 'DUNNO'}\n\n`;
}

/** Starts one on a free port of loopback. */
export function startPolicyService(): Promise<PolicyService> {
  const actions = new Map<string, string>();
  const server: Server = createServer((socket) => {
    let buffered = '';
    socket.on('error', () => socket.destroy());
    socket.setEncoding('utf8').on('data', (text: string) => {
      buffered += text;
      const requests = buffered.split('\n\n');
      buffered = requests.pop() ?? '';
      for (const request of requests) socket.write(answer(request, actions));
    });
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      resolve({ port, actions, close: () => new Promise((done) => server.close(() => done())) });
    });
  });
}
