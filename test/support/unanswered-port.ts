// A port whose connections are never established: a stopped process listens there, and its queue of connections is full.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const program = `require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () {
  process.stdout.write(String(this.address().port) + '\\n');
});`;

/** Such a port; `close` gives it back. */
export interface UnansweredPort {
  readonly port: number;
  close(): void;
}

async function isEstablished(socket: Socket): Promise<boolean> {
  return await Promise.race([once(socket, 'connect').then(() => true), sleep(500).then(() => false)]);
}

/** Makes one on loopback. @throws Error where the system goes on establishing connections */
export async function unansweredPort(): Promise<UnansweredPort> {
  const child: ChildProcess = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'ignore'] });
  const sockets: Socket[] = [];
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
    child.kill('SIGKILL');
  };
  const [said] = child.stdout ? await once(child.stdout, 'data') : [''];
  const port = Number(String(said));
  child.kill('SIGSTOP');
  for (let count = 0; count < 16; count += 1) {
    const socket = connect({ port, host: '127.0.0.1' }).on('error', () => undefined);
    sockets.push(socket);
    if (!(await isEstablished(socket))) return { port, close };
  }
  close();
  throw new Error('A stopped process still gets connections');
}
