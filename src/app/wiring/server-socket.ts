// How commands reach the running server: a Unix socket in the data folder for its owner alone; a question, a line of JSON, the end.

import { mkdirSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { errorCode, errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { DestinationView } from '../../delivery/transport.ts';
import type { ReloadOutcome } from './reload.ts';

function socketFile(dataDir: string): string {
  return join(dataDir, 'postern.sock');
}

/** The server as far as it is asked. */
export interface AskedServer {
  readonly config: { readonly file: string };
  reload(why: string): Promise<ReloadOutcome>;
  destinations(): readonly DestinationView[] | Promise<readonly DestinationView[]>;
}

/** The questions, and what answers each. */
const answers = {
  reload: (server: AskedServer) => server.reload('command'),
  file: (server: AskedServer) => server.config.file,
  destinations: (server: AskedServer) => server.destinations(),
} as const;

type Question = keyof typeof answers;
const longestQuestion = 'destinations\n'.length;

function isQuestion(text: string): text is Question {
  return Object.hasOwn(answers, text);
}

/** How long a client may take to send its line, in milliseconds. */
const questionMs = 5000;
/** Clients served at the same time; connections beyond that are closed at once. */
const mostAsking = 32;

function serveOne(socket: Socket, server: AskedServer): void {
  let asked = '';
  // A client that sends nothing must not keep a stopping process alive.
  socket.unref();
  socket.setEncoding('utf8');
  socket.setTimeout(questionMs, () => socket.destroy());
  socket.on('error', () => socket.destroy());
  socket.on('data', (text: string) => {
    if (asked.endsWith('\n') || asked.length >= longestQuestion) return;
    asked += text;
    if (!asked.endsWith('\n') && asked.length < longestQuestion) return;
    socket.setTimeout(0);
    const question = asked.slice(0, -1);
    if (!asked.endsWith('\n') || !isQuestion(question)) {
      socket.destroy();
      return;
    }
    // `reload` never rejects.
    void Promise.resolve(answers[question](server)).then((answer) => socket.end(`${JSON.stringify(answer)}\n`));
  });
}

/** Binds the socket, which only its owner can open from its first moment on. */
function listenOn(server: Server, file: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    const before = process.umask(0o177);
    try {
      // `listen` creates the file before it returns.
      server.listen(file, () => {
        server.removeListener('error', reject);
        resolve();
      });
    } finally {
      process.umask(before);
    }
  });
}

function isAnswered(file: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(file);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/** Binds the socket, and replaces one that a killed process has left. @throws Error where it cannot */
async function bind(server: Server, file: string): Promise<void> {
  try {
    await listenOn(server, file);
  } catch (error) {
    if (errorCode(error) !== 'EADDRINUSE') throw error;
    if (await isAnswered(file)) throw new Error('another server on this data folder has it', { cause: error });
    rmSync(file, { force: true });
    await listenOn(server, file);
  }
}

/** Opens the socket of a data folder. Where that fails, the server runs without it: the log says why, and SIGHUP still works. */
export async function openServerSocket(dataDir: string, asked: AskedServer, log: Logger) {
  const file = socketFile(dataDir);
  const server = createServer((socket) => serveOne(socket, asked));
  server.maxConnections = mostAsking;
  server.unref();
  try {
    // With PostgreSQL nobody else needs the folder.
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    await bind(server, file);
  } catch (error) {
    server.close();
    log.warn({ file, reason: errorMessage(error) }, '"postern reload" cannot reach this server; SIGHUP can');
    return { close: () => undefined };
  }
  server.on('error', (error: Error) => log.warn({ file, reason: error.message }, 'the socket for reloads failed'));
  return {
    // Closing the server removes the socket's file.
    close: () => void server.close(),
  };
}

/** How long the command waits for a reload, in milliseconds. A reload may wait for another one and for locks. */
const answerMs = 60_000;

function turnedAway(file: string): string {
  return (
    `The server at ${file} closed the connection without an answer: it is ending, which its log tells, or ` +
    `${mostAsking} others are asking it; try again in a moment`
  );
}

/** Asks the server on a data folder. @returns its answer; undefined where no server runs there. @throws Error as `askToReload` */
function ask(dataDir: string, question: Question): Promise<unknown> {
  const file = socketFile(dataDir);
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(file);
    socket.setEncoding('utf8');
    socket.setTimeout(answerMs, () => socket.destroy(new Error(`no answer within ${answerMs / 1000} s`)));
    socket.on('connect', () => socket.write(`${question}\n`));
    socket.on('data', (text: string) => (answer += text));
    socket.on('error', (error) => {
      const code = errorCode(error);
      if (code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'ENOTDIR') resolve(undefined);
      else if (code === 'EPIPE' || code === 'ECONNRESET') reject(new Error(turnedAway(file), { cause: error }));
      else reject(new Error(`Cannot ask the server at ${file}: ${errorMessage(error)}`, { cause: error }));
    });
    socket.on('close', () => {
      try {
        resolve(JSON.parse(answer));
      } catch {
        // A line that is no JSON is no answer.
        reject(new Error(turnedAway(file)));
      }
    });
  });
}

/** Asks the server on a data folder to reload. @returns how it ended; undefined where none runs @throws Error where it cannot be asked */
export async function askToReload(dataDir: string): Promise<ReloadOutcome | undefined> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it is the answer of this very file
  return (await ask(dataDir, 'reload')) as ReloadOutcome | undefined;
}

/** Asks the server on a data folder for its configuration file. @returns its path; undefined as of `askForDestinations` */
export async function askForFile(dataDir: string): Promise<string | undefined> {
  const answer = await ask(dataDir, 'file').catch(() => undefined);
  return typeof answer === 'string' ? answer : undefined;
}

/** Asks the server on a data folder how it serves its next hops; undefined where none runs that knows the question. */
export async function askForDestinations(dataDir: string): Promise<readonly DestinationView[] | undefined> {
  try {
    const answer = await ask(dataDir, 'destinations');
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it is the answer of this very file
    return Array.isArray(answer) ? (answer as readonly DestinationView[]) : undefined;
  } catch {
    return undefined;
  }
}
